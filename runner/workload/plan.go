package workload

import "time"

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
	// Measured is ordered by Offset, offsets in [0, measure).
	Measured []Request
	// Tail holds the next arrivals up to [TailSpan] after the measured interval; offsets go on from measure.
	Tail []Request
	// Window is the length of a warm-up window.
	Window time.Duration

	warm []Request
}
