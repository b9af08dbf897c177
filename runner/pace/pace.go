package pace

import (
	"context"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Wait returns at the instant due, as exactly as it can, or early with the context's error. It returns at once when due
// has passed.
type Wait func(ctx context.Context, clock record.Clock, due record.Instant) error

// Pacer releases a schedule. A Pacer has no state; it may be used concurrently.
type Pacer struct {
	Clock record.Clock
	// Wait says how time is spent between releases; nil claims a thread for the time of a Run and waits as [Thread.Wait]
	// does. A caller that runs one schedule after another claims one itself. Inside a testing/synctest bubble it must be
	// [Timer]: a bubble's clock stands still while a goroutine spins or sleeps in the kernel.
	Wait Wait
}

// Run releases request i at due[i], for each i in order, on a thread claimed for it. See [Claim] and [Pacer.Run].
func Run(ctx context.Context, clock record.Clock, due []record.Instant, release func(i int, pick record.Instant)) error {
	return Pacer{Clock: clock}.Run(ctx, due, release)
}

// Run calls release(i, pick) for each i in order, at due[i] or, if that has passed, at once; pick is the instant of the
// call, so pick - due[i] is the pacer's lag. Due times should not fall; where they do, order wins. release must not
// block: it delays everything after it. Run returns when the last request was released, or with the context's error
// within 50 ms of its end; requests not released by then are not released at all.
func (p Pacer) Run(ctx context.Context, due []record.Instant, release func(i int, pick record.Instant)) error {
	wait := p.Wait
	if wait == nil {
		t := Claim()
		defer t.Release()
		wait = t.Wait
	}
	for i, at := range due {
		if err := wait(ctx, p.Clock, at); err != nil {
			return err
		}
		release(i, p.Clock.Now())
	}
	return nil
}
