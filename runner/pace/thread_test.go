package pace_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/pace"
	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestClaimRaisesThePlacesUntilTheLastRelease(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	first := pace.Claim()
	raised := runtime.GOMAXPROCS(0)
	if raised <= before {
		t.Errorf("%d places, %d before: none is left for the pacer", raised, before)
	}
	if first.Privilege() == "" {
		t.Error("the thread does not say what it was granted")
	}
	t.Logf("granted: %s", first.Privilege())
	released := make(chan struct{})
	go func() {
		defer close(released)
		pace.Claim().Release()
	}()
	<-released
	if got := runtime.GOMAXPROCS(0); got != raised {
		t.Errorf("%d places after one of two releases, want %d", got, raised)
	}
	first.Release()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("%d places after the last release, want %d as before", got, before)
	}
}

func TestThreadWaitIsNeverEarly(t *testing.T) {
	thread := pace.Claim()
	defer thread.Release()
	clock := record.NewClock()
	// Around twice the margin the way of waiting changes.
	for _, gap := range []time.Duration{
		-time.Millisecond, 0, 1, time.Microsecond, 19 * time.Microsecond, 40 * time.Microsecond,
		160 * time.Microsecond, 401 * time.Microsecond, time.Millisecond, 30 * time.Millisecond,
	} {
		for range 20 {
			due := clock.Now() + record.Instant(gap)
			if err := thread.Wait(t.Context(), clock, due); err != nil {
				t.Fatal(err)
			}
			if now := clock.Now(); now < due {
				t.Fatalf("gap %v: returned %d ns early", gap, due-now)
			}
		}
	}
}
