package client

import (
	"sync"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// alarm ends an exchange over HTTP/2 when a limit of its watch passes: there a limit cannot be a deadline of the socket, which
// is shared. The goroutine of the exchange sets it; it rings on one of its own, once.
type alarm struct {
	clock record.Clock
	// ring is called when a limit has passed.
	ring func()

	mu    sync.Mutex
	due   record.Instant
	limit string
	// armed is when the timer goes off: never before the first and after the last.
	armed  record.Instant
	timer  *time.Timer
	passed string
	over   bool
}

func newAlarm(clock record.Clock, ring func()) *alarm {
	return &alarm{clock: clock, ring: ring, due: never, armed: never}
}

// set moves the alarm. A timer that goes off too early looks again: streams push their idle limit ahead with every byte.
func (a *alarm) set(due record.Instant, limit string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due, a.limit = due, limit
	if due < a.armed {
		a.arm()
	}
}

// arm sets the timer for what is due. The lock is held.
func (a *alarm) arm() {
	a.armed = a.due
	wait := a.clock.Until(a.due)
	if a.timer == nil {
		a.timer = time.AfterFunc(wait, a.look)
		return
	}
	a.timer.Reset(wait)
}

// look is called by the timer.
func (a *alarm) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.armed = never
	switch {
	case a.over || a.due == never:
	case a.clock.Now() < a.due:
		a.arm()
	default:
		a.passed, a.over = a.limit, true
		a.ring()
	}
}

// rang is the limit that passed, empty when none did.
func (a *alarm) rang() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.passed
}

// stop ends the alarm.
func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.timer != nil {
		a.timer.Stop()
	}
}
