package runner

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
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
	// ahead bounds the batches that wait to be paced.
	ahead = 16
)

// result is one ended request on its way to the collector.
type result struct {
	sample record.Sample
	stream record.Stream
}

// batch is a stretch of requests that are due relative to one start: a warm-up window, or a whole measured interval.
type batch struct {
	requests []workload.Request
	start    record.Instant
	// phase says what a request counts as, given its index and due time.
	phase func(i int, due record.Instant) record.Phase
	seq   int

	flights []flight
	// independent lists the indices that the pacer releases; due their instants.
	independent []int
	due         []record.Instant
	// children lists, per request, the requests that wait for it.
	children [][]int
	bodies   [][sha256.Size]byte
	planned  []int64
}

// flight is the state of one request of a batch.
type flight struct {
	pick     chan record.Instant
	released atomic.Bool
	// reported is true once the request's result was handed over; read after all flights have ended.
	reported bool
	// waiting counts predecessors that have not ended; latest is the end of the last of them. Guarded by offering.mu.
	waiting int
	latest  record.Instant
	aborted bool
}

func newBatch(requests []workload.Request, start record.Instant, seq int, phase func(int, record.Instant) record.Phase) *batch {
	b := &batch{
		requests: requests, start: start, phase: phase, seq: seq,
		flights: make([]flight, len(requests)), children: make([][]int, len(requests)),
		bodies: make([][sha256.Size]byte, len(requests)), planned: make([]int64, len(requests)),
	}
	for i, r := range requests {
		b.flights[i].pick = make(chan record.Instant, 1)
		b.planned[i] = int64(r.Offset)
		if len(r.After) == 0 {
			b.independent = append(b.independent, i)
			b.due = append(b.due, start+record.Instant(r.Offset))
			continue
		}
		b.flights[i].waiting = len(r.After)
		for _, p := range r.After {
			b.children[p] = append(b.children[p], i)
		}
	}
	return b
}

// wireDigest is over the bodies and planned offsets of the requests in schedule order: equal in all rounds.
func (b *batch) wireDigest(counts func(i int) bool) string {
	h := sha256.New()
	for i := range b.requests {
		if !counts(i) {
			continue
		}
		h.Write(b.bodies[i][:])
		_ = binary.Write(h, binary.BigEndian, b.planned[i])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// offering sends batches in an open loop: each request once, when it is due, whatever the server does.
type offering struct {
	client   *client.Client
	clock    record.Clock
	workload *workload.Workload
	results  chan<- result
	// tap sees each payload event as it arrives; nil when nobody looks.
	tap func(prev, now record.Instant)

	flying sync.WaitGroup
	open   atomic.Int64
	mu     sync.Mutex
	err    error
}

// run offers the batches that next yields until it yields nil or releasing ends, and returns when every released request
// has ended. Ending cut aborts those in flight.
func (o *offering) run(releasing, cut context.Context, next func() *batch) error {
	prepare, release := make(chan *batch, ahead), make(chan *batch, ahead)
	o.flying.Go(func() {
		for b := range prepare {
			o.prepareAll(releasing, cut, b)
		}
	})
	o.flying.Go(func() {
		for b := range release {
			// The only error is that of a context that ended.
			_ = pace.Run(releasing, o.clock, b.due, func(k int, pick record.Instant) { o.release(b, b.independent[k], pick) })
		}
	})
	for releasing.Err() == nil {
		b := next()
		if b == nil {
			break
		}
		for _, c := range []chan<- *batch{prepare, release} {
			select {
			case c <- b:
			case <-releasing.Done():
			}
		}
	}
	close(prepare)
	close(release)
	o.flying.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// prepareAll serialises the independent requests of a batch shortly before they are due.
func (o *offering) prepareAll(releasing, cut context.Context, b *batch) {
	for k, i := range b.independent {
		if err := pause(releasing, o.clock.Until(b.due[k])-lookAhead); err != nil {
			return
		}
		o.launch(releasing, cut, b, i, b.due[k])
	}
}

func (o *offering) release(b *batch, i int, pick record.Instant) {
	b.flights[i].released.Store(true)
	b.flights[i].pick <- pick
}

// launch starts the goroutine of one request. It waits there for its release.
func (o *offering) launch(releasing, cut context.Context, b *batch, i int, due record.Instant) {
	r, err := o.client.Encode(b.seq+i, o.workload, b.requests[i])
	if err != nil {
		o.fail(err)
		return
	}
	r.Sched, r.Phase, r.Tap = due, b.phase(i, due), o.tap
	b.bodies[i] = sha256.Sum256(r.Body)
	o.flying.Go(func() {
		ctx, cancel := context.WithCancel(cut)
		defer cancel()
		defer context.AfterFunc(releasing, func() {
			if !b.flights[i].released.Load() {
				cancel()
			}
		})()
		o.open.Add(1)
		sample, stream := o.client.Do(ctx, r, b.flights[i].pick)
		o.open.Add(-1)
		if !b.flights[i].released.Load() {
			return
		}
		b.flights[i].reported = true
		o.results <- result{sample, stream}
		o.wake(releasing, cut, b, i, sample)
	})
}

// wake starts the turns that waited for request i, or aborts them when it failed.
func (o *offering) wake(releasing, cut context.Context, b *batch, i int, ended record.Sample) {
	for _, j := range b.children[i] {
		o.mu.Lock()
		f := &b.flights[j]
		f.waiting--
		f.latest = max(f.latest, ended.End)
		f.aborted = f.aborted || ended.Class != record.OK
		ready, aborted, latest := f.waiting == 0, f.aborted, f.latest
		o.mu.Unlock()
		if !ready {
			continue
		}
		due := latest + record.Instant(b.requests[j].Delay)
		if at := b.start + record.Instant(b.requests[j].Offset); b.requests[j].Offset > 0 {
			due = max(due, at)
		}
		if aborted {
			o.abort(releasing, cut, b, j)
			continue
		}
		o.flying.Go(func() { o.follow(releasing, cut, b, j, due) })
	}
}

// follow sends a dependent turn at its due time.
func (o *offering) follow(releasing, cut context.Context, b *batch, j int, due record.Instant) {
	const settle = 20 * time.Millisecond
	if err := pause(releasing, o.clock.Until(due)-settle-client.DialAhead); err != nil {
		return
	}
	o.launch(releasing, cut, b, j, due)
	_ = pace.Run(releasing, o.clock, []record.Instant{due}, func(_ int, pick record.Instant) { o.release(b, j, pick) })
}

// abort records a turn that was never sent because an earlier one of its conversation failed.
func (o *offering) abort(releasing, cut context.Context, b *batch, j int) {
	due := o.clock.Now()
	turn := b.requests[j].Turn
	sample := record.Sample{
		V: record.SampleVersion, Seq: b.seq + j, ID: turn.ID, Conv: turn.Conv, Turn: turn.N, Phase: b.phase(j, due), Sched: due,
		Class: record.ConversationAborted, Detail: "an earlier turn of its conversation failed",
		InPlanned: turn.InTokens, OutPlanned: turn.Out.Tokens,
	}
	o.results <- result{sample, record.Stream{Seq: sample.Seq}}
	sample.End = due
	o.wake(releasing, cut, b, j, sample)
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

func (o *offering) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}
