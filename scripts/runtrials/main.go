// Command runtrials runs gate sessions whose right verdict is known and prints how often it was reached. It builds tailgate,
// appends one line per session to a results file, goes on where that file stops, and makes the tables of docs/trust.md from it.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/internal/trials"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "trials:", err)
		os.Exit(2)
	}
}

// options are the command line.
type options struct {
	results, binary, docs string
	scenarios             []trials.Scenario
	want, jobs            int
	long                  time.Duration
	table, list, calm     bool
	noisy                 bool
}

func parse(args []string, errs io.Writer) (options, error) {
	var o options
	var only string
	f := flag.NewFlagSet("trials", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&o.results, "results", "trials.jsonl", "results file: one line is appended per session, and sessions in it are not run again")
	f.StringVar(&o.binary, "binary", "", "tailgate to run (default: built from this tree)")
	f.StringVar(&only, "scenario", "", "names of scenarios, separated by commas (default: all)")
	f.IntVar(&o.want, "want", 0, "sessions each scenario should have in the file (default: the number in --list)")
	f.IntVar(&o.jobs, "jobs", 1, "sessions at once; believed only where round noise does not rise, which is measured first")
	f.BoolVar(&o.noisy, "noisy", false, "run --jobs at once even where rounds get noisier; such sessions have tables of their own")
	f.DurationVar(&o.long, "for", 0, "start no session after this long (default: stop when all are there)")
	f.BoolVar(&o.calm, "when-quiet", false, "start a session only when others have left the machine alone for ten seconds")
	f.BoolVar(&o.table, "table", false, "print the tables of the results file and run nothing")
	f.StringVar(&o.docs, "docs", "", "write the tables of the results file into this page, and run nothing")
	f.BoolVar(&o.list, "list", false, "list the scenarios and run nothing")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag; see --help", f.Arg(0))
	}
	if o.want < 0 || o.jobs < 1 || o.long < 0 {
		return o, errors.New("--want and --for cannot be negative, --jobs is at least 1")
	}
	o.scenarios = trials.Scenarios()
	if only != "" {
		o.scenarios = nil
		for name := range strings.SplitSeq(only, ",") {
			sc, ok := trials.Find(name)
			if !ok {
				return o, fmt.Errorf("--scenario %s: no such scenario; --list has them", name)
			}
			o.scenarios = append(o.scenarios, sc)
		}
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	o, err := parse(args, errs)
	if err != nil {
		return err
	}
	switch {
	case o.list:
		for _, s := range o.scenarios {
			fmt.Fprintf(out, "%-22s %4d  %s\n", s.Name, s.Least, s.About)
		}
		return nil
	case o.table:
		return table(o.results, out)
	case o.docs != "":
		return page(o.results, o.docs)
	}
	scratch, err := os.MkdirTemp("", "tailgate-trials-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // a leftover in the temporary folder harms nobody
	p := trials.Plan{Results: o.results, Scratch: scratch, Scenarios: o.scenarios, Want: o.want, Jobs: o.jobs, WhenQuiet: o.calm, Log: errs}
	p.Path, p.Home = os.Getenv("PATH"), os.Getenv("HOME") //nolint:forbidigo // a script of the repository, at its caller's hands
	if p.Binary, p.Tool, err = binary(ctx, o.binary, scratch); err != nil {
		return err
	}
	if o.long > 0 {
		p.Until = time.Now().Add(o.long)
	}
	if !o.noisy {
		p.Jobs, err = p.Parallel(ctx)
	}
	if err == nil {
		err = p.Collect(ctx)
	}
	if ctx.Err() != nil {
		err = nil // somebody said stop: what had ended is in the file
	}
	return errors.Join(err, table(o.results, out))
}

// binary builds tailgate unless one is named, and returns its digest in short.
func binary(ctx context.Context, path, scratch string) (string, string, error) {
	if path == "" {
		path = filepath.Join(scratch, "tailgate")
		build := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/tailgate")
		if text, err := build.CombinedOutput(); err != nil {
			return "", "", fmt.Errorf("go build: %w: %s", err, text)
		}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(text)
	return path, hex.EncodeToString(sum[:6]), nil
}

func table(results string, out io.Writer) error {
	list, _, err := trials.Read(results)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, trials.Tables(list))
	return err
}

func page(results, docs string) error {
	list, _, err := trials.Read(results)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(docs)
	if err != nil {
		return err
	}
	text, err = trials.Page(text, list)
	if err != nil {
		return fmt.Errorf("%s: %w", docs, err)
	}
	return os.WriteFile(docs, text, 0o644) //nolint:gosec // a page is meant to be read
}
