package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tailgate-ci/tailgate/baseline/build"
	"github.com/tailgate-ci/tailgate/gate/report"
)

func (a *app) runCommand() *cobra.Command {
	var base, head, strategy, file, out string
	var over overrides
	var timeout time.Duration
	var lock lockWish
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Compare two revisions as .tailgate.yaml says",
		Long: `run builds base and head in worktrees of their own, measures them in interleaved rounds, judges, and prints the report.
The exit code is the verdict: 0 pass, 1 fail, 2 usage, 3 inconclusive, 4 invalid.`,
		Example: `  tailgate run                               # HEAD against its merge base with the default branch
  tailgate run --base v1.4.0 --strategy ref  # HEAD against a release
  tailgate run --head .                      # the files as they lie here, committed or not
  tailgate run --strategy merge --head refs/pull/7/merge  # what will land
  tailgate run --rounds.min 3 --rounds.max 3 # a quick, provisional answer
  tailgate run --out /data/runs/today`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			repo, norepo := repository(cmd.Context(), ".")
			if norepo != nil {
				repo = "."
			}
			if err := errors.Join(soundTimeout(timeout), lock.check()); err != nil {
				return err
			}
			c := &comparison{
				app: a, repo: repo, norepo: norepo, out: out, args: append([]string{"run"}, flagsOf(cmd)...), progress: a.err,
				policy: policySource{path: file}, over: over, timeout: timeout, lock: lock,
				refs: build.ResolveOptions{Base: base, Head: head, Strategy: strategy},
			}
			o, err := c.compare(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&base, "base", "", "base ref (default: the remote's default branch, main or master)")
	f.StringVar(&head, "head", "", "head ref, or . for the files as they lie here, committed or not (default: HEAD)")
	f.StringVar(&strategy, "strategy", "merge-base", "merge-base: base is where head branched off; merge: head is a merge commit, base its first parent; ref: base as it stands")
	f.StringVar(&file, "config", ".tailgate.yaml", "the configuration, relative to the repository")
	f.StringVar(&over.gate, "gate", "", "what the verdict is for, pr or release, instead of the file's: a release is to be shown to hold")
	f.IntVar(&over.rounds, "rounds.min", 0, "pairs at the first look, 3 to 12, instead of the file's; 3 is provisional")
	f.IntVar(&over.most, "rounds.max", 0, "pairs at the last look, instead of the file's")
	f.DurationVar(&timeout, "timeout", 0, "begin no pair that would not be over by then; what was measured is judged (default: no limit)")
	lock.flags(f)
	f.StringVar(&out, "out", "", "run folder to create (default: .tailgate/runs/ID)")
	return cmd
}

// soundTimeout refuses a limit that no session can keep.
func soundTimeout(d time.Duration) error {
	if d < 0 {
		return usage(fmt.Errorf("--timeout %s is negative", d), "write how long the session may take, such as 50m")
	}
	return nil
}

// show prints the report and the run folder, and ends with the verdict's exit code.
func (a *app) show(o *outcome) error {
	fmt.Fprintln(a.err)
	if err := report.Text(a.out, o.run, o.judgement, a.reportOptions(o.dir)); err != nil {
		return err
	}
	return verdictExit(o.judgement.Verdict)
}

// reportOptions fits the report to where it is printed. Colour only repeats what words say.
func (a *app) reportOptions(dir string) report.Options {
	o := report.Options{ASCII: a.ascii, RunFolder: dir, Width: columns(a.out)}
	_, plain := a.lookup("NO_COLOR")
	o.Color = isTerminal(a.out) && !plain && a.getenv("TERM") != "dumb"
	return o
}

// flagsOf lists the flags the user set, for the record.
func flagsOf(cmd *cobra.Command) []string {
	var set []string
	cmd.Flags().Visit(func(f *pflag.Flag) { set = append(set, "--"+f.Name+"="+f.Value.String()) })
	return set
}

// repository is the root of the git repository that holds dir.
func repository(ctx context.Context, dir string) (string, error) {
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errOut
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", usage(errors.New("git is not on PATH"), "install git")
		}
		wd, _ := os.Getwd()
		return "", usage(fmt.Errorf("%s is not inside a git repository", wd), "change into the repository of your service, or try `tailgate demo`")
	}
	return strings.TrimSpace(out.String()), nil
}
