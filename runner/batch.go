package runner

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

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
	// children lists, per request, the requests that wait for it; nil when none does.
	children [][]int
	// bodies are the digests of the bodies serialised; nil where none was.
	bodies []atomic.Pointer[[sha256.Size]byte]

	// awaited is how many requests, the first of the batch, are waited for; done is called once when the last of them has
	// ended, or turned out to be due after the measured interval. Set by await.
	awaited int
	left    atomic.Int64
	done    func()
	// open counts the flights that may still be asked about.
	open atomic.Int64
}

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

func newBatch(requests []workload.Request, start record.Instant, seq int, phase func(int, record.Instant) record.Phase) *batch {
	b := &batch{
		requests: requests, start: start, phase: phase, seq: seq,
		flights: make([]flight, len(requests)), bodies: make([]atomic.Pointer[[sha256.Size]byte], len(requests)),
	}
	b.open.Store(int64(len(requests)))
	for i, r := range requests {
		if len(r.After) == 0 {
			b.independent = append(b.independent, i)
			b.due = append(b.due, start+record.Instant(r.Offset))
			continue
		}
		if b.children == nil {
			b.children = make([][]int, len(requests))
		}
		b.flights[i].waiting = len(r.After)
		for _, p := range r.After {
			b.children[p] = append(b.children[p], i)
		}
	}
	return b
}

// followers lists the requests that wait for request i.
func (b *batch) followers(i int) []int {
	if b.children == nil {
		return nil
	}
	return b.children[i]
}

// await makes the batch call done when its first n requests have settled.
func (b *batch) await(n int, done func()) {
	b.awaited, b.done = n, done
	b.left.Store(int64(n))
}

// settle says that nobody needs to wait for request i any more.
func (b *batch) settle(i int) {
	if i < b.awaited && b.flights[i].settled.CompareAndSwap(false, true) && b.left.Add(-1) == 0 {
		b.done()
	}
}

// settleAll settles request i and every turn that follows from it.
func (b *batch) settleAll(i int) {
	b.settle(i)
	for _, j := range b.followers(i) {
		if j < b.awaited && !b.flights[j].settled.Load() {
			b.settleAll(j)
		}
	}
}

// wireDigest is over the bodies of the requests in schedule order, and their planned offsets where there is a plan: equal
// in all rounds. The offsets of a closed loop are the server's doing.
func (b *batch) wireDigest(n int, offsets bool) string {
	h := sha256.New()
	for i := range n {
		if sum := b.bodies[i].Load(); sum != nil {
			h.Write(sum[:])
		} else {
			h.Write(make([]byte, sha256.Size))
		}
		if offsets {
			_ = binary.Write(h, binary.BigEndian, int64(b.requests[i].Offset))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
