package simserver

import (
	"slices"
	"time"
)

// Planned is one request of a load that is known beforehand.
type Planned struct {
	// At is when its last byte arrives, counted from the instant the server can infer.
	At time.Duration
	// Prompt and Output are its lengths in tokens. An Output below 1 counts as 1.
	Prompt, Output int
}

// Foretell runs the timing model on a known load, without a clock, and returns when each token of each request is due,
// counted as [Planned.At]. It knows the engine, held requests and the first of SpeedByStart; it knows no prefix cache, no
// faults and no natural ends, and nothing of what sockets and schedulers add. Requests are numbered in their order in the slice,
// which must be that of their arrival. The same configuration and load give the same answer.
func Foretell(c Config, load []Planned) [][]time.Duration {
	factor := 1.0
	if len(c.SpeedByStart) > 0 {
		factor = c.SpeedByStart[0]
	}
	c.CacheBlocks = 0
	e := newEngine(c.Engine, 0, factor)
	notes := make([]notebook, len(load))
	for i, r := range load {
		e.arrive(&sequence{
			arrival: int64(r.At), hold: c.hold(i + 1), prompt: &prompt{tokens: r.Prompt}, output: max(r.Output, 1), out: &notes[i],
		})
	}
	for at, more := e.next(); more; at, more = e.next() {
		e.advance(at)
	}
	due := make([][]time.Duration, len(load))
	for i, n := range notes {
		due[i] = slices.Clone(n)
	}
	return due
}

// notebook collects the instants of one answer's tokens.
type notebook []time.Duration

func (n *notebook) token(at int64) { *n = append(*n, time.Duration(at)) }
