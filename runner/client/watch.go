package client

import (
	"context"
	"math"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// never is a deadline that does not come.
const never record.Instant = math.MaxInt64

// limitError says which limit of a request passed: total, first_event, idle, no_progress, or one of ours below.
type limitError struct{ limit string }

func (e *limitError) Error() string { return "limit passed: " + e.limit }

// cancelError says that the context of an exchange ended, and why.
type cancelError struct{ cause error }

func (e *cancelError) Error() string { return "cancelled: " + e.cause.Error() }
func (e *cancelError) Unwrap() error { return e.cause }

const (
	// limitGrace ends the wait for the end of a body after the end marker.
	limitGrace = "grace"
	// limitRefused ends the wait for an answer after a write that failed.
	limitRefused = "refused"

	graceTime   = 100 * time.Millisecond
	refusedTime = time.Second
)

// watch knows by when the next byte of an exchange is due. The limits total and first_event count from the release of the
// request, so that a server is not charged for our lateness; idle counts from the last read.
//
// Until the first payload only first_event and total hold: a server may queue a request for as long as first_event says,
// in silence or with role chunks and comments. From then on idle holds, and comments feed it.
type watch struct {
	ctx    context.Context
	limits record.Limits
	// noProgress is the round's progress rule for a request that is alone; 0 in a round, where the round applies it.
	noProgress time.Duration
	pick, read record.Instant
	// payload is the stamp of the last payload; started is true once first_event is met or has no meaning.
	payload record.Instant
	started bool
	grace   record.Instant
	refused record.Instant
}

// due is the earliest limit and its name.
func (w *watch) due() (record.Instant, string) {
	if w.grace.Reached() {
		return w.grace, limitGrace
	}
	due, limit := never, ""
	bound := func(from record.Instant, d time.Duration, name string) {
		if at := from + record.Instant(d); d > 0 && at < due {
			due, limit = at, name
		}
	}
	bound(w.pick, w.limits.Total, "total")
	if w.refused.Reached() {
		bound(w.refused, refusedTime, limitRefused)
	}
	if w.started {
		bound(max(w.read, w.pick), w.limits.Idle, "idle")
	} else {
		bound(w.pick, w.limits.FirstEvent, "first_event")
	}
	bound(max(w.payload, w.pick), w.noProgress, "no_progress")
	return due, limit
}
