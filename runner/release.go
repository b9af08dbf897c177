package runner

import (
	"crypto/sha256"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/pace"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// lookAhead is how long before its due time a request is serialised and its goroutine started.
	lookAhead = 2 * time.Second
	// writeTime is what writing a request takes: two system calls, and on the loopback also the server's side of it.
	writeTime = 50 * time.Microsecond
	// ahead bounds the batches that wait to be paced.
	ahead = 16
)

// pace prepares and releases the batches of an open loop on two goroutines.
func (o *offering) pace(next func() *batch) {
	prepare, release := make(chan *batch, ahead), make(chan *batch, ahead)
	o.flying.Go(func() {
		for b := range prepare {
			o.prepareAll(b)
		}
	})
	o.flying.Go(func() {
		wait, done := exactly(o.wait)
		defer done()
		pacer := pace.Pacer{Clock: o.clock, Wait: wait}
		for b := range release {
			// The only error is that of a context that ended.
			_ = pacer.Run(o.releasing, b.due, func(k int, pick record.Instant) {
				i := b.independent[k]
				b.flights[i].crowded = k+1 < len(b.due) && b.due[k+1] < pick+record.Instant(writeTime)
				o.release(turnRef{b, i}, b.due[k], pick)
			})
		}
	})
	defer close(prepare)
	defer close(release)
	for o.releasing.Err() == nil {
		b := next()
		if b == nil {
			return
		}
		o.admit(b)
		for _, c := range []chan<- *batch{prepare, release} {
			select {
			case c <- b:
			case <-o.releasing.Done():
			}
		}
	}
}

// prepareAll serialises the independent requests of a batch shortly before they are due.
func (o *offering) prepareAll(b *batch) {
	for k, i := range b.independent {
		if err := pause(o.releasing, o.clock.Until(b.due[k])-lookAhead); err != nil {
			return
		}
		o.prepare(turnRef{b, i}, b.due[k])
	}
}

// prepare serialises one request and starts its goroutine, which waits for the release. Due is 0 where that is not known
// yet: a connection is then sought at once, or not before the release.
func (o *offering) prepare(t turnRef, due record.Instant) {
	b, f := t.b, &t.b.flights[t.i]
	r := o.encode(t)
	if r == nil {
		return
	}
	r.Sched, r.Phase, r.Tap, r.Early = due, b.phase(t.i, due), o.tap, &f.handover
	switch {
	case o.loop != nil:
		r.Ahead = o.loop.dialAhead
	case o.places != nil:
		r.Ahead = o.places.room
	}
	f.gate = make(chan record.Instant, 1)
	late := false
	if !f.stage.CompareAndSwap(stageNew, stageReady) {
		if late = f.stage.CompareAndSwap(stageDue, stageAway); !late {
			return
		}
	}
	o.flying.Go(func() { o.fly(t, r) })
	if late {
		o.depart(t, o.clock.Now())
	}
	for _, j := range b.followers(t.i) {
		// What is due this soon after its predecessor's end must be ready before it.
		if next := &b.requests[j]; next.Delay < followAhead && len(next.After) == 1 {
			b.flights[j].encoded.Store(o.encode(turnRef{b, j}))
		}
	}
}

// encode serialises a request, once; nil after an error, which ends the round.
func (o *offering) encode(t turnRef) *client.Request {
	if r := t.b.flights[t.i].encoded.Swap(nil); r != nil {
		return r
	}
	r, err := o.client.Encode(t.b.seq+t.i, o.workload, t.b.requests[t.i])
	if err != nil {
		o.fail(err)
		return nil
	}
	sum := sha256.Sum256(r.Body)
	t.b.bodies[t.i].Store(&sum)
	return r
}

// release lets a request go that was due at sched. One that is not ready goes as soon as it is, and its lag says so.
func (o *offering) release(t turnRef, sched, pick record.Instant) {
	f := &t.b.flights[t.i]
	f.sched.Store(int64(sched))
	// Between two looks it may become ready, once.
	for range 2 {
		if f.stage.CompareAndSwap(stageReady, stageAway) {
			o.depart(t, pick)
			return
		}
		if f.stage.CompareAndSwap(stageNew, stageDue) {
			return
		}
	}
}

func (o *offering) depart(t turnRef, pick record.Instant) {
	t.b.flights[t.i].pick.Store(int64(pick))
	if o.places != nil {
		o.places.enter(t)
		return
	}
	o.goOn(t, pick)
}

// grant gives a request that waited for a place the use of the network.
func (o *offering) grant(t turnRef) { o.goOn(t, o.clock.Now()) }

func (o *offering) goOn(t turnRef, at record.Instant) {
	f := &t.b.flights[t.i]
	f.inFlight.Store(true)
	o.inFlight.Add(1)
	if !f.crowded {
		f.handover.Write()
	}
	f.gate <- at
}
