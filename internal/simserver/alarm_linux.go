package simserver

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// alarm is a sleep until an absolute instant that another goroutine can end. clock_nanosleep(TIMER_ABSTIME) cannot be
// ended without a signal, so this is its equal from pollable parts: a timerfd armed with TFD_TIMER_ABSTIME on
// CLOCK_MONOTONIC, which also has no timer slack, beside an eventfd that rings.
type alarm struct {
	timer, bell int
}

func newAlarm(clock) (*alarm, error) {
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("eventfd: %w", err), unix.Close(timer))
	}
	return &alarm{timer: timer, bell: bell}, nil
}

// wait returns at the instant, or earlier when rung. A ring before the wait ends it at once.
func (a *alarm) wait(until int64) {
	var spec unix.ItimerSpec // zero disarms
	if until != never {
		spec.Value = unix.NsecToTimespec(max(until, 1))
	}
	if err := unix.TimerfdSettime(a.timer, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		return // the caller looks at the clock and comes back
	}
	fds := []unix.PollFd{
		{Fd: int32(a.timer), Events: unix.POLLIN}, //nolint:gosec // descriptors are small
		{Fd: int32(a.bell), Events: unix.POLLIN},  //nolint:gosec // descriptors are small
	}
	for {
		_, err := unix.Poll(fds, -1)
		if !errors.Is(err, unix.EINTR) {
			break // the deadline is absolute: an interrupted wait goes on without drifting
		}
	}
	if fds[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(a.bell, count[:]) // resets the bell
	}
}

// ring ends the current wait, or the next. Safe for concurrent use with wait, not with close.
func (a *alarm) ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(a.bell, one[:]) // fails only when it is already ringing as loud as it can
}

func (a *alarm) close() {
	_ = unix.Close(a.timer)
	_ = unix.Close(a.bell)
}
