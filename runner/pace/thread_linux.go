package pace

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// slice is the time after which the kernel may take the processor from the pacer in favour of others; a thread that
	// asks for less is woken earlier (EEVDF, since Linux 6.12; older kernels ignore it).
	slice = 100_000 // ns
	// lowest is the lowest real-time priority. It is above all ordinary threads, and below whatever else is real-time.
	lowest = 1
	// leastNice is the strongest weight of an ordinary thread.
	leastNice = -20
)

// favour asks the kernel to run the calling thread, which must be locked, before others: it tries a real-time policy, then
// the strongest weight, then a short time slice, and takes what it is allowed. It says what that was. undo gives it back,
// and is false when that failed: the thread must then not run anything else.
//
// A real-time policy needs a second processor (cpus): a Go thread may spin for a lock that a thread it displaced holds.
func favour(cpus int) (got string, undo func() bool) {
	// By default the kernel may wake a thread 50 µs late, to wake several at once. Zero restores the default. Real-time
	// threads have no slack, so this comes first.
	slackless := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) == nil
	ranked, lower := rank(cpus)
	if !slackless {
		return ranked, lower
	}
	return ranked + ", timer slack 1 ns", func() bool {
		return lower() && unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) == nil
	}
}

func rank(cpus int) (got string, undo func() bool) {
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil || before.Policy != unix.SCHED_NORMAL && before.Policy != unix.SCHED_BATCH {
		// Whoever gave us another policy has thought about it.
		return "as found", func() bool { return true }
	}
	undo = func() bool {
		return unix.SchedSetAttr(0, &unix.SchedAttr{Policy: before.Policy, Nice: before.Nice}, 0) == nil
	}
	if cpus > 1 && unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: lowest}, 0) == nil {
		return fmt.Sprintf("real-time priority %d", lowest), undo
	}
	for _, nice := range []int32{leastNice, before.Nice} {
		if unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: nice, Runtime: slice}, 0) == nil {
			return fmt.Sprintf("nice %d, time slice 0.1 ms", nice), undo
		}
	}
	return fmt.Sprintf("nice %d", before.Nice), func() bool { return true }
}
