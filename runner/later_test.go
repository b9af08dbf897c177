package runner

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/pace"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// Exact waiting for one entry must not make an earlier one late that was entered meanwhile, nor may any be early.
func TestAgendaCallsALateEntryBeforeTheOneItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := record.NewClock()
		a := newAgenda(clock, pace.Timer)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go a.run(ctx)
		start := clock.Now()
		called := map[string]time.Duration{}
		enter := func(name string, after time.Duration) {
			at := start + record.Instant(after)
			a.at(at, func() { called[name] = time.Duration(clock.Now() - start) }, nil)
		}
		enter("far", 5*time.Millisecond)
		enter("near", 1900*time.Microsecond)
		time.Sleep(100 * time.Microsecond)
		enter("earlier", 600*time.Microsecond)
		enter("at once", 120*time.Microsecond)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		want := map[string]time.Duration{
			"far": 5 * time.Millisecond, "near": 1900 * time.Microsecond, "earlier": 600 * time.Microsecond,
			// Entered during a stretch that nothing interrupts.
			"at once": blind,
		}
		if diff := cmp.Diff(want, called); diff != "" {
			t.Error(diff)
		}
	})
}
