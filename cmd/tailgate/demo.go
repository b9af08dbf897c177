package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/baseline/build"
	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/gate/report"
	"github.com/tailgate-ci/tailgate/workloads"
)

func (a *app) demoCommand() *cobra.Command {
	var name, out string
	var quick bool
	var lines []string
	for _, n := range scenarioNames() {
		lines = append(lines, fmt.Sprintf("  %-12s %s; must be %s", n, scenarios[n].about, scenarios[n].want))
	}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole job on a simulated server, without configuration",
		Long: `demo makes a scratch repository with two commits, builds both, replays a slice of a public trace against both in
interleaved rounds, judges and reports: what ` + "`tailgate run`" + ` does, by the same code. It takes about three minutes and exits 0
when the scenario's verdict came out.

` + strings.Join(lines, "\n"),
		Example: `  tailgate demo
  tailgate demo --scenario identical --quick`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, ok := scenarios[name]
			if !ok {
				return usage(fmt.Errorf("--scenario %s: no such scenario", name), "one of "+strings.Join(scenarioNames(), ", "))
			}
			return a.demo(cmd.Context(), name, s, quick, out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "scenario", "slower", strings.Join(scenarioNames(), "|"))
	f.BoolVar(&quick, "quick", false, "3 pairs of short rounds, medians only: less certain, for tests")
	f.StringVar(&out, "out", "", "run folder to create (default: .tailgate/runs/ID)")
	return cmd
}

func (a *app) demo(ctx context.Context, name string, s scenario, quick bool, out string) error {
	scratch, err := os.MkdirTemp("", "tailgate-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // a leftover in the temporary folder harms nobody
	repo := filepath.Join(scratch, "service")
	fmt.Fprintf(a.err, "demo %s: %s\n", name, s.about)
	if err := s.repository(ctx, repo, filepath.Join(scratch, "state"), quick); err != nil {
		return err
	}
	c := &comparison{
		app: a, repo: repo, scratch: scratch, out: out, args: []string{"demo", "--scenario=" + name, fmt.Sprintf("--quick=%t", quick)}, progress: a.err,
		policy: policySource{path: ".tailgate.yaml"}, lock: lockWish{timeout: defaultLockTimeout},
		refs: build.ResolveOptions{Base: "HEAD~1", Head: "HEAD", Strategy: "ref"},
		seen: simulatorSeen,
	}
	if out == "" {
		wd, err := os.Getwd()
		if err != nil {
			return err
		}
		c.home = wd
	}
	o, err := c.compare(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.err)
	if err := report.Text(a.out, o.run, o.judgement, a.reportOptions(o.dir)); err != nil {
		return err
	}
	return a.sayDemo(name, s, o)
}

// sayDemo compares the verdict with the truth.
func (a *app) sayDemo(name string, s scenario, o *outcome) error {
	j := o.judgement
	fmt.Fprintf(a.out, "\nscenario %s: the truth is %q; the gate said %s and would exit %d\nrun folder: %s\n",
		name, s.about, j.Verdict, gate.Exit(j.Verdict), o.dir)
	if j.Verdict == s.want && s.led(j) {
		return nil
	}
	return &exitError{
		code: demoFailed, err: fmt.Errorf("scenario %s must be %s, and for its own reason; it was %s (%s)", name, s.want, j.Verdict, orNone(j.Reason)),
		hint: "is something else busy on this machine? `tailgate report " + o.dir + " --format markdown` has the rounds",
	}
}

// demoFailed is the exit code of a demo that did not reach the right verdict.
const demoFailed = 1

func orNone(s string) string {
	if s == "" {
		return "no reason"
	}
	return s
}

// repository makes the scratch repository: the first commit is base, the second head.
func (s scenario) repository(ctx context.Context, repo, state string, quick bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	base, head, err := s.configs()
	if err != nil {
		return err
	}
	if err := copyWorkload(filepath.Join(repo, "workloads"), "azure-conv-mini"); err != nil {
		return err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	files := map[string]string{
		".tailgate.yaml": s.policy(self, state, quick),
		".gitignore":     "/out/\n/.tailgate/\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := git(ctx, repo, "init", "-q", "-b", "main"); err != nil {
		return err
	}
	server := filepath.Join(repo, "sim.json")
	if !s.broken {
		if err := os.WriteFile(server, base, 0o600); err != nil {
			return err
		}
	}
	if err := commit(ctx, repo, "Serve prompts"); err != nil {
		return err
	}
	if err := os.WriteFile(server, head, 0o600); err != nil {
		return err
	}
	return commit(ctx, repo, "Change the server")
}

// copyWorkload writes a workload that comes with tailgate below dir.
func copyWorkload(dir, name string) error {
	return fs.WalkDir(workloads.FS, name, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(to, 0o750)
		}
		text, err := workloads.FS.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
}

func commit(ctx context.Context, repo, subject string) error {
	if err := git(ctx, repo, "add", "-A"); err != nil {
		return err
	}
	return git(ctx, repo, "commit", "-q", "--no-verify", "-m", subject)
}

// git runs git with an identity of the demo's own and none of the user's configuration.
func git(ctx context.Context, repo string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = repo
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Tailgate demo", "GIT_AUTHOR_EMAIL=demo@example.com",
		"GIT_COMMITTER_NAME=Tailgate demo", "GIT_COMMITTER_EMAIL=demo@example.com",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return usage(errors.New("git is not on PATH"), "install git")
		}
		return fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return nil
}
