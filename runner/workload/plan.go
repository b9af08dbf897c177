package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// TailSpan is how far arrivals go on after the measured interval, so that the last measured requests do not meet an
// emptying server.
const TailSpan = 30 * time.Second

// Request is one turn with its place in a plan.
type Request struct {
	// Turn has the manifest's defaults filled in. Not to be changed.
	Turn *Turn
	// Offset is when the request is due, from the start of its interval. With After it is the earliest instant.
	Offset time.Duration
	// After indexes the same slice: the request is due Delay after the latest end of these, and not before Offset.
	After []int
	Delay time.Duration
	// Salt changes the text of blocks that no other group uses; empty for measured traffic.
	Salt string
}

// Plan is the traffic of one round. It is immutable and safe to share.
type Plan struct {
	// Measured is ordered by Offset, offsets in [0, measure). A turn belongs here when it could be due in the interval if
	// every answer took no time.
	Measured []Request
	// Tail holds the next arrivals up to [TailSpan] after the measured interval; offsets go on from measure. Turns that
	// follow a measured one are left out.
	Tail []Request
	// Window is the length of a warm-up window.
	Window time.Duration

	slice []Request
}

// Plan lays out one round: the offsets [0, measure), a tail, and warm-up traffic in windows. A measured interval longer than
// the workload is refused (arrivals are not invented), and so is one without an arrival.
func (w *Workload) Plan(measure, window time.Duration) (*Plan, error) {
	switch {
	case measure <= 0 || window <= 0:
		return nil, fmt.Errorf("measure %s and window %s must be positive", measure, window)
	case measure > w.Span():
		return nil, fmt.Errorf("the measured interval of %s is longer than workload %q, which lasts %s; measure less or build "+
			"a longer workload", measure, w.Manifest.Name, w.Span())
	}
	all := w.timeline()
	end, _ := slices.BinarySearchFunc(all, measure, func(p placed, at time.Duration) int { return cmp.Compare(p.offset, at) })
	last, _ := slices.BinarySearchFunc(all, measure+TailSpan, func(p placed, at time.Duration) int {
		return cmp.Compare(p.offset, at)
	})
	if end == 0 {
		return nil, fmt.Errorf("workload %q has no arrival in its first %s", w.Manifest.Name, measure)
	}
	p := &Plan{
		Measured: w.requests(all[:end], 0, false), Tail: w.requests(all[end:last], 0, false), Window: window,
	}
	p.slice = w.warmupSlice(all, min(max(measure, window), w.Span()), window)
	return p, nil
}

// Warmup is the traffic of warm-up window k: the same slice of arrivals each time, offsets in [0, Window), with text that
// differs from window to window where no other group shares it. It is equal in all rounds. k counts from any start.
func (p *Plan) Warmup(k int) []Request {
	out := slices.Clone(p.slice)
	salt := "w" + strconv.Itoa(k)
	for i := range out {
		out[i].Salt = salt
	}
	return out
}

// placed is a turn with its earliest offset.
type placed struct {
	turn   int
	offset time.Duration
}

// timeline lists all turns by their earliest offset. Predecessors stand before their successors, since they have no later
// offset and, among equals, an earlier place in the file.
func (w *Workload) timeline() []placed {
	offsets := make([]time.Duration, len(w.Turns))
	out := make([]placed, len(w.Turns))
	for i := range w.Turns {
		t := &w.Turns[i]
		offsets[i] = t.At
		for _, id := range t.After {
			offsets[i] = min(max(offsets[i], offsets[w.index.byID[id]]+t.Delay), 2*maxSpan)
		}
		out[i] = placed{i, offsets[i]}
	}
	slices.SortStableFunc(out, func(a, b placed) int { return cmp.Compare(a.offset, b.offset) })
	return out
}

// requests turns a stretch of the timeline into requests, offsets counted from start. A turn with a predecessor outside the
// stretch is dropped, or, when cut is true, stands on its own.
func (w *Workload) requests(stretch []placed, start time.Duration, cut bool) []Request {
	out := make([]Request, 0, len(stretch))
	place := make(map[int]int, len(stretch))
	for _, p := range stretch {
		t := &w.index.resolved[p.turn]
		r := Request{Turn: t, Offset: p.offset - start, Delay: t.Delay}
		for _, id := range t.After {
			if i, ok := place[w.index.byID[id]]; ok {
				r.After = append(r.After, i)
			}
		}
		if len(r.After) < len(t.After) {
			if !cut {
				continue
			}
			r.After, r.Delay = nil, 0
		}
		place[p.turn] = len(out)
		out = append(out, r)
	}
	return out
}

// warmupSlice picks, of the complete windows of [0, horizon), the one whose offered tokens are nearest the mean of those
// that are not empty; of equals the first.
func (w *Workload) warmupSlice(all []placed, horizon, window time.Duration) []Request {
	windows := max(int(horizon/window), 1)
	tokens := make([]int64, windows)
	bounds := make([]int, windows+1)
	for i, p := range all {
		k := int(p.offset / window)
		if k >= windows {
			break
		}
		t := &w.index.resolved[p.turn]
		tokens[k] += int64(t.InTokens + t.Out.Tokens)
		bounds[k+1] = i + 1
	}
	var total, filled int64
	for k := range tokens {
		bounds[k+1] = max(bounds[k+1], bounds[k])
		if bounds[k+1] > bounds[k] {
			total += tokens[k]
			filled++
		}
	}
	best, distance := -1, int64(0)
	for k, n := range tokens {
		d := max(n*filled-total, total-n*filled)
		if bounds[k+1] > bounds[k] && (best < 0 || d < distance) {
			best, distance = k, d
		}
	}
	if best < 0 {
		// No complete window has an arrival: take what there is, as if it were one.
		return w.requests(all[:1], all[0].offset, true)
	}
	return w.requests(all[bounds[best]:bounds[best+1]], time.Duration(best)*window, true)
}
