package record

import (
	"time"
)

// Window is one second of the measured interval: a line of windows.jsonl. Each fact counts in the second it happened in.
type Window struct {
	// T is the window's start; Length is a second, less for the last one of an interval that is no multiple.
	T      Instant       `json:"t"`
	Length time.Duration `json:"length_ns"`
	// Scheduled counts requests due, Sent those whose last byte was written, OK and Failed those that ended.
	Scheduled int             `json:"scheduled"`
	Sent      int             `json:"sent"`
	OK        int             `json:"ok"`
	Failed    map[Outcome]int `json:"failed,omitempty"`
	// InFlightMean is over time; a request is in flight from its last byte written to its end.
	InFlightMean float64 `json:"in_flight_mean"`
	InFlightMax  int     `json:"in_flight_max"`
	// OutTokens counts output tokens of all answers by the stamp of their event, InTokens prompt tokens at the first one.
	OutTokens Value `json:"out_tokens"`
	InTokens  Value `json:"in_tokens"`

	TTFT     Histogram `json:"ttft"`
	ITL      Histogram `json:"itl"`
	E2E      Histogram `json:"e2e"`
	PacerLag Histogram `json:"pacer_lag"`
}

// Windows cuts the measured requests of a round into seconds of [from, to). It is pure. Requests that end after to leave
// their last seconds out; nil when to is not after from.
func Windows(samples []Sample, streams []Stream, from, to Instant) []Window {
	if to <= from {
		return nil
	}
	in := Interval{M0: from, M1: to}
	reqs := measured(samples, streams, in)
	s := newSeries(in)
	for _, r := range reqs {
		s.take(r)
	}
	s.flights(reqs)
	s.tokens(reqs)
	return s.close()
}

// series gathers the seconds of an interval.
type series struct {
	in      Interval
	windows []Window
	values  []secondValues
	out     []int
	prompt  []int
}

// secondValues are the latencies seen in one second, ns.
type secondValues struct{ ttft, itl, e2e, lag []point }

func newSeries(in Interval) *series {
	n := int((in.M1 - in.M0 + Instant(time.Second) - 1) / Instant(time.Second))
	s := &series{in: in, windows: make([]Window, n), values: make([]secondValues, n), out: make([]int, n), prompt: make([]int, n)}
	for i := range s.windows {
		t := in.M0 + Instant(i)*Instant(time.Second)
		s.windows[i] = Window{T: t, Length: time.Duration(min(Instant(time.Second), in.M1-t)), Failed: map[Outcome]int{}}
	}
	return s
}

// at is the index of the second that holds t; ok is false outside the interval and for an instant not reached.
func (s *series) at(t Instant) (i int, ok bool) {
	if !t.Reached() || !s.in.holds(t) {
		return 0, false
	}
	return int((t - s.in.M0) / Instant(time.Second)), true
}

func (s *series) take(r request) {
	if i, ok := s.at(r.Sched); ok {
		s.windows[i].Scheduled++
	}
	if i, ok := s.at(r.Wrote); ok {
		s.windows[i].Sent++
	}
	if i, ok := s.at(r.Pick); ok {
		s.values[i].lag = append(s.values[i].lag, point{value: float64(r.Pick - r.Sched), weight: 1})
	}
	i, ok := s.at(r.over())
	switch {
	case r.Class != OK && ok:
		s.windows[i].Failed[r.Class]++
	case r.Class == OK && ok:
		s.windows[i].OK++
		s.values[i].e2e = append(s.values[i].e2e, point{value: float64(r.over() - r.Sched), weight: 1})
	}
	if r.Class == OK {
		s.takeStream(r)
	}
}

func (s *series) takeStream(r request) {
	if i, ok := s.at(r.First); ok && !r.flagged(notStreamed) {
		s.values[i].ttft = append(s.values[i].ttft, point{value: float64(r.First - r.Sched), weight: 1})
	}
	if r.perEvent() == nil {
		return
	}
	from := int64(0)
	for k, rd := range r.cuts {
		if k == 0 || rd.tokens == 0 {
			continue
		}
		if i, ok := s.at(r.First + Instant(rd.at)); ok {
			s.values[i].itl = append(s.values[i].itl, point{value: float64(rd.at-from) / float64(rd.tokens), weight: rd.tokens})
		}
		from = rd.at
	}
}

// flights sweeps over the starts and ends of requests for the number in flight.
func (s *series) flights(reqs []request) {
	f := flightsOf(reqs)
	for i := range s.windows {
		w := &s.windows[i]
		w.InFlightMean, w.InFlightMax = f.over(w.T, w.T+Instant(w.Length))
	}
}

// tokens fills in the token series. Where too many answers lack a count, or the seconds do not add up to the interval's
// own total, the series is withheld.
func (s *series) tokens(reqs []request) {
	var t tokenTally
	for _, r := range reqs {
		t.take(r, s.in)
		r.tokens(func(at Instant, n int) {
			if i, ok := s.at(at); ok {
				s.out[i] += n
			}
		})
		at := r.First
		if !at.Reached() {
			at = r.over()
		}
		if i, ok := s.at(at); ok && r.Class == OK && r.NIn != nil {
			s.prompt[i] += *r.NIn
		}
	}
	source := sourceOf(reqs)
	out := source.bad
	if out == "" {
		out = lacking("token counts unknown", t.outUnknown, t.successes)
	}
	if out == "" && !s.plausible(t.outAll) {
		out = "the series contradicts the interval's total"
	}
	prompt := lacking("prompt token counts unknown", t.inUnknown, t.successes)
	for i := range s.windows {
		s.windows[i].OutTokens, s.windows[i].InTokens = NA(out), NA(prompt)
		if out == "" {
			s.windows[i].OutTokens = Of(float64(s.out[i]))
		}
		if prompt == "" {
			s.windows[i].InTokens = Of(float64(s.prompt[i]))
		}
	}
}

// plausible checks the series against the interval's total: no mean exceeds the largest second.
func (s *series) plausible(total int) bool {
	best := 0.0
	for i, n := range s.out {
		best = max(best, float64(n)/s.windows[i].Length.Seconds())
	}
	const slack = 1e-9
	return best*(1+slack) >= float64(total)/s.in.seconds()
}

func (s *series) close() []Window {
	encoder := newHDREncoder()
	for i := range s.windows {
		w, v := &s.windows[i], &s.values[i]
		for _, h := range []struct {
			into *Histogram
			from []point
		}{{&w.TTFT, v.ttft}, {&w.ITL, v.itl}, {&w.E2E, v.e2e}, {&w.PacerLag, v.lag}} {
			*h.into = histogram(positive(h.from), encoder)
		}
		if len(w.Failed) == 0 {
			w.Failed = nil
		}
	}
	return s.windows
}
