package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Run runs the sessions with the numbers 0 to count-1, at most jobs of them beside each other, and hands each outcome to ended
// with its number, in the order in which they end and never two at once. What a session is depends on its number alone. Run
// returns when nothing of any session lives any more: nil, the fixture's error that stopped the rest, or the reason of ctx.
func (c *Chaos) Run(ctx context.Context, count, jobs int, ended func(n int, o Outcome)) error {
	return beside(ctx, count, jobs, c.Session, ended)
}

// beside is [Chaos.Run] of any session.
func beside(ctx context.Context, count, jobs int, session func(context.Context, int) (Outcome, error), ended func(int, Outcome)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	numbers := make(chan int, count)
	for n := range count {
		numbers <- n
	}
	close(numbers)
	var (
		all  sync.WaitGroup
		one  = make(chan struct{}, 1) // full while ended or errs are in use
		errs []error
	)
	for range min(jobs, count) {
		all.Go(func() {
			for n := range numbers {
				if ctx.Err() != nil {
					return
				}
				o, err := session(ctx, n)
				one <- struct{}{}
				_, alive := errors.AsType[*aliveError](err)
				switch {
				case alive, err != nil && ctx.Err() == nil: // of a session that was stopped only what could not be ended is told
					errs = append(errs, fmt.Errorf("session %d: %w", n+1, err))
					stop(errs[0])
				case ctx.Err() == nil:
					ended(n, o)
				}
				<-one
			}
		})
	}
	all.Wait()
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return context.Cause(ctx)
}
