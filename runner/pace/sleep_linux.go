package pace

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// sleep blocks the thread for d by an absolute sleep on CLOCK_MONOTONIC: a signal that interrupts it cannot stretch it.
func sleep(d time.Duration) {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		time.Sleep(d) //nolint:forbidigo // no clock to sleep on; the caller looks at its own clock again
		return
	}
	until := unix.NsecToTimespec(now.Nano() + int64(d))
	for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil), unix.EINTR) {
	}
}
