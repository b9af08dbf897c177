package pace

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Thread is an operating system thread that exists to wake up on time. One goroutine uses it, the one that called [Claim].
type Thread struct {
	privilege string
	undo      func() bool
	wait      waiter
}

// Claim locks the calling goroutine to its thread until [Thread.Release], and makes sure of what a wake-up needs:
//
//   - a processor: the kernel is asked to run the thread before others, as far as the user may ask for it. On Linux that is
//     SCHED_FIFO at the lowest priority (CAP_SYS_NICE or RLIMIT_RTPRIO), else nice -20 (RLIMIT_NICE), else a short time
//     slice, and in any case a timer slack of 1 ns (sched(7), sched_setattr(2), PR_SET_TIMERSLACK(2const));
//   - the right to run Go code: a goroutine that comes back from a system call needs one of GOMAXPROCS places, and when all
//     are taken it queues behind the goroutines that wait for one, on threads without the kernel's favour (exitsyscall in
//     runtime/proc.go). As long as any thread is claimed, GOMAXPROCS is therefore four times what it was, so that a place is
//     free; the kernel shares the processors among the threads.
//
// Nothing of it can fail: what was obtained is told by [Thread.Privilege].
func Claim() *Thread {
	runtime.LockOSThread()
	places.take()
	t := &Thread{wait: waiter{margin: firstMargin}}
	t.privilege, t.undo = favour(runtime.NumCPU())
	return t
}

// Privilege says what the kernel granted, e.g. "real-time priority 1, timer slack 1 ns"; "as found" where there was nothing
// to ask for.
func (t *Thread) Privilege() string { return t.privilege }

// Wait is a [Wait] for the goroutine that claimed the thread. It sleeps in the kernel until shortly before due, and spins
// for the rest: for as long as wake-ups on this thread are usually late, by what it has seen of them, at least 20 and at
// most 200 µs. Where due is nearer than twice that it only sleeps, and is late by one wake-up: spinning from one due time
// to the next would take a whole processor from the server.
func (t *Thread) Wait(ctx context.Context, clock record.Clock, due record.Instant) error {
	return t.wait.until(ctx, clock, due)
}

// Release gives back what Claim took. It must be called by the goroutine that claimed.
func (t *Thread) Release() {
	places.free()
	if t.undo() {
		runtime.UnlockOSThread()
	}
	// Else the goroutine keeps the thread, and the runtime ends the thread with it: no other goroutine may inherit it.
}

// spread is by how much GOMAXPROCS is raised. Beside 5,000 requests a second on two processors, the lag's p99 was 6 ms with
// their number of places, 0.9 ms with twice as many and below 0.1 ms with four times.
const spread = 4

// places counts the claims, so that the first raises GOMAXPROCS and the last lowers it.
var places reservation

type reservation struct {
	mu     sync.Mutex
	claims int
	before int
}

func (r *reservation) take() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims++; r.claims == 1 {
		r.before = runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(spread * r.before)
	}
}

func (r *reservation) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims--; r.claims == 0 {
		runtime.GOMAXPROCS(r.before)
	}
}

const (
	// leastMargin and mostMargin bound how long before a due time spinning begins.
	leastMargin, mostMargin = 20 * time.Microsecond, 200 * time.Microsecond
	// firstMargin is where it begins before a wake-up was seen: 30-60 µs late is usual, 50 of it the kernel's timer slack.
	firstMargin = 80 * time.Microsecond
	// up and down move the margin after a wake-up that came later or earlier than it: in balance when one in twenty is later.
	up, down = 19 * step, step
	step     = 500 * time.Nanosecond
)

// waiter waits exactly, and learns from each sleep how late its wake-ups are.
type waiter struct{ margin time.Duration }

func (w *waiter) until(ctx context.Context, clock record.Clock, due record.Instant) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		left := clock.Until(due)
		switch {
		case left <= 0:
			return nil
		case left < 2*w.margin:
			sleep(left)
		case left > longest+w.margin:
			sleep(longest)
		default:
			to := due - record.Instant(w.margin)
			sleep(left - w.margin)
			w.learn(time.Duration(clock.Now() - to))
			for clock.Now() < due {
				// Spinning, on purpose: see Thread.Wait.
			}
			return nil
		}
	}
}

// learn follows the 95th percentile of the lateness of wake-ups.
func (w *waiter) learn(late time.Duration) {
	if late > w.margin {
		w.margin = min(w.margin+up, mostMargin)
		return
	}
	w.margin = max(w.margin-down, leastMargin)
}
