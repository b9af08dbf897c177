package main

import (
	"context"
	"errors"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
)

// A signal that comes while refs are still resolved is no mistake of the user's, whatever failed because of it.
func TestExitOf(t *testing.T) {
	cancelled := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	wrong := usage(errors.New("not inside a git repository"), "change into it")
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		code int
		text string
	}{
		{"an unknown flag", t.Context(), errors.New("unknown flag: --x"), gate.ExitUsage, "unknown flag: --x"},
		{"usage", t.Context(), wrong, gate.ExitUsage, "not inside a git repository"},
		{"SIGTERM while git is asked", cancelled(errTerminated), context.Canceled, gate.ExitTerminated, "cancelled before anything was measured"},
		{"SIGINT, and git says no", cancelled(errInterrupted), wrong, gate.ExitInterrupted, "cancelled before anything was measured"},
		{"SIGINT after the verdict", cancelled(errInterrupted), &exitError{code: gate.Exit(gate.Fail)}, gate.Exit(gate.Fail), "exit code 1"},
	} {
		if got := exitOf(tt.ctx, tt.err); got.code != tt.code || got.Error() != tt.text {
			t.Errorf("%s: exit %d, %q; want %d, %q", tt.name, got.code, got.Error(), tt.code, tt.text)
		}
	}
}
