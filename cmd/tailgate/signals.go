package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/target"
)

var (
	errInterrupted = errors.New("interrupted")
	errTerminated  = fmt.Errorf("terminated: %w", target.ErrHurry)
)

// The budget after the first signal. An Actions runner sends SIGINT, 7.5 s later SIGTERM, and kills 2.5 s after that; a
// SIGTERM or SIGHUP without SIGINT before it comes from a supervisor with less patience.
const (
	interruptBudget = 7 * time.Second
	terminateBudget = 2 * time.Second
)

// interruptible returns a context that the first SIGINT, SIGTERM or SIGHUP ends, with the reason as its cause. A second
// signal, or a shutdown that takes longer than its budget, has everything killed that urgent knows of, and ends the process:
// nothing in it can hold that up, not even a log that nobody reads. The returned function ends the watch, for good and once only.
func interruptible(parent context.Context, log io.Writer, urgent *urgent) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Who reads the output may leave first, as the tee that Ctrl-C ends too: writing to nobody must not end a process that has
	// servers to stop. It is caught and not ignored, because the ignored are handed down to builds and servers.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	go func() {
		first, ok := <-signals
		if !ok {
			return
		}
		cause, budget := errInterrupted, interruptBudget
		if first != os.Interrupt {
			cause, budget = errTerminated, terminateBudget
		}
		limit := time.NewTimer(budget - killWait)
		defer limit.Stop()
		cancel(cause)
		go fmt.Fprintf(log, "\ncancelled (%v), stopping; once more to stop at once\n", first)
		select {
		case _, again := <-signals:
			if !again {
				return // it stopped in time
			}
		case <-limit.C:
		}
		urgent.kill()
		os.Exit(cancelCode(ctx))
	}()
	return ctx, func() {
		signal.Stop(signals) // nothing is sent from here on
		close(signals)
		signal.Stop(unread)
		cancel(nil)
	}
}

// cancelCode is the exit code of a cancelled command.
func cancelCode(ctx context.Context) int {
	if errors.Is(context.Cause(ctx), errTerminated) {
		return gate.ExitTerminated
	}
	return gate.ExitInterrupted
}

// cancelled leaves a partial run behind and says where it is.
func (c *comparison) cancelled(ctx context.Context) error {
	c.run.Status = record.StatusCancelled
	c.run.Finished = c.clock.Now()
	err := c.writer.Save(c.run)
	// The record comes first: a large worktree may take longer than a cancelled run has.
	if removeErr := c.removeTrees(); removeErr != nil {
		c.note("worktree_left", removeErr.Error())
		err = errors.Join(err, removeErr)
	}
	hint := "a cancelled run is never judged; run again for a verdict"
	if c.calibrate > 0 {
		hint = "run again, or make what can be made of it: tailgate calibrate --from " + c.writer.Dir()
	}
	return &exitError{
		code: cancelCode(ctx), err: errors.Join(fmt.Errorf("cancelled; what was measured is in %s", c.writer.Dir()), err), hint: hint,
	}
}
