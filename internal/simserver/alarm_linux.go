package simserver

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// alarm wakes one goroutine at an absolute instant that anybody may change meanwhile. It is a timerfd armed with
// TFD_TIMER_ABSTIME on CLOCK_MONOTONIC, read through the runtime's poller: as exact as clock_nanosleep(TIMER_ABSTIME)
// without its timer slack, and the thread that the kernel wakes goes on to run the streams whose tokens became due. A
// sleeper that holds a thread of its own was tried: under the demo's load it took a fifth more CPU time and its writes
// were later, because each step had to wake a second thread for them.
type alarm struct{ timer *os.File }

func newAlarm(clock) (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	return &alarm{timer: os.NewFile(uintptr(fd), "timerfd")}, nil
}

// set replaces the instant; one that has passed wakes at once, never does not wake. Safe for concurrent use.
func (a *alarm) set(at int64) error {
	var spec unix.ItimerSpec // zero disarms
	if at != never {
		spec.Value = unix.NsecToTimespec(max(at, 1))
	}
	conn, err := a.timer.SyscallConn()
	if err != nil {
		return fmt.Errorf("timerfd: %w", err)
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil)
	})
	if err == nil {
		err = failed
	}
	return err
}

// wait returns after the instant last set, perhaps also after one that was replaced, and at close.
func (a *alarm) wait() {
	var expirations [8]byte
	_, _ = a.timer.Read(expirations[:]) // the caller looks at the clock, whatever woke it
}

// close frees the timer and ends a wait.
func (a *alarm) close() { _ = a.timer.Close() }
