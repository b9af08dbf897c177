package trials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// Session runs one session and reads what it found.
type Session struct {
	// Binary is the tailgate to run; Tool its digest in short.
	Binary, Tool string
	// Path and Home are PATH and HOME of what it starts.
	Path, Home string
	// Scratch is where the session lives; it is removed afterwards unless Keep says otherwise.
	Scratch string
	// Jobs is how many sessions run at once, for the record.
	Jobs int
	// Keep decides by the result whether the run folder is kept, and where; empty for not.
	Keep func(Result) string
}

// sessionLimit ends a session that hangs. The longest honest one has eight pairs and six more for void rounds.
const sessionLimit = 6 * time.Minute

// Run runs the scenario once. A session without a verdict (cancelled, a broken fixture) is an error and no result.
func (s Session) Run(ctx context.Context, sc Scenario) (Result, error) {
	dir, err := os.MkdirTemp(s.Scratch, sc.Name+"-")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the scratch folder harms nobody
	repo, out := filepath.Join(dir, "service"), filepath.Join(dir, "run")
	if err := s.repository(ctx, sc, dir, repo); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, sessionLimit)
	defer cancel()
	before := readLoad()
	began := time.Now()
	text, spent, err := s.tailgate(ctx, dir, repo, "run", "--base", "HEAD~1", "--strategy", "ref", "--out", out)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Result{}, err
	}
	if exit != nil && !verdictCode(exit.ExitCode()) {
		return Result{}, fmt.Errorf("%s: tailgate exited with %d: %s", sc.Name, exit.ExitCode(), tail(text, 2000))
	}
	r := Result{
		Scenario: sc.Name, Started: began.UTC().Format(time.RFC3339), Seconds: round3(time.Since(began).Seconds()), CPU: round3(spent.Seconds()),
		Tool: s.Tool, Cores: runtime.NumCPU(), Jobs: s.Jobs, Others: before.others(readLoad()),
	}
	if err := r.read(out, sc); err != nil {
		return Result{}, fmt.Errorf("%s: %w", sc.Name, err)
	}
	if s.Keep != nil {
		if to := s.Keep(r); to != "" {
			if err := keep(out, to); err != nil {
				return Result{}, err
			}
		}
	}
	return r, nil
}

// keep moves a run folder to where it is wanted.
func keep(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // run folders are meant to be read
		return err
	}
	return os.Rename(from, to)
}

// verdictCode reports whether an exit code is a verdict: fail, inconclusive, invalid.
func verdictCode(code int) bool { return code == 1 || code == 3 || code == 4 }

// tailgate runs the binary in repo with an environment of its own.
func (s Session) tailgate(ctx context.Context, dir, repo string, args ...string) (output []byte, spent time.Duration, err error) {
	cmd := exec.CommandContext(ctx, s.Binary, args...)
	cmd.Dir = repo
	cmd.Env = append(s.environment(), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	// An interrupt reaches the harness alone, which asks its sessions to stop: each takes its servers with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	output, err = cmd.CombinedOutput()
	if cmd.ProcessState != nil { // of itself and of all it waited for
		spent = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return output, spent, err
}

// environment is what sessions and their git get: of the caller's only what finds programs and the home folder.
func (s Session) environment() []string {
	return []string{
		"PATH=" + s.Path, "HOME=" + s.Home, "TMPDIR=" + s.Scratch,
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Tailgate trials", "GIT_AUTHOR_EMAIL=trials@example.com",
		"GIT_COMMITTER_NAME=Tailgate trials", "GIT_COMMITTER_EMAIL=trials@example.com",
	}
}

// repository makes the scratch repository: the first commit is base, the second head.
func (s Session) repository(ctx context.Context, sc Scenario, dir, repo string) error {
	w, err := sc.Workload()
	if err != nil {
		return err
	}
	if err := workload.Write(filepath.Join(repo, "workload"), w); err != nil {
		return err
	}
	state := filepath.Join(dir, "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(repo, ".tailgate.yaml"), []byte(sc.policy(s.Binary, state)), 0o600); err != nil {
		return err
	}
	if err := s.git(ctx, repo, "init", "-q", "-b", "main"); err != nil {
		return err
	}
	for _, arm := range []record.Arm{record.Base, record.Head} {
		text, err := sc.Config(arm)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(repo, "sim.json"), text, 0o600); err != nil {
			return err
		}
		if err := errors.Join(s.git(ctx, repo, "add", "-A"), s.git(ctx, repo, "commit", "-q", "--no-verify", "-m", "Serve as "+string(arm))); err != nil {
			return err
		}
	}
	return nil
}

func (s Session) git(ctx context.Context, repo string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = repo, s.environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return nil
}

// policy is the session's .tailgate.yaml. Whatever differs from the defaults is listed and explained in docs/trust.md.
func (sc Scenario) policy(binary, state string) string {
	var tolerance strings.Builder
	for _, key := range sc.Gated() {
		fmt.Fprintf(&tolerance, "  %s: %g%%\n", key, 100*Tolerances[key])
	}
	load := ""
	if sc.closed {
		load = fmt.Sprintf("concurrency: %d, ", slots)
	}
	return fmt.Sprintf(`version: 1
target:
  outputs: [sim.json]
  start: exec '%s' sim --config sim.json --port "$PORT"
  ready: {path: /health, timeout: 30s}
  env: {%s: '%s'}
  stop: {grace: 5s}
workload: workload
load: {%smeasure: %s, self_test: 200ms}
warmup: {window: %s, windows: 3, trend_windows: 4, cap: 20s}
rounds: {min: 4, max: 8, max_void: 6}
conditioning: {base: 0s, head_max: 0s}
cooldown: {pause: 0s}
tolerance:
%stelemetry: {gpu: off}
`, binary, stateEnv, state, load, measure, window, tolerance.String())
}

// read fills in what the run folder says.
func (r *Result) read(dir string, sc Scenario) error {
	text, err := os.ReadFile(filepath.Join(dir, "judgement.json"))
	if err != nil {
		return err
	}
	var j gate.Judgement
	if err := json.Unmarshal(text, &j); err != nil {
		return fmt.Errorf("judgement.json: %w", err)
	}
	f, err := record.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	run := f.Run()
	r.ID, r.Verdict, r.Reason, r.Pairs, r.Void = run.ID, j.Verdict, j.Reason, j.Pairs, len(j.Validity)
	for _, finding := range j.Findings {
		if finding.Severity != gate.Info {
			r.Causes = append(r.Causes, strings.TrimSpace(finding.ID+" "+finding.Metric))
		}
	}
	for _, m := range j.Metrics {
		r.Metrics = append(r.Metrics, Metric{
			Key: m.Key, Verdict: m.Verdict, Cause: m.Cause, R: short(m.R), D: short(m.D), S: short(m.S), L: short(m.L), U: short(m.U), T: m.T,
			Pairs: shorts(m.PairD),
		})
	}
	void := map[int]string{}
	for _, v := range j.Validity {
		void[v.Slot] = v.Rule
	}
	for i := range run.Rounds {
		r.Rounds = append(r.Rounds, roundOf(&run.Rounds[i], sc.Gated(), void))
	}
	r.Pooled, err = pool(f, r.Rounds)
	return err
}

func roundOf(rd *record.Round, keys []string, void map[int]string) Round {
	p := rd.Phases
	out := Round{
		Slot: rd.Slot, Arm: rd.Arm, Void: void[rd.Slot], N: rd.Counts.Scheduled, Failed: rd.Counts.Failures(),
		Values: map[string]float64{}, OK: map[string]float64{},
		All: round3(time.Duration(p.Proved - p.Start).Seconds()),
	}
	if rd.State != record.RoundComplete && out.Void == "" {
		out.Void = "partial"
	}
	if p.Confirmed > 0 {
		out.Warm = round3(time.Duration(p.Confirmed - p.Warmup).Seconds())
	}
	for _, key := range keys {
		if x, ok := rd.Metrics[key].Finite(); ok {
			out.Values[key] = figures(x, 7)
		}
		if x, ok := rd.Metrics[key+"_ok"].Finite(); ok {
			out.OK[key] = figures(x, 7)
		} else if x, ok := out.Values[key]; ok {
			out.OK[key] = x
		}
	}
	return out
}

func short(v record.Value) record.Value {
	if x, ok := v.Finite(); ok {
		return record.Of(figures(x, 6))
	}
	return v
}

func shorts(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = figures(x, 6)
	}
	return out
}

// figures rounds to n significant figures, to keep the file small.
func figures(x float64, n int) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	scale := math.Pow(10, float64(n)-math.Ceil(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }

func tail(text []byte, n int) []byte {
	text = bytes.TrimSpace(text)
	return text[max(0, len(text)-n):]
}
