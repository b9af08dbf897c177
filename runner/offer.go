package runner

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/pace"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

const (
	// lookAhead is how long before its due time a request is serialised and its goroutine started.
	lookAhead = 2 * time.Second
	// followAhead is the same for a turn that waits for another: its conversation has thought for long enough that memory is
	// no concern, and its connection must still be dialled ahead.
	followAhead = 20*time.Millisecond + client.DialAhead
	// writeTime is what writing a request takes: two system calls, and on the loopback also the server's side of it.
	writeTime = 50 * time.Microsecond
	// ahead bounds the batches that wait to be paced.
	ahead = 16
)

// result is one ended request on its way to the collector.
type result struct {
	sample record.Sample
	stream record.Stream
}

// sender is what an offering needs of a client: [client.Client].
type sender interface {
	Encode(seq int, w *workload.Workload, r workload.Request) (*client.Request, error)
	Do(ctx context.Context, r *client.Request, release <-chan record.Instant) (record.Sample, record.Stream)
}

// offering sends batches: each request once. In an open loop it goes when it is due, whatever the server does; in a closed
// one when a slot is free.
type offering struct {
	client   sender
	clock    record.Clock
	workload *workload.Workload
	results  chan<- result
	// tap sees each payload event as it arrives; nil when nobody looks.
	tap func(prev, now record.Instant)
	// wait is how the pacer waits; nil for exact waiting on a claimed thread.
	wait pace.Wait
	// places bounds the requests in flight; nil for no bound. loop makes the offering a closed loop.
	places *places
	loop   *closedLoop

	// releasing ends the releases, and so does halt; cut ends everything in flight. Set by run.
	releasing, cut context.Context
	halt           context.CancelFunc
	agenda         *agenda
	// flying counts requests, and everything that may still start one.
	flying sync.WaitGroup
	// inFlight counts the requests that may use the network.
	inFlight atomic.Int64

	mu      sync.Mutex
	batches map[*batch]bool
	err     error
}

// run offers the batches that next yields until it yields nil or releasing ends, and returns when every released request
// has ended. Ending cut aborts those in flight.
func (o *offering) run(releasing, cut context.Context, next func() *batch) error {
	o.begin(releasing, cut)
	defer o.halt()
	withdrawn := make(chan struct{})
	stop := context.AfterFunc(o.releasing, func() {
		defer close(withdrawn)
		o.withdraw()
	})
	keeping, end := context.WithCancel(cut)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		o.agenda.run(keeping)
	}()
	if o.loop != nil {
		o.flying.Go(func() { o.loop.feed(next) })
	} else {
		o.pace(next)
	}
	o.flying.Wait()
	end()
	<-kept
	if !stop() {
		<-withdrawn
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *offering) begin(releasing, cut context.Context) {
	o.cut = cut
	o.releasing, o.halt = context.WithCancel(releasing)
	o.agenda = newAgenda(o.clock, o.wait)
	o.batches = map[*batch]bool{}
	if o.places != nil {
		o.places.grant = o.grant
	}
	if o.loop != nil {
		o.loop.o = o
	}
}

// exactly returns wait or, when that is nil, exact waiting on a thread claimed for the calling goroutine until done.
func exactly(wait pace.Wait) (_ pace.Wait, done func()) {
	if wait != nil {
		return wait, func() {}
	}
	t := pace.Claim()
	return t.Wait, t.Release
}

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

// admit makes a batch known to what may have to withdraw it.
func (o *offering) admit(b *batch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batches[b] = true
}

// leave forgets a batch with the last of its requests.
func (o *offering) leave(b *batch) {
	if b.open.Add(-1) > 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.batches, b)
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

// wake has the turns follow that waited for a request, or aborts them when it failed.
func (o *offering) wake(t turnRef, end record.Instant, ok bool) {
	b := t.b
	for _, j := range b.followers(t.i) {
		o.mu.Lock()
		f := &b.flights[j]
		f.waiting--
		f.latest = max(f.latest, end)
		f.aborted = f.aborted || !ok
		ready, aborted, latest := f.waiting == 0, f.aborted, f.latest
		o.mu.Unlock()
		if !ready {
			continue
		}
		if aborted {
			o.abort(turnRef{b, j})
			continue
		}
		due := latest + record.Instant(b.requests[j].Delay)
		if at := b.start + record.Instant(b.requests[j].Offset); b.requests[j].Offset > 0 && o.loop == nil {
			due = max(due, at)
		}
		o.follow(turnRef{b, j}, due)
	}
}

// follow has a turn sent at its due time. While its conversation thinks it holds an entry of the agenda and nothing else.
func (o *offering) follow(t turnRef, due record.Instant) {
	if t.i < t.b.awaited && t.b.phase(t.i, due) != record.PhaseMeasure {
		// It falls behind the measured interval, and so does what follows from it: nobody waits for them.
		t.b.settleAll(t.i)
	}
	o.flying.Add(1)
	release := func() {
		defer o.flying.Done()
		if o.loop != nil {
			o.loop.arrive(t, due)
			return
		}
		o.release(t, due, o.clock.Now())
	}
	prepare := func() {
		o.flying.Go(func() { o.prepare(t, due) })
		if due <= o.clock.Now() {
			release()
			return
		}
		o.agenda.at(due, release, o.flying.Done)
	}
	if start := due - record.Instant(followAhead); start > o.clock.Now() {
		o.agenda.at(start, prepare, o.flying.Done)
		return
	}
	prepare()
}

// abort records a turn that was never sent because an earlier one of its conversation failed.
func (o *offering) abort(t turnRef) {
	due := o.clock.Now()
	b, turn := t.b, t.b.requests[t.i].Turn
	sample := record.Sample{
		V: record.SampleVersion, Seq: b.seq + t.i, ID: turn.ID, Conv: turn.Conv, Turn: turn.N, Phase: b.phase(t.i, due), Sched: due,
		Class: record.ConversationAborted, Detail: "an earlier turn of its conversation failed",
		InPlanned: turn.InTokens, OutPlanned: turn.Out.Tokens,
	}
	o.results <- result{sample, record.Stream{Seq: sample.Seq}}
	o.wake(t, due, false)
	b.settle(t.i)
	o.leave(b)
}

// withdraw takes back everything that was not released. Of those that wait for a place, measured requests keep waiting.
func (o *offering) withdraw() {
	o.agenda.close()
	if o.loop != nil {
		o.loop.stop()
	}
	if o.places != nil {
		for _, t := range o.places.drop(func(t turnRef) bool {
			return t.b.phase(t.i, record.Instant(t.b.flights[t.i].sched.Load())) != record.PhaseMeasure
		}) {
			f := &t.b.flights[t.i]
			f.stage.Store(stageWithdrawn)
			close(f.gate)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for b := range o.batches {
		for i := range b.flights {
			f := &b.flights[i]
			if f.stage.CompareAndSwap(stageReady, stageWithdrawn) {
				close(f.gate)
			} else if !f.stage.CompareAndSwap(stageNew, stageWithdrawn) {
				f.stage.CompareAndSwap(stageDue, stageWithdrawn)
			}
		}
	}
}

// leftover records the first n requests that were due and never released, so that what could not be sent is counted: as
// timeouts when the server stalled, else as our own failure to send.
func (o *offering) leftover(b *batch, n int, cause error) {
	for _, i := range b.independent {
		if i >= n || b.flights[i].reported {
			continue
		}
		turn := b.requests[i].Turn
		sample := record.Sample{
			V: record.SampleVersion, Seq: b.seq + i, ID: turn.ID, Conv: turn.Conv, Turn: turn.N, Phase: record.PhaseMeasure,
			Sched: b.start + record.Instant(b.requests[i].Offset), Class: record.Unsent, Detail: "the pacer did not release it",
			InPlanned: turn.InTokens, OutPlanned: turn.Out.Tokens,
		}
		if errors.Is(cause, errStalled) {
			sample.Class, sample.Detail = record.Timeout, "no_progress: not sent, the server had stalled"
		}
		o.results <- result{sample, record.Stream{Seq: sample.Seq}}
	}
}

// fail ends the round with an error of ours: a workload that does not fit the dialect.
func (o *offering) fail(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	o.mu.Unlock()
	o.halt()
}
