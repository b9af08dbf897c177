//go:build !linux

package simserver

import "time"

// alarm is a sleep until an absolute instant that another goroutine can end, by the runtime's timer: coarser than the
// Linux one, but late sleeps do not add up either.
type alarm struct {
	clock clock
	bell  chan struct{}
}

func newAlarm(c clock) (*alarm, error) { return &alarm{clock: c, bell: make(chan struct{}, 1)}, nil }

func (a *alarm) wait(until int64) {
	if until == never {
		<-a.bell
		return
	}
	timer := time.NewTimer(time.Duration(until - a.clock.now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.bell:
	}
}

func (a *alarm) ring() {
	select {
	case a.bell <- struct{}{}:
	default:
	}
}

func (a *alarm) close() {}
