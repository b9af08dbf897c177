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
// signal, or a shutdown that takes longer than its budget, ends the process at once: the death signal that each child was
// given then takes the servers with it.
func interruptible(parent context.Context, log io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		first, ok := <-signals
		if !ok {
			return
		}
		cause, budget := errInterrupted, interruptBudget
		if first != os.Interrupt {
			cause, budget = errTerminated, terminateBudget
		}
		cancel(cause)
		fmt.Fprintf(log, "\ncancelled (%v), stopping; once more to stop at once\n", first)
		select {
		case <-signals:
		case <-time.After(budget):
		}
		os.Exit(cancelCode(ctx))
	}()
	return ctx, func() {
		signal.Stop(signals)
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
