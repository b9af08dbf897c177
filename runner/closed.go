package runner

import (
	"sync"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// closedLoop hands requests to slots: a slot that is over with one rests for a think time and takes the next. Turns whose
// conversation has thought long enough go first, in the order in which they fell due; then the workload's conversations in
// their order. A slot that finds nothing waits; nothing is invented. Its methods are safe for concurrent use.
type closedLoop struct {
	o     *offering
	slots int
	think time.Duration
	// opens is called once, when the first request of every slot is ready, and says when the slots open.
	opens func() record.Instant
	// measure is the length of the measured interval, 0 for a warm-up; done is called when its last request has ended.
	measure time.Duration
	done    func()
	// room has an element for each request that is prepared and not sent.
	room chan struct{}

	mu    sync.Mutex
	begun bool
	// end is where the measured interval ends: measure after the slots opened, or where a slot found nothing to send.
	end record.Instant
	// idle are the slots without a request, by the instant from which they were free.
	idle []record.Instant
	// ready are prepared requests that wait for a slot alone; due are turns that have thought.
	ready, due []turnRef
	// fed is true when the workload has no more; dry is the instant at which a slot found nothing after that.
	fed     bool
	dry     record.Instant
	stopped bool
	// measured counts measured requests in flight; last is the latest due time given to one.
	measured int
	last     record.Instant
}

func newClosedLoop(load record.Load, opens func() record.Instant) *closedLoop {
	return &closedLoop{slots: load.Concurrency, think: load.Think, opens: opens, room: make(chan struct{}, load.Concurrency)}
}

// feed prepares requests ahead, as many as there are slots, until there are no more.
func (l *closedLoop) feed(next func() *batch) {
	opening := sync.OnceFunc(l.open)
	defer l.exhausted()
	defer opening()
	n := 0
	for l.o.releasing.Err() == nil {
		b := next()
		if b == nil {
			return
		}
		l.o.admit(b)
		for _, i := range b.independent {
			select {
			case l.room <- struct{}{}:
			case <-l.o.releasing.Done():
				return
			}
			l.o.prepare(turnRef{b, i}, 0)
			l.offer(turnRef{b, i})
			if n++; n == l.slots {
				opening()
			}
		}
	}
}

// open frees all slots at the instant that opens says.
func (l *closedLoop) open() {
	at := l.opens()
	l.mu.Lock()
	l.end = at + record.Instant(l.measure)
	l.mu.Unlock()
	l.o.flying.Add(1)
	l.o.agenda.at(at, func() {
		defer l.o.flying.Done()
		for range l.slots {
			l.free(at)
		}
	}, l.o.flying.Done)
	if l.done != nil {
		l.o.flying.Add(1)
		l.o.agenda.at(at+record.Instant(l.measure), func() {
			defer l.o.flying.Done()
			l.check()
		}, l.o.flying.Done)
	}
}

// phase says what a request due at an instant counts as.
func (l *closedLoop) phase(due record.Instant) record.Phase {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phaseLocked(due)
}

func (l *closedLoop) phaseLocked(due record.Instant) record.Phase {
	switch {
	case l.measure == 0:
		return record.PhaseWarmup
	case due < l.end:
		return record.PhaseMeasure
	default:
		return record.PhaseTail
	}
}

// dialAhead answers for a request whether it may seek a connection now: those of the first wave may, all others take that
// of the slot which becomes free for them.
func (l *closedLoop) dialAhead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.begun || len(l.idle) > 0
}

// offer adds a prepared request.
func (l *closedLoop) offer(t turnRef) {
	l.mu.Lock()
	if len(l.idle) == 0 {
		l.ready = append(l.ready, t)
		l.mu.Unlock()
		return
	}
	<-l.room
	l.send(t, l.takeSlot(0))
}

// arrive adds a turn that is due now.
func (l *closedLoop) arrive(t turnRef, due record.Instant) {
	l.mu.Lock()
	if len(l.idle) == 0 {
		l.due = append(l.due, t)
		l.mu.Unlock()
		return
	}
	l.send(t, l.takeSlot(due))
}

// takeSlot takes the slot that was free first and returns from when on it could serve what is due at an instant.
func (l *closedLoop) takeSlot(due record.Instant) record.Instant {
	since := l.idle[0]
	l.idle = l.idle[1:]
	return max(since, due)
}

// free gives a slot that is free since an instant its next request.
func (l *closedLoop) free(since record.Instant) {
	l.mu.Lock()
	l.begun = true
	var t turnRef
	switch {
	case l.stopped:
		l.mu.Unlock()
		return
	case len(l.due) > 0:
		t, l.due = l.due[0], l.due[1:]
	case len(l.ready) > 0:
		t, l.ready = l.ready[0], l.ready[1:]
		<-l.room
	default:
		l.idle = append(l.idle, since)
		l.runDry(since)
		l.mu.Unlock()
		l.check()
		return
	}
	l.send(t, since)
}

// send releases a request to a slot; it is called with the lock held and gives it up.
func (l *closedLoop) send(t turnRef, sched record.Instant) {
	if l.phaseLocked(sched) == record.PhaseMeasure {
		l.measured++
		l.last = max(l.last, sched)
	}
	l.mu.Unlock()
	l.o.release(t, sched, l.o.clock.Now())
}

// over rests the slot of a request that has ended.
func (l *closedLoop) over(t turnRef, end record.Instant) {
	l.mu.Lock()
	if l.phaseLocked(record.Instant(t.b.flights[t.i].sched.Load())) == record.PhaseMeasure {
		l.measured--
	}
	l.mu.Unlock()
	l.check()
	since := end
	if !since.Reached() {
		since = l.o.clock.Now()
	}
	if since += record.Instant(l.think); l.think == 0 {
		l.free(since)
		return
	}
	l.o.flying.Add(1)
	l.o.agenda.at(since, func() {
		defer l.o.flying.Done()
		l.free(since)
	}, l.o.flying.Done)
}

// exhausted notes that the workload has no more.
func (l *closedLoop) exhausted() {
	l.mu.Lock()
	l.fed = true
	if l.begun && len(l.idle) > 0 {
		l.runDry(l.idle[0])
	}
	l.mu.Unlock()
	l.check()
}

// runDry ends the measured interval where a slot finds nothing to send: fewer slots than declared are another load. The
// lock must be held.
func (l *closedLoop) runDry(at record.Instant) {
	at = max(at, l.last+1)
	if l.fed && l.measure > 0 && at < l.end {
		l.dry, l.end = at, at
	}
}

// check calls done when the measured interval is over and its last request has ended.
func (l *closedLoop) check() {
	l.mu.Lock()
	over := l.done != nil && l.begun && l.measured == 0 && l.o.clock.Now() >= l.end
	l.mu.Unlock()
	if over {
		l.done()
	}
}

// ended is where the measured interval ended, and whether that was because the workload ran out.
func (l *closedLoop) ended() (m1 record.Instant, dry bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end, l.dry.Reached()
}

// stop ends the releases.
func (l *closedLoop) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped, l.ready, l.due, l.idle = true, nil, nil, nil
}
