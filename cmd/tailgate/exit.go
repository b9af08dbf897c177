package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailgate-ci/tailgate/gate"
)

// exitError ends the command with a code. The library's errors carry facts; what to do next is added here.
type exitError struct {
	code int
	// err is printed; nil when everything was said already.
	err error
	// hint says what to do next; empty when the error says it.
	hint string
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage is an error of the user's: exit 2, nothing was measured.
func usage(err error, hint string) *exitError {
	return &exitError{code: gate.ExitUsage, err: err, hint: hint}
}

// exitOf is how the command ends after an error. A context that ended makes commands fail that were asked something, git for one:
// what looks like the user's mistake then is the cancellation.
func exitOf(ctx context.Context, err error) *exitError {
	exit, ok := errors.AsType[*exitError](err)
	switch {
	case ctx.Err() != nil && (!ok || exit.code == gate.ExitUsage):
		return &exitError{code: cancelCode(ctx), err: errors.New("cancelled before anything was measured"), hint: "run it again"}
	case !ok:
		// What cobra itself refuses: an unknown command or flag, a missing argument.
		return usage(err, "run `tailgate --help` for the commands and their flags")
	default:
		return exit
	}
}

// verdictExit ends the command with the verdict's code; a pass is no error.
func verdictExit(v gate.Verdict) error {
	if code := gate.Exit(v); code != 0 {
		return &exitError{code: code}
	}
	return nil
}
