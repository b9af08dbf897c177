package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
)

// watching counts the goroutines that wait for signals.
func watching() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "created by github.com/tailgate-ci/tailgate/cmd/tailgate.interruptible")
}

// unwatched waits until no goroutine waits for signals any more.
func unwatched(t *testing.T) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); watching() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d goroutines still wait for signals", watching())
		}
	}
}

// It must not run beside others: the signals are sent to the process.
func TestInterruptibleLeavesNothing(t *testing.T) {
	for range 20 {
		ctx, done := interruptible(t.Context(), io.Discard, &urgent{})
		done()
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("after its end: %v", ctx.Err())
		}
	}
	unwatched(t)
}

// A command that stops in time after a signal is not ended by force when its watch ends.
func TestInterruptibleEndsAfterASignal(t *testing.T) {
	for sig, want := range map[syscall.Signal]struct {
		cause error
		code  int
	}{
		syscall.SIGINT: {errInterrupted, gate.ExitInterrupted}, syscall.SIGTERM: {errTerminated, gate.ExitTerminated}, syscall.SIGHUP: {errTerminated, gate.ExitTerminated},
	} {
		killed := false
		u := &urgent{}
		u.add("a server", func() { killed = true })
		ctx, done := interruptible(t.Context(), io.Discard, u)
		if watching() != 1 {
			t.Errorf("%d goroutines wait for signals, want 1", watching())
		}
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		done()
		unwatched(t)
		if cause := context.Cause(ctx); !errors.Is(cause, want.cause) || cancelCode(ctx) != want.code || killed {
			t.Errorf("%v: cause %v, code %d, servers killed: %t; want %v, %d, false", sig, cause, cancelCode(ctx), killed, want.cause, want.code)
		}
	}
}
