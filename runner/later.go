package runner

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/tailgate-ci/tailgate/runner/pace"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// near is how long before an instant the agenda leaves the runtime's timers, which may be a millisecond late, for exact
// waiting, which nothing interrupts.
const near = 2 * time.Millisecond

// blind is how long exact waiting goes on without a look at what was entered meanwhile.
const blind = 250 * time.Microsecond

// agenda calls functions at instants that become known only while a round runs: turns whose predecessor has ended, slots
// that have rested. One entry is a few words, so that thousands of conversations may think at the same time. It is safe for
// concurrent use.
type agenda struct {
	clock record.Clock
	// wait is nil for exact waiting on a claimed thread.
	wait pace.Wait

	mu     sync.Mutex
	items  entries
	n      uint64
	closed bool
	// changed has room for one: a new earliest entry.
	changed chan struct{}
}

// entry is one call. dropped takes the place of do when the agenda is closed first; it may be nil.
type entry struct {
	at          record.Instant
	n           uint64
	do, dropped func()
}

func newAgenda(clock record.Clock, wait pace.Wait) *agenda {
	return &agenda{clock: clock, wait: wait, changed: make(chan struct{}, 1)}
}

// at has do called at an instant, on the agenda's own thread, in order of instants and, among equals, of calls: do must be
// quick. Once the agenda is closed, dropped is called instead, at once.
func (a *agenda) at(at record.Instant, do, dropped func()) {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		if dropped != nil {
			dropped()
		}
		return
	}
	a.n++
	heap.Push(&a.items, entry{at, a.n, do, dropped})
	first := a.items[0].n == a.n
	a.mu.Unlock()
	if first {
		select {
		case a.changed <- struct{}{}:
		default:
		}
	}
}

// run keeps the agenda until ctx ends, on a thread of its own.
func (a *agenda) run(ctx context.Context) {
	wait, done := exactly(a.wait)
	defer done()
	for {
		at, ok := a.earliest()
		if left := a.clock.Until(at) - near; !ok || left > 0 {
			if !a.doze(ctx, ok, left) {
				return
			}
			continue
		}
		if wait(ctx, a.clock, min(at, a.clock.Now()+record.Instant(blind))) != nil {
			return
		}
		a.callDue()
	}
}

// doze waits for d, or without a limit when nothing is on the agenda, until there is a new first entry. It reports whether
// ctx still holds.
func (a *agenda) doze(ctx context.Context, limited bool, d time.Duration) bool {
	var over <-chan time.Time
	if limited {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-a.changed:
	case <-ctx.Done():
		return false
	}
	return true
}

func (a *agenda) earliest() (record.Instant, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.items) == 0 {
		return 0, false
	}
	return a.items[0].at, true
}

func (a *agenda) callDue() {
	for {
		a.mu.Lock()
		if len(a.items) == 0 || a.items[0].at > a.clock.Now() {
			a.mu.Unlock()
			return
		}
		e := heap.Pop(&a.items).(entry)
		a.mu.Unlock()
		e.do()
	}
}

// close drops what has not been called.
func (a *agenda) close() {
	a.mu.Lock()
	items := a.items
	a.items, a.closed = nil, true
	a.mu.Unlock()
	for _, e := range items {
		if e.dropped != nil {
			e.dropped()
		}
	}
}

// entries is a heap by instant.
type entries []entry

func (e entries) Len() int      { return len(e) }
func (e entries) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e entries) Less(i, j int) bool {
	if e[i].at != e[j].at {
		return e[i].at < e[j].at
	}
	return e[i].n < e[j].n
}
func (e *entries) Push(x any) { *e = append(*e, x.(entry)) }
func (e *entries) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = entry{}
	*e = old[:len(old)-1]
	return last
}
