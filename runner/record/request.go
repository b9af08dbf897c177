package record

import "slices"

// request is one measured request with its timeline.
type request struct {
	*Sample
	stream Stream
	// cuts are the payload events grouped by the socket read that completed them, in order.
	cuts []read
	// block is the tenth of the round's arrivals that the request belongs to, 0 to 9.
	block uint8
}

// requestOf joins a sample and its stream.
func requestOf(s *Sample, st Stream) request {
	r := request{Sample: s, stream: st}
	r.cuts = r.grouped()
	return r
}

// streamStep is the resolution of a stream's stamps in events.jsonl.gz and in every figure taken from them, ns. A gap of
// 10 ms is so known to 0.01 %; finer digits are noise that would double the file.
const streamStep = 1000

// onGrid rounds an offset from the first event to the resolution of streams. Offsets are rounded, not gaps, so that
// errors never add up.
func onGrid(offset int64) int64 { return (offset + streamStep/2) / streamStep * streamStep }

// reading is one latency of one request.
type reading struct {
	ms float64
	// without is why the request has none by nature, unknown why it cannot be told. Both empty: ms holds.
	without, unknown string
}

func between(from, to Instant) reading { return reading{ms: float64(to-from) / 1e6} }

const (
	notStreamed = "not_streamed"
	usageBad    = "usage_inconsistent"
)

// ttft is n/a for an answer that was not streamed; its whole duration never takes the place.
func ttft(r request, from Instant) reading {
	if !r.First.Reached() || r.flagged(notStreamed) {
		return reading{unknown: "the service does not stream"}
	}
	return between(from, r.First)
}

func ttfo(r request) reading {
	switch {
	case !r.First.Reached() || r.flagged(notStreamed):
		return reading{unknown: "the service does not stream"}
	case !r.FirstOut.Reached():
		return reading{without: "only reasoning came"}
	default:
		return between(r.Sched, r.FirstOut)
	}
}

// e2eLast ends at the last payload, not at the end marker.
func e2eLast(r request) reading {
	if !r.Last.Reached() || r.flagged(notStreamed) {
		return reading{unknown: "the service does not stream"}
	}
	return between(r.Sched, r.Last)
}

// tail is what the end marker took after the last payload.
func tail(r request) reading {
	switch {
	case !r.Last.Reached() || r.flagged(notStreamed):
		return reading{unknown: "the service does not stream"}
	case !r.End.Reached():
		return reading{unknown: "the end of the answer was not seen"}
	default:
		return between(r.Last, r.End)
	}
}

// stall is the longest gap between two reads: what a mean hides.
func stall(r request) reading {
	switch {
	case len(r.stream.T) == 0:
		return reading{unknown: "the service does not stream"}
	case len(r.cuts) < 2:
		return reading{without: "each answer came in one read"}
	}
	var longest int64
	for i := 1; i < len(r.cuts); i++ {
		longest = max(longest, r.cuts[i].at-r.cuts[i-1].at)
	}
	return reading{ms: float64(longest) / 1e6}
}

// stalls counts the gaps between reads that are over ten times the answer's own median gap.
func (r request) stalls() int {
	if len(r.cuts) < 3 {
		return 0
	}
	gaps := make([]int64, len(r.cuts)-1)
	for i := range gaps {
		gaps[i] = r.cuts[i+1].at - r.cuts[i].at
	}
	slices.Sort(gaps)
	limit := 10 * gaps[rank(0.5, len(gaps))-1]
	first, _ := slices.BinarySearch(gaps, limit+1)
	return len(gaps) - first
}

func e2e(r request, from Instant) reading {
	if !r.End.Reached() {
		return reading{unknown: "the end of the answer was not seen"}
	}
	return between(from, r.End)
}

// tpot is (last - first) / (tokens after the first payload event).
func tpot(r request) reading {
	switch {
	case !r.First.Reached() || r.flagged(notStreamed):
		return reading{unknown: "the service does not stream"}
	case r.outTokens() == nil:
		return reading{unknown: "token counts unknown"}
	}
	first := 1
	if len(r.stream.N) > 0 {
		first = r.stream.N[0]
	}
	if *r.NOut-first < 1 || r.Last <= r.First {
		return reading{without: "no answer had tokens after its first event"}
	}
	v := between(r.First, r.Last)
	v.ms /= float64(*r.NOut - first)
	return v
}

// sent is the instant the request's last byte was written; its schedule stands in where it is not known.
func (r request) sent() Instant {
	if r.Wrote.Reached() {
		return r.Wrote
	}
	return r.Sched
}

// outTokens is the number of output tokens; nil when the server gave none that can be true.
func (r request) outTokens() *int {
	if r.flagged(usageBad) {
		return nil
	}
	return r.NOut
}

func (r request) flagged(name string) bool { return slices.Contains(r.Flags, name) }

// over is the instant the request was over: its end, or for a failed one the last instant it reached.
func (r request) over() Instant {
	if r.End.Reached() {
		return r.End
	}
	return max(r.Sched, r.Pick, r.Slot, r.Conn, r.Wrote, r.Header, r.First, r.Last)
}

// read is what one socket read completed.
type read struct {
	// at is ns since the first payload event.
	at int64
	// events and tokens count what the read completed; tokens is 0 when unknown.
	events, tokens int
}

func (r request) grouped() []read {
	if len(r.stream.T) == 0 {
		return nil
	}
	out := make([]read, 0, len(r.stream.T))
	counts := r.perEvent()
	var at int64
	for i, gap := range r.stream.T {
		at += gap
		if i == 0 || len(r.stream.R) == 0 || r.stream.R[i] != 0 {
			out = append(out, read{at: onGrid(at)})
		}
		last := &out[len(out)-1]
		last.events++
		if counts != nil {
			last.tokens += counts[i]
		}
	}
	return out
}

// perEvent gives the tokens of each payload event: as the server said, or one each when there are as many events as
// tokens. Nil when unknown.
func (r request) perEvent() []int {
	if len(r.stream.N) > 0 && !r.flagged(usageBad) {
		return r.stream.N
	}
	if r.outTokens() == nil || *r.NOut != len(r.stream.T) {
		return nil
	}
	return slices.Repeat([]int{1}, len(r.stream.T))
}

// tokens yields the output tokens of the request with the instant they arrived, and reports whether their number is known
// at all. Without counts per event the total is spread evenly over the events; an answer in one piece counts at its end.
func (r request) tokens(yield func(at Instant, n int)) bool {
	counts, total := r.stream.N, r.outTokens()
	if r.flagged(usageBad) {
		counts = nil
	}
	switch {
	case len(counts) == 0 && total == nil:
		return false
	case len(r.stream.T) == 0:
		if total == nil {
			return false
		}
		yield(r.over(), *total)
		return true
	}
	var at int64
	for i, gap := range r.stream.T {
		at += gap
		if len(counts) > 0 {
			yield(r.First+Instant(onGrid(at)), counts[i])
		} else {
			yield(r.First+Instant(onGrid(at)), share(*total, len(r.stream.T), i))
		}
	}
	return true
}

// share is part i of total split into parts equal by largest remainder: sizes differ by at most one, sum to total, and the
// larger ones are spread evenly.
func share(total, parts, i int) int { return total*(i+1)/parts - total*i/parts }
