package runner

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/pace"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
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

// fail ends the round with an error of ours: a workload that does not fit the dialect.
func (o *offering) fail(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	o.mu.Unlock()
	o.halt()
}
