package pace

import (
	"context"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// spin is how long before a due time Precise stops sleeping. A kernel wakes a sleeper some 50-100 µs late.
	spin = 200 * time.Microsecond
	// slice bounds one sleep in the kernel, which no context can interrupt.
	slice = 25 * time.Millisecond
)

// Precise sleeps in the kernel until 200 µs before due and spins for the rest. It needs a thread of its own to be exact.
func Precise(ctx context.Context, clock record.Clock, due record.Instant) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		left := clock.Until(due) - spin
		if left <= 0 {
			break
		}
		sleep(min(left, slice))
	}
	for clock.Now() < due {
		// Spinning, on purpose: see spin.
	}
	return nil
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
