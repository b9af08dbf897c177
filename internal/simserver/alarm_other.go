//go:build !linux

package simserver

import "time"

// alarm wakes one goroutine at an absolute instant that anybody may change meanwhile, by the runtime's timer: coarser
// than the Linux one, but late sleeps do not add up either.
type alarm struct {
	clock clock
	timer *time.Timer
	bell  chan struct{}
}

func newAlarm(c clock) (*alarm, error) {
	a := &alarm{clock: c, bell: make(chan struct{}, 1)}
	a.timer = time.AfterFunc(never, func() {
		select {
		case a.bell <- struct{}{}:
		default:
		}
	})
	return a, nil
}

func (a *alarm) set(at int64) error {
	a.timer.Reset(time.Duration(at - a.clock.now()))
	return nil
}

func (a *alarm) wait() { <-a.bell }

func (a *alarm) close() { a.timer.Stop() }
