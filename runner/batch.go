package runner

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"

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
