package pace

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// schedule reads what the kernel has on the calling thread.
func schedule(t *testing.T) (policy uint32, nice int32, slack int) {
	t.Helper()
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Skip(err)
	}
	slack, err = unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		t.Skip(err)
	}
	return attr.Policy, attr.Nice, slack
}

// What is granted depends on the user; what is said must be what the kernel has, and it must be gone after undo.
func TestFavourIsWhatTheKernelHasAndIsGivenBack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	policy, nice, slack := schedule(t)
	for _, cpus := range []int{1, 8} {
		got, undo := favour(cpus)
		during, niceNow, slackNow := schedule(t)
		if realTime := during == unix.SCHED_FIFO; realTime != strings.HasPrefix(got, "real-time priority 1") {
			t.Errorf("%d processors: policy %d, said %q", cpus, during, got)
		} else if realTime && cpus == 1 {
			t.Error("real-time on one processor")
		}
		if !strings.HasPrefix(got, "real-time") && strings.Contains(got, "nice -20") != (niceNow == leastNice) {
			t.Errorf("%d processors: nice %d, said %q", cpus, niceNow, got)
		}
		if strings.HasSuffix(got, "timer slack 1 ns") != (slackNow == 1) && during != unix.SCHED_FIFO { // a real-time thread has none
			t.Errorf("%d processors: slack %d, said %q", cpus, slackNow, got)
		}
		if !undo() {
			t.Errorf("%d processors: not given back", cpus)
		}
		if p, n, s := schedule(t); p != policy || n != nice || s != slack {
			t.Errorf("%d processors: policy, nice, slack are %d, %d, %d, were %d, %d, %d", cpus, p, n, s, policy, nice, slack)
		}
	}
}

func TestMarginFollowsTheLatenessOfWakeups(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	uniform := func() time.Duration { return time.Duration(rng.Int64N(int64(150 * time.Microsecond))) }
	for name, test := range map[string]struct {
		late      func() time.Duration
		low, high time.Duration
	}{
		"never late":           {func() time.Duration { return 0 }, leastMargin, leastMargin},
		"always very late":     {func() time.Duration { return time.Second }, mostMargin, mostMargin},
		"evenly up to 150 µs":  {uniform, 120 * time.Microsecond, 165 * time.Microsecond},
		"one in fifty is late": {func() time.Duration { return time.Duration(rng.IntN(50)/49) * time.Millisecond }, leastMargin, leastMargin + 3*up},
	} {
		t.Run(name, func(t *testing.T) {
			w := waiter{margin: firstMargin}
			for range 10_000 {
				w.learn(test.late())
			}
			if w.margin < test.low || w.margin > test.high {
				t.Errorf("margin %v, want %v to %v", w.margin, test.low, test.high)
			}
		})
	}
}
