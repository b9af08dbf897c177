package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

func TestMain(m *testing.M) {
	// Sessions wait most of their time: so many at once as there are processors would leave those idle.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"tailgate": main})
}

// TestScripts runs the command line by line, as its users do. Sessions are short: 100 ms warm-up windows, a second measured,
// medians only; what they decide is proven elsewhere.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for a minute; run without -short")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, ".cache"))
			env.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
			for _, who := range []string{"AUTHOR", "COMMITTER"} {
				env.Setenv("GIT_"+who+"_NAME", "script")
				env.Setenv("GIT_"+who+"_EMAIL", "script@example.com")
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"killed":  killedCommand,
			"service": serviceCommand,
			"exit":    exitCommand,
			"interrupt": func(ts *testscript.TestScript, _ bool, args []string) {
				cancelCommand(ts, os.Interrupt, gate.ExitInterrupted, interruptBudget, args)
			},
			"terminate": func(ts *testscript.TestScript, _ bool, args []string) {
				cancelCommand(ts, syscall.SIGTERM, gate.ExitTerminated, terminateBudget, args)
			},
			"sim":     simServerCommand,
			"http2":   http2Command,
			"load":    loadScriptCommand,
			"dying":   dyingCommand,
			"freeze":  freezeCommand,
			"orphans": orphansCommand,
			"gone":    goneCommand,
			"golden":  goldenCommand,
			"runjson": runJSONCommand,
			"looks":   looksCommand,

			"provisional": provisionalCommand,
			"calibration": calibrationCommand,
			"replace":     replaceCommand,
		},
		Condition: func(cond string) (bool, error) {
			if cond == "namespaces" {
				err := exec.Command("unshare", "-rm", "true").Run()
				if err != nil && os.Getenv("TAILGATE_E2E") == "1" {
					return false, fmt.Errorf("TAILGATE_E2E=1 allows no skip: unshare -rm: %w", err)
				}
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// goldenCommand copies the small golden run, with all its files: `golden DIR`.
func goldenCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: golden DIR")
	}
	ts.Check(os.CopyFS(ts.MkAbs(args[0]), os.DirFS(filepath.Join("..", "..", "runner", "record", "testdata", "small"))))
}

// serviceCommand makes a repository with a simulated service: `service DIR`. Its two commits differ in a revision number. The
// policy's workload is in workload; chat has the same as messages.
func serviceCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: service DIR")
	}
	makeService(ts, ts.MkAbs(args[0]), "{\"revision\": \"%d\", \"prefill_per_token\": \"1ms\"}\n")
}

// checker is what making a repository needs of a script or a test.
type checker interface {
	Check(err error)
	Fatalf(format string, args ...any)
}

// makeService makes the repository of serviceCommand with a server whose configuration is server, %d being the revision.
func makeService(ts checker, dir, server string) {
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(workload.Write(filepath.Join(dir, "workload"), shortWorkload(ts, false)))
	ts.Check(workload.Write(filepath.Join(dir, "chat"), shortWorkload(ts, true)))
	ts.Check(os.WriteFile(filepath.Join(dir, ".tailgate.yaml"), []byte(servicePolicy), 0o644))
	ts.Check(os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("/out/\n"), 0o644))
	git := func(args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=s", "GIT_AUTHOR_EMAIL=s@example.com", "GIT_COMMITTER_NAME=s", "GIT_COMMITTER_EMAIL=s@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	for i, subject := range []string{"Serve", "Change nothing that matters"} {
		text := fmt.Sprintf(server, i+1)
		ts.Check(os.WriteFile(filepath.Join(dir, "sim.json"), []byte(text), 0o644))
		git("add", "-A")
		git("commit", "-q", "-m", subject)
	}
}

const servicePolicy = `version: 1
target:
  build: mkdir -p out && cp sim.json out/
  outputs: [out/**]
  start: exec tailgate sim --config out/sim.json --port "$PORT"
  ready: {path: /health, timeout: 10s}
  stop: {grace: 2s}
workload: workload
load: {measure: 1s, self_test: 200ms}
warmup: {window: 100ms, windows: 5, band: 50%, trend: 50%, trend_windows: 5, cap: 5s}
rounds: {min: 3, max: 3, max_void: 6}
conditioning: {base: 0s, head_max: 0s}
cooldown: {pause: 0s}
tolerance:
  ttft_p50: {relative: 60%, force: true}
drift: {max_base: 50%}
telemetry: {gpu: off}
`

// shortWorkload is 100 requests a second for five seconds, of prompts or of chat messages.
func shortWorkload(ts checker, chat bool) *workload.Workload {
	const gap, count = 10 * time.Millisecond, 500
	turns := make([]workload.Turn, count)
	for i := range turns {
		id := fmt.Sprintf("r%03d", i)
		turns[i] = workload.Turn{
			ID: id, Conv: id, N: 1, At: time.Duration(i) * gap, InTokens: 40,
			Prompt: &workload.Text{Inline: id + strings.Repeat(" word", 39)}, Out: workload.Output{Mode: workload.Force, Tokens: 4},
		}
		if chat {
			turns[i].Messages = []workload.TurnMessage{{Role: "user", Content: *turns[i].Prompt}}
			turns[i].Prompt = nil
		}
	}
	w, err := workload.New(workload.Manifest{
		Name: "short", Version: 1, Seed: "1", Source: workload.Source{Importer: "synthetic"},
		Arrivals: workload.Arrivals{Kind: "generated", SpanNS: int64(count * gap)}, Output: workload.OutputPolicy{Mode: workload.Force},
	}, turns, nil)
	ts.Check(err)
	return w
}

// exitCommand runs a command line and wants one of some exit codes: `exit 2 tailgate run`, `exit 0,3 tailgate run`. Its output is there for stdout and stderr.
func exitCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(got)) {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// cancelCommand runs tailgate, sends a signal once its progress shows a text, and wants the exit code within the budget:
// `interrupt TEXT tailgate run`, `terminate TEXT tailgate run`.
func cancelCommand(ts *testscript.TestScript, signal os.Signal, want int, budget time.Duration, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: interrupt|terminate TEXT COMMAND...")
	}
	out := filepath.Join(ts.Getenv("WORK"), "interrupted")
	f, err := os.Create(out)
	ts.Check(err)
	defer f.Close()
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), f, f
	cmd.Env = scriptEnv(ts)
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	deadline := time.After(30 * time.Second)
	for {
		text, err := os.ReadFile(out)
		ts.Check(err)
		if bytes.Contains(text, []byte(args[0])) {
			break
		}
		select {
		case err := <-ended:
			ts.Fatalf("ended before %q: %v\n%s", args[0], err, text)
		case <-deadline:
			_ = cmd.Process.Kill()
			ts.Fatalf("never said %q:\n%s", args[0], text)
		case <-time.After(5 * time.Millisecond):
		}
	}
	ts.Check(cmd.Process.Signal(signal))
	began := time.Now()
	<-ended
	text, err := os.ReadFile(out)
	ts.Check(err)
	ts.Logf("%s", text)
	if code := cmd.ProcessState.ExitCode(); code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
	if took := time.Since(began); took > budget+time.Second {
		ts.Fatalf("took %s to stop, the budget is %s", took, budget)
	}
}

// scriptEnv is the script's environment as a list.
func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "WORK", "TMPDIR", "XDG_CACHE_HOME", "GIT_CONFIG_GLOBAL", "TESTSCRIPT_COMMAND"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// goneCommand wants that no process of this script is left: none has the work folder in its command line, environment or
// working folder.
func goneCommand(ts *testscript.TestScript, _ bool, _ []string) {
	deadline := time.Now().Add(2 * time.Second)
	for {
		left := carrying(ts.Getenv("WORK"))
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("left behind:\n%s", strings.Join(left, "\n"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// carrying lists the processes that have a folder in their command line or environment, but for this one.
func carrying(dir string) []string {
	var left []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range procs {
		if filepath.Base(proc) == strconv.Itoa(os.Getpid()) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(proc, "environ"))
		if bytes.Contains(cmdline, []byte(dir)) || bytes.Contains(environ, []byte(dir)) {
			left = append(left, filepath.Base(proc)+" "+string(bytes.ReplaceAll(cmdline, []byte{0}, []byte(" "))))
		}
	}
	return left
}

// runJSONCommand reads a run folder with the reader of the product and prints what scripts look at: `runjson DIR`.
func runJSONCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: runjson DIR")
	}
	f, err := record.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	run := f.Run()
	valid := 0
	for _, rd := range run.Rounds {
		if rd.State == record.RoundComplete && !slices.ContainsFunc(gate.Validity(run), func(v record.Void) bool { return v.Slot == rd.Slot }) {
			valid++
		}
	}
	fmt.Fprintf(ts.Stdout(), "status %s\nrounds %d\nvalid %d\n", run.Status, len(run.Rounds), valid)
	for _, arm := range []record.Arm{record.Base, record.Head} {
		if info := run.Arms.Get(arm); info != nil && info.Build.SHA256 != "" {
			fmt.Fprintf(ts.Stdout(), "build %s %s\n", arm, map[bool]string{true: "cached", false: "made"}[info.Build.Cached])
		}
	}
	for _, in := range run.Incidents {
		fmt.Fprintf(ts.Stdout(), "incident %s %s\n", in.ID, in.Arm)
	}
	for _, n := range run.Notes {
		fmt.Fprintf(ts.Stdout(), "note %s: %s\n", n.ID, n.Text)
	}
	differences, err := record.Verify(f)
	ts.Check(err)
	for _, d := range differences {
		fmt.Fprintf(ts.Stdout(), "differs %v\n", d)
	}
	if text, err := os.ReadFile(filepath.Join(ts.MkAbs(args[0]), "judgement.json")); err == nil {
		var j gate.Judgement
		ts.Check(json.Unmarshal(text, &j))
		fmt.Fprintf(ts.Stdout(), "verdict %s reason %s\n", j.Verdict, j.Reason)
	}
}

// replaceCommand edits a file: `replace FILE FROM TO`. FROM must occur; \n in TO is a line feed.
func replaceCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: replace FILE FROM TO")
	}
	path := ts.MkAbs(args[0])
	text, err := os.ReadFile(path)
	ts.Check(err)
	from, to := args[1], strings.ReplaceAll(args[2], `\n`, "\n")
	if !strings.Contains(string(text), from) {
		ts.Fatalf("%s does not contain %q:\n%s", args[0], from, text)
	}
	ts.Check(os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o644))
}

// looksCommand prints what a run declared before its first round: `looks DIR`.
func looksCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: looks DIR")
	}
	f, err := record.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	d := f.Run().Declared
	looks := make([]string, len(d.Looks))
	for i, n := range d.Looks {
		looks[i] = strconv.Itoa(n)
	}
	fmt.Fprintf(ts.Stdout(), "looks %s\nlevel %.4g\norder %d\n", strings.Join(looks, ","), d.Level, len(d.Order))
}

// provisionalCommand wants the line of three pairs in the report of a run that was judged, and only there: `provisional DIR`.
func provisionalCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: provisional DIR")
	}
	dir := ts.MkAbs(args[0])
	var j gate.Judgement
	text, err := os.ReadFile(filepath.Join(dir, "judgement.json"))
	ts.Check(err)
	ts.Check(json.Unmarshal(text, &j))
	report, err := os.ReadFile(filepath.Join(dir, "report.txt"))
	ts.Check(err)
	said := regexp.MustCompile(`(?m)^3 pairs: provisional\. Smallest slowdown detectable here: [0-9.]+ %`).Match(report)
	// A machine too busy for three valid pairs judges none, which is no fault of the line.
	if want := j.Look == 1; j.Provisional != want || said != want {
		ts.Fatalf("look %d, provisional %v, said %v:\n%s", j.Look, j.Provisional, said, report)
	}
}

// calibrationCommand writes a sound calibration of another machine: `calibration FILE`.
func calibrationCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: calibration FILE")
	}
	ts.Check(record.WriteCalibration(ts.MkAbs(args[0]), &record.Calibration{
		Schema: record.CalibrationSchema, Run: "elsewhere", Date: time.Now(), Pairs: 9, Planned: 9, Measure: time.Second, Level: 0.05, MaxPairs: 3,
		Verdict: "pass", Workload: record.CalibratedWorkload{Digest: "sha256:" + strings.Repeat("7", 64)}, GPUs: []record.CalibratedGPU{},
		Metrics: map[string]record.CalibratedMetric{"ttft_p50": {SD: record.Of(0.01), DF: 8}},
	}))
}
