// Command chaosrun interrupts gate sessions at random instants and counts those after which nothing was left, nothing
// lost, and the next one ran as if nothing had been. It builds tailgate first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/internal/chaos"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	clean, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	case !clean:
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	sessions, jobs  int
	seed            uint64
	binary, scratch string
}

func parse(args []string, errs io.Writer) (options, error) {
	o := options{sessions: 20, jobs: 1}
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.SetOutput(errs)
	f.Usage = func() {
		fmt.Fprintln(errs, "usage: scripts/chaos [flags] [N]\n\ninterrupts N sessions (20) by SIGINT, SIGTERM, kill -9, a server crash and a full disk, in turn; each prints its result\nwhen it ends, with its number, and what it does depends on its number and the seed alone")
		f.PrintDefaults()
	}
	f.IntVar(&o.jobs, "jobs", 1, "sessions beside each other; what they do is the same for any number, what they measure is not")
	f.Uint64Var(&o.seed, "seed", 1, "chooses the instants: the same ones for the same seed")
	f.StringVar(&o.binary, "binary", "", "tailgate to run (default: built from this tree)")
	f.StringVar(&o.scratch, "scratch", "", "where sessions live (default: a folder in the temporary one)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.jobs < 1 {
		return o, fmt.Errorf("--jobs %d: at least one session runs at a time", o.jobs)
	}
	if f.NArg() > 1 {
		return o, fmt.Errorf("%q is too much; see --help", f.Arg(1))
	}
	if f.NArg() == 1 {
		n, err := strconv.Atoi(f.Arg(0))
		if err != nil || n < 1 {
			return o, fmt.Errorf("%q is no number of sessions; see --help", f.Arg(0))
		}
		o.sessions = n
	}
	return o, nil
}

// run reports whether every session was clean.
func run(ctx context.Context, args []string, out, errs io.Writer) (bool, error) {
	o, err := parse(args, errs)
	if err != nil {
		return false, err
	}
	remove, err := o.prepare(ctx)
	if err != nil {
		return false, err
	}
	kinds, missing := chaos.Kinds(ctx)
	c := &chaos.Chaos{Binary: o.binary, Path: os.Getenv("PATH"), Scratch: o.scratch, Seed: o.seed, Kinds: kinds} //nolint:forbidigo // a script of the repository, at its caller's hands
	if missing != "" {
		fmt.Fprintln(out, missing)
	}
	clean, unclean := 0, 0
	err = c.Run(ctx, o.sessions, o.jobs, func(n int, outcome chaos.Outcome) {
		say(out, n, o.sessions, outcome)
		if len(outcome.Wrong) == 0 {
			clean++
		} else {
			unclean++
		}
	})
	if err != nil {
		return false, fmt.Errorf("%w; %d of %d ended before, %d of them clean; what is left is in %s", err, clean+unclean, o.sessions, clean, o.scratch)
	}
	if unclean == 0 {
		err = remove()
	}
	fmt.Fprintf(out, "%d of %d clean\n", clean, o.sessions)
	return unclean == 0, err
}

// prepare makes what the command line leaves out: the scratch folder and tailgate itself. remove takes away what it made.
func (o *options) prepare(ctx context.Context) (remove func() error, err error) {
	var made []string
	if o.scratch == "" {
		if o.scratch, err = os.MkdirTemp("", "chaos-"); err != nil {
			return nil, err
		}
		made = append(made, o.scratch)
	}
	if o.scratch, err = filepath.Abs(o.scratch); err != nil {
		return nil, err
	}
	if o.binary == "" {
		o.binary = filepath.Join(o.scratch, "tailgate")
		if text, err := exec.CommandContext(ctx, "go", "build", "-o", o.binary, "./cmd/tailgate").CombinedOutput(); err != nil { //nolint:gosec // the path is the caller's own
			return nil, fmt.Errorf("go build: %w: %s", err, text)
		}
		made = append(made, o.binary)
	}
	// Sessions run it from their own repositories.
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return nil, err
	}
	return func() error {
		var errs []error
		for _, path := range made {
			errs = append(errs, os.RemoveAll(path)) //nolint:gosec // made above
		}
		return errors.Join(errs...)
	}, nil
}

// say prints one session, and each fault in a line of its own.
func say(out io.Writer, n, of int, o chaos.Outcome) {
	verdict := "clean"
	if len(o.Wrong) > 0 {
		verdict = "UNCLEAN, see " + o.Folder
	}
	fmt.Fprintf(out, "%4d/%d  %-12s after %6s: %s\n", n+1, of, o.Kind, o.At.Round(10*time.Millisecond), verdict)
	for _, line := range o.Swept {
		fmt.Fprintf(out, "           next run: %s\n", line)
	}
	for _, line := range o.Wrong {
		fmt.Fprintf(out, "           WRONG: %s\n", strings.ReplaceAll(line, "\n", "\n           | "))
	}
}
