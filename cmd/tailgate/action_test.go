package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/baseline/build"
	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// gitJob is a job of GitHub's in a checkout: main with a policy, change branched off from it.
type gitJob struct {
	dir, repo, temp string
	env             map[string]string
}

func newGitJob(t *testing.T) *gitJob {
	t.Helper()
	dir := t.TempDir()
	j := &gitJob{dir: dir, repo: filepath.Join(dir, "repo"), temp: filepath.Join(dir, "temp")}
	for _, d := range []string{j.repo, j.temp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyWorkload(filepath.Join(j.repo, "workloads"), "azure-conv-mini"); err != nil {
		t.Fatal(err)
	}
	j.git(t, "init", "-q", "-b", "main")
	j.write(t, ".tailgate.yaml", servicePolicyOf("workloads/azure-conv-mini"))
	j.commit(t, "Serve")
	j.git(t, "switch", "-q", "-c", "change")
	j.commit(t, "Change")
	// A checkout of a pull request has the target branch as the remote's only.
	j.git(t, "update-ref", "refs/remotes/origin/main", "main")
	j.git(t, "branch", "-q", "-D", "main")
	j.env = map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": dir, "GIT_CONFIG_GLOBAL": "/dev/null", "GITHUB_ACTIONS": "true",
		"GITHUB_OUTPUT": filepath.Join(dir, "output"), "GITHUB_STEP_SUMMARY": filepath.Join(dir, "summary"),
		"GITHUB_REPOSITORY": "acme/service", "GITHUB_RUN_ID": "812", "GITHUB_WORKSPACE": j.repo, "RUNNER_TEMP": j.temp,
		"GITHUB_WORKFLOW": "gate", "GITHUB_JOB": "bench",
		// Whatever else is right, this stops the command before it builds anything.
		"INPUT_WORKLOAD_DIGEST": "sha256:" + strings.Repeat("0", 64),
	}
	j.event(t, "pull_request", "acme/service", "main")
	return j
}

func servicePolicyOf(workload string) string {
	return strings.Replace(servicePolicy, "workload: workload", "workload: "+workload, 1)
}

func (j *gitJob) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = j.repo
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (j *gitJob) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(j.repo, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (j *gitJob) commit(t *testing.T, subject string) {
	t.Helper()
	j.git(t, "add", "-A")
	j.git(t, "commit", "-q", "--allow-empty", "-m", subject)
}

// event writes the payload: head is what is checked out, from a repository; base is a branch by name.
func (j *gitJob) event(t *testing.T, name, from, base string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"pull_request": map[string]any{
		"number": 7, "head": map[string]any{"sha": j.git(t, "rev-parse", "HEAD"), "repo": map[string]any{"full_name": from}},
		"base": map[string]any{"sha": strings.Repeat("b", 40), "ref": base},
	}})
	if err != nil {
		t.Fatal(err)
	}
	j.env["GITHUB_EVENT_NAME"], j.env["GITHUB_EVENT_PATH"] = name, filepath.Join(j.dir, "event.json")
	if err := os.WriteFile(j.env["GITHUB_EVENT_PATH"], text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (j *gitJob) environ() []string {
	var list []string
	for name, value := range j.env {
		list = append(list, name+"="+value)
	}
	return list
}

// run runs `tailgate action WHAT` and returns its exit code, what it printed, and the outputs file.
func (j *gitJob) run(t *testing.T, what string) (code int, said, outputs string) {
	t.Helper()
	var out, errOut bytes.Buffer
	_ = os.Remove(j.env["GITHUB_OUTPUT"])
	code = command([]string{"action", what}, &out, &errOut, j.environ())
	text, err := os.ReadFile(j.env["GITHUB_OUTPUT"])
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return code, out.String() + errOut.String(), string(text)
}

func TestActionRunRefusesBeforeItMeasures(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(t *testing.T, j *gitJob)
		says    string
		reason  string
	}{
		{"a fork", func(t *testing.T, j *gitJob) { t.Helper(); j.event(t, "pull_request", "mallory/service", "main") }, "mallory/service", "refused_fork"},
		{"pull_request_target", func(t *testing.T, j *gitJob) {
			t.Helper()
			j.event(t, "pull_request_target", "acme/service", "main")
		}, "rights of the target branch", "refused_event"},
		{"outside a job", func(t *testing.T, j *gitJob) { t.Helper(); delete(j.env, "RUNNER_TEMP") }, "RUNNER_TEMP is not set", "config"},
		{"a bad input", func(t *testing.T, j *gitJob) { t.Helper(); j.env["INPUT_ROUNDS"] = "99" }, `input rounds: "99"`, "config"},
		{"base-ref on a pull request", func(t *testing.T, j *gitJob) { t.Helper(); j.env["INPUT_BASE_REF"] = "main" }, "input base-ref", "config"},
		{"base-strategy on a pull request", func(t *testing.T, j *gitJob) { t.Helper(); j.env["INPUT_BASE_STRATEGY"] = "ref" }, "input base-strategy", "config"},
		{"a target branch that is not here", func(t *testing.T, j *gitJob) { t.Helper(); j.event(t, "pull_request", "acme/service", "release") }, "fetch-depth: 0", "config"},
		{"a hostile branch", func(t *testing.T, j *gitJob) {
			t.Helper()
			j.event(t, "pull_request", "acme/service", "$(touch pwned)`touch pwned`\n::error::x")
		}, "is no ref", "config"},
		{"the working tree for head", func(t *testing.T, j *gitJob) {
			t.Helper()
			j.event(t, "workflow_dispatch", "", "")
			j.env["GITHUB_SHA"], j.env["INPUT_BASE_REF"], j.env["INPUT_HEAD_REF"] = j.git(t, "rev-parse", "HEAD"), "main", "."
		}, "input head-ref", "config"},
		{"output-dir in the checkout", func(t *testing.T, j *gitJob) { t.Helper(); j.env["INPUT_OUTPUT_DIR"] = "results" }, "git does not ignore", "config"},
		{"another workload", func(t *testing.T, _ *gitJob) { t.Helper() }, "the workload has digest sha256:", "config"},
		{"the target branch's policy, not head's", func(t *testing.T, j *gitJob) {
			t.Helper()
			j.write(t, ".tailgate.yaml", servicePolicyOf("nowhere"))
			j.commit(t, "Loosen")
			j.event(t, "pull_request", "acme/service", "main")
		}, "the workload has digest sha256:", "config"},
		{"the tip of the target branch, not the merge base", func(t *testing.T, j *gitJob) {
			t.Helper()
			j.git(t, "switch", "-q", "-c", "tip", "origin/main")
			j.write(t, ".tailgate.yaml", servicePolicyOf("tip-only"))
			j.commit(t, "Tighten")
			j.git(t, "update-ref", "refs/remotes/origin/main", "HEAD")
			j.git(t, "switch", "-q", "change")
		}, "workload tip-only: not found", "config"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := newGitJob(t)
			tt.prepare(t, j)
			code, said, outputs := j.run(t, "run")
			if code != 2 || !strings.Contains(said, tt.says) || strings.Count(said, "::error::") < 1 || strings.Contains(said, "\n::error::x") {
				t.Errorf("exit %d, want 2 with %q:\n%s", code, tt.says, said)
			}
			if !strings.Contains(outputs, "\n"+tt.reason+"\n") || strings.Contains(outputs, "\npass\n") {
				t.Errorf("reason is not %q:\n%s", tt.reason, outputs)
			}
			if left, err := filepath.Glob(filepath.Join(j.temp, "tailgate", "*")); err != nil || len(left) > 0 {
				t.Errorf("left %q, %v", left, err)
			}
			for _, dir := range []string{".", j.repo} {
				if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
					t.Error("a branch name was run")
				}
			}
		})
	}
}

func (j *gitJob) comparison(t *testing.T) *comparison {
	t.Helper()
	a := &app{out: io.Discard, err: io.Discard, environ: j.environ()}
	request, err := a.readJob()
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.jobComparison(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPullRequestIsJudgedByTheTipOfItsTarget(t *testing.T) {
	j := newGitJob(t)
	tip, head := j.git(t, "rev-parse", "origin/main"), j.git(t, "rev-parse", "HEAD")
	// Whoever can push a tag must not choose the policy.
	j.git(t, "tag", "origin/main", head)
	j.git(t, "tag", "main", head)
	c := j.comparison(t)
	if c.policy.commit != tip || c.policy.fallback != head || c.refs.Head != head || c.refs.Base != "refs/remotes/origin/main" || c.refs.Strategy != "merge-base" {
		t.Errorf("policy %+v, refs %+v; tip %s, head %s", c.policy, c.refs, tip, head)
	}
	if want := filepath.Join(j.temp, "tailgate", "812-1-gate-bench"); c.out != want {
		t.Errorf("run folder %s, want %s", c.out, want)
	}
}

// A checkout of one commit holds neither the target branch nor the merge base; origin has both.
func TestPullRequestInAShallowCheckout(t *testing.T) {
	j := newGitJob(t)
	tip, head := j.git(t, "rev-parse", "origin/main"), j.git(t, "rev-parse", "HEAD")
	j.git(t, "branch", "main", tip)
	shallow := filepath.Join(j.dir, "shallow")
	j.git(t, "clone", "-q", "--depth=1", "--branch=change", "file://"+j.repo, shallow)
	j.repo, j.env["GITHUB_WORKSPACE"] = shallow, shallow
	c := j.comparison(t)
	if c.policy.commit != tip || c.refs.Base != "refs/remotes/origin/main" || c.refs.Head != head {
		t.Errorf("policy %+v, refs %+v; tip %s, head %s", c.policy, c.refs, tip, head)
	}
	if _, err := c.policy.read(t.Context(), j.repo); err != nil {
		t.Errorf("the policy: %v", err)
	}
	got, _, err := build.Resolve(t.Context(), j.repo, c.refs)
	if err != nil || got.Base.Commit != tip || got.Head.Commit != head {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFirstPolicyComesFromHead(t *testing.T) {
	j := newGitJob(t)
	j.git(t, "switch", "-q", "--orphan", "empty")
	j.commit(t, "No policy yet")
	j.git(t, "update-ref", "refs/remotes/origin/main", "HEAD")
	j.git(t, "switch", "-q", "change")
	c := j.comparison(t)
	if _, err := c.policy.read(t.Context(), j.repo); err != nil || !c.policy.first {
		t.Errorf("first %t, error %v", c.policy.first, err)
	}
}

func TestNamedRefsTakeThePolicyOfHead(t *testing.T) {
	j := newGitJob(t)
	head := j.git(t, "rev-parse", "HEAD")
	j.event(t, "workflow_dispatch", "", "")
	j.env["GITHUB_SHA"], j.env["INPUT_BASE_REF"], j.env["INPUT_BASE_STRATEGY"] = head, "main", "ref"
	c := j.comparison(t)
	if c.policy.commit != head || c.policy.fallback != "" || c.refs.Base != "refs/remotes/origin/main" || c.refs.Head != head || c.refs.Strategy != "ref" {
		t.Errorf("policy %+v, refs %+v", c.policy, c.refs)
	}
}

func TestOverrides(t *testing.T) {
	f := &config.File{Workload: "a", Rounds: config.Rounds{Min: 4, Max: 8}, Target: config.Target{PassEnv: []string{"A"}}}
	overrides{}.policy(f)
	if f.Workload != "a" || f.Rounds.Min != 4 {
		t.Errorf("nothing given changed the file: %+v", f)
	}
	o := overrides{workload: "b", rounds: 9, passEnv: []string{"B"}}
	o.policy(f)
	own := o.target(f)
	release := config.Default()
	if err := (overrides{gate: "release", rounds: 5}).policy(release); err != nil || release.Rounds.Max != 12 || release.Verdict.SLOBurden != "proven" {
		t.Errorf("a release: %+v, %+v (%v)", release.Rounds, release.Verdict, err)
	}
	if err := (overrides{gate: "nightly"}).policy(config.Default()); err == nil || !strings.Contains(err.Error(), `"nightly"`) {
		t.Errorf("an unknown gate: %v", err)
	}
	if f.Workload != "b" || f.Rounds.Min != 9 || f.Rounds.Max != 9 || fmt.Sprint(own.Target.PassEnv) != "[A B]" || len(f.Target.PassEnv) != 1 {
		t.Errorf("policy %+v, target %+v", f, own.Target)
	}
}

// resultFolder is a run that was judged: base did not build.
func resultFolder(t *testing.T, j *gitJob) string {
	t.Helper()
	run := &record.Run{
		Schema: record.Schema, ID: "20260101-000000-00000000", Kind: record.KindRevisions, Status: record.StatusComplete,
		Arms:      record.Arms{Base: &record.ArmInfo{Commit: strings.Repeat("a", 40)}, Head: &record.ArmInfo{Commit: strings.Repeat("b", 40)}},
		Incidents: []record.Incident{{ID: record.BuildFailed, Arm: record.Base, Text: "base does not build"}},
	}
	dir := filepath.Join(j.dir, "result")
	w, err := record.Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := config.Parse("policy", []byte(servicePolicy))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writeJudgement(dir, dir, run, policyOf(f, "off")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestActionPublish(t *testing.T) {
	tests := []struct {
		name, comment string
		result        bool
		code          int
		status, says  string
	}{
		{"no result", "always", false, 0, "off", ""},
		{"never", "never", true, 0, "off", ""},
		{"no pull request", "auto", true, 0, "degraded:no-pr", "the verdict stands"},
		{"no pull request, always", "always", true, 2, "degraded:no-pr", "the verdict stands"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := newGitJob(t)
			delete(j.env, "INPUT_WORKLOAD_DIGEST")
			j.event(t, "push", "", "")
			j.env["INPUT_COMMENT"] = tt.comment
			if tt.result {
				j.env["TAILGATE_RESULT"] = resultFolder(t, j)
			}
			code, said, outputs := j.run(t, "publish")
			if code != tt.code || !strings.Contains(said, tt.says) || !strings.Contains(outputs, "\n"+tt.status+"\n") {
				t.Errorf("exit %d, want %d with %q:\n%s\n%s", code, tt.code, tt.status, said, outputs)
			}
			summary, err := os.ReadFile(j.env["GITHUB_STEP_SUMMARY"])
			if tt.result != (err == nil) || tt.result && !strings.HasPrefix(string(summary), "**⛔ INVALID**") {
				t.Errorf("summary %q, %v", summary, err)
			}
		})
	}
}

// What the verdict was asked for stands in the run, so that judging again asks for the same.
func TestStoredGate(t *testing.T) {
	for gateOf, want := range map[string]gate.Burden{"": gate.NotViolated, "release": gate.Proven} {
		run := &record.Run{Schema: record.Schema, ID: "20260101-000000-00000000", Kind: record.KindRevisions, Status: record.StatusComplete}
		run.Declared.Policy.Gate = gateOf
		dir := filepath.Join(t.TempDir(), "run")
		w, err := record.Create(dir, run)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Save(run), w.Close(), os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte("version: 1\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		s, err := openStored(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		if s.policy.Burden != want {
			t.Errorf("asked for %q: burden %s, want %s", gateOf, s.policy.Burden, want)
		}
		if err := s.folder.Close(); err != nil {
			t.Error(err)
		}
	}
}
