package record

import (
	"fmt"
	"io"
	"math"
)

// Figures are the latencies of one request, by the definitions that [Summarise] uses. A failed request has none: each is
// n/a with its class as the reason.
type Figures struct {
	// TTFT, TTFO, E2E and E2ELast count from the schedule, those with Send from the last byte written; all ms.
	TTFT, TTFTSend, TTFO, E2E, E2ESend, E2ELast Value
	// Tail is from the last payload to the end; Stall the longest gap between two reads; TPOT the time per output token, ms.
	Tail, Stall, TPOT Value
	// Stalls counts gaps over ten times the median gap of this answer.
	Stalls int
	// OutTokens is n/a when the server gave no count that can be true.
	OutTokens Value
	// ICL holds the gaps between reads, ms, and ITL those between tokens, in order; nil when there are none or they cannot be
	// told. EventGaps holds the gaps between payload events, ms: those within one read are 0.
	ICL       []float64
	ITL       []Weighted
	EventGaps []float64
}

// Weighted is a latency, ms, that counts N times: the gap that the N tokens of one read share, or a value of its own.
type Weighted struct {
	MS float64
	N  int
}

// FiguresOf takes the figures of one request. The stream is that of the same request; the zero Stream for an answer that
// was not streamed.
func FiguresOf(s *Sample, st Stream) Figures {
	if s.Class != OK {
		na := NA("the request ended as " + string(s.Class))
		return Figures{na, na, na, na, na, na, na, na, na, 0, na, nil, nil, nil}
	}
	r := requestOf(s, st)
	f := Figures{
		TTFT: ttft(r, r.Sched).value(), TTFTSend: ttft(r, r.sent()).value(), TTFO: ttfo(r).value(),
		E2E: e2e(r, r.Sched).value(), E2ESend: e2e(r, r.sent()).value(), E2ELast: e2eLast(r).value(),
		Tail: tail(r).value(), Stall: stall(r).value(), TPOT: tpot(r).value(), Stalls: r.stalls(), OutTokens: NA("token counts unknown"),
	}
	if n := r.outTokens(); n != nil {
		f.OutTokens = Of(float64(*n))
	}
	interChunk(r, func(ms float64, _ int) { f.ICL = append(f.ICL, ms) })
	interToken(r, func(ms float64, weight int) { f.ITL = append(f.ITL, Weighted{ms, weight}) })
	var at, before int64
	for i, gap := range st.T {
		at += gap
		if i > 0 {
			f.EventGaps = append(f.EventGaps, float64(onGrid(at)-before)/1e6)
		}
		before = onGrid(at)
	}
	return f
}

func (r reading) value() Value {
	switch {
	case r.unknown != "":
		return NA(r.unknown)
	case r.without != "":
		return NA(r.without)
	default:
		return Of(r.ms)
	}
}

// Counts reports whether a request belongs to the figures of a round: phase measure, due in [M0, M1).
func (p Phases) Counts(s *Sample) bool {
	return s.Phase == PhaseMeasure && p.M0.Reached() && Interval{M0: p.M0, M1: p.M1}.holds(s.Sched)
}

// PercentileLog writes values (ms, any order) as an HdrHistogram percentile log, in ms, at three significant digits: the
// format that HdrHistogram's plotters read. Without a value it writes the head and the foot of an empty log. It fails on a
// value below 0 or over an hour, which the histogram does not hold.
func PercentileLog(w io.Writer, values []Weighted) error {
	h := newHDR()
	for _, v := range values {
		if err := h.RecordValues(int64(math.Round(v.MS*1e6)), int64(v.N)); err != nil {
			return fmt.Errorf("percentile log: %v ms: %w", v.MS, err)
		}
	}
	const ticks, nsPerMS = 5, 1e6
	_, err := h.PercentilesPrint(w, ticks, nsPerMS)
	return err
}
