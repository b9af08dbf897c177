package pace

import (
	"context"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// longest bounds one sleep in the kernel, which no context can interrupt.
const longest = 25 * time.Millisecond

// Precise sleeps in the kernel until shortly before due and spins for the rest, on whatever thread it is called. It knows
// nothing of that thread; [Thread.Wait] is more exact and spins less.
func Precise(ctx context.Context, clock record.Clock, due record.Instant) error {
	w := waiter{margin: firstMargin}
	return w.until(ctx, clock, due)
}

// Timer waits on a runtime timer: late by up to a millisecond on a busy machine, exact in a testing/synctest bubble.
func Timer(ctx context.Context, clock record.Clock, due record.Instant) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	left := clock.Until(due)
	if left <= 0 {
		return nil
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
