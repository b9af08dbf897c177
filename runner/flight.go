package runner

import (
	"sync/atomic"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// stage is how far a flight came.
type stage = uint32

const (
	// stageNew: not serialised yet.
	stageNew stage = iota
	// stageReady: its goroutine holds the bytes and waits for the release.
	stageReady
	// stageDue: released before it was ready, which is our own lateness: it goes as soon as it is ready.
	stageDue
	// stageAway: released.
	stageAway
	// stageWithdrawn: will not be sent.
	stageWithdrawn
)

// flight is the state of one request of a batch.
type flight struct {
	stage atomic.Uint32
	// gate carries the instant at which the request may use the network; closed for one that is withdrawn. Set before the
	// stage is ready.
	gate chan record.Instant
	// handover writes the request with its release, unless it is crowded: others are due before it could be written, and
	// their goroutines write side by side. Set before the release.
	handover client.Handover
	crowded  bool
	// encoded holds the bytes of a request that will be due at once when its predecessor has ended.
	encoded atomic.Pointer[client.Request]
	// sched and pick are instants: when it was due, and when it was released.
	sched, pick atomic.Int64
	// inFlight is true while the request may use the network.
	inFlight atomic.Bool
	// settled is true once nobody waits for this request any more.
	settled atomic.Bool
	// reported is true once the request's result was handed over; read after all flights have ended.
	reported bool
	// waiting counts predecessors that have not ended; latest is the end of the last of them. Guarded by offering.mu.
	waiting int
	latest  record.Instant
	aborted bool
}

// released reports whether the request was let go and not taken back.
func (f *flight) released() bool { return f.pick.Load() != 0 && f.stage.Load() != stageWithdrawn }

// fly is the goroutine of one request. What depends on its end hears of it when the answer is over, which may be before
// the connection is clean.
func (o *offering) fly(t turnRef, r *client.Request) {
	f := &t.b.flights[t.i]
	over := false
	r.Ended = func(end record.Instant, ok bool) {
		if !over && f.released() {
			over = true
			o.over(t, end, ok)
		}
	}
	sample, stream := o.client.Do(o.cut, r, f.gate)
	if !f.released() {
		o.leave(t.b)
		return
	}
	sample.Pick, sample.Sched = record.Instant(f.pick.Load()), record.Instant(f.sched.Load())
	sample.Phase = t.b.phase(t.i, sample.Sched)
	r.Ended(sample.End, sample.Class == record.OK)
	f.reported = true
	o.results <- result{sample, stream}
	o.leave(t.b)
}

// over passes on what a request held, and what waited for it.
func (o *offering) over(t turnRef, end record.Instant, ok bool) {
	if t.b.flights[t.i].inFlight.CompareAndSwap(true, false) {
		o.inFlight.Add(-1)
		if o.places != nil {
			o.places.leave()
		}
	}
	o.wake(t, end, ok)
	t.b.settle(t.i)
	if o.loop != nil {
		o.loop.over(t, end)
	}
}
