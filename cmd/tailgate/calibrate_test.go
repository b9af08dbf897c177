package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// madeUp is when made-up sessions began.
var madeUp = time.Date(2026, 3, 4, 10, 15, 0, 0, time.UTC)

// aSession writes the folder of a made-up session in which pair k has head slower than base by d[k], a log ratio in TTFT p50.
func aSession(t *testing.T, dir string, kind record.Kind, policy string, d []float64, looks ...int) {
	t.Helper()
	run := &record.Run{
		ID: "made-up-" + string(kind), Kind: kind, Status: record.StatusComplete, Epoch: madeUp, Tailgate: tool(), Command: "tailgate",
		Declared: record.Declared{
			Looks: looks, Level: stat.Level(looks[0], len(looks)), Min: looks[0], Max: looks[len(looks)-1], MaxVoid: 2, Mode: "restart",
			Measure: time.Minute, SLO: map[string]float64{}, Telemetry: record.TelemetryPlan{GPU: "off"},
		},
		Workload:    record.WorkloadInfo{Name: "short", Version: 1, Digest: "sha256:" + strings.Repeat("5", 64), Requests: 5000},
		Arms:        record.Arms{Base: &record.ArmInfo{Commit: strings.Repeat("a", 40)}, Head: &record.ArmInfo{Commit: strings.Repeat("b", 40)}},
		Environment: record.Environment{Host: record.Host{Name: "here", CPU: "one"}},
	}
	for slot, head := range stat.Order(looks[len(looks)-1], 0) {
		arm, x := record.Base, 100.0
		pair := slot / 2
		if head {
			arm = record.Head
		}
		run.Declared.Order = append(run.Declared.Order, arm)
		if pair >= len(d) {
			continue
		}
		if head {
			x *= math.Exp(d[pair])
		}
		run.Rounds = append(run.Rounds, record.Round{
			Slot: slot, Arm: arm, Pair: pair, State: record.RoundComplete,
			Counts:  record.Counts{Scheduled: 5000, Classes: map[record.Outcome]int{record.OK: 5000}},
			Metrics: map[string]record.Metric{"ttft_p50": {Value: record.Of(x), Unit: "ms", N: 5000}, "ttft_p95": {Value: record.Of(2 * x), Unit: "ms", N: 5000}},
			Beyond:  map[string]int{}, Steady: record.SteadyReport{Windows: 10, Joined: 1, MetAt: 6, ConfirmedAt: 10, End: "confirmed"},
			Client: record.ClientReport{WireSHA256: "aa", PacerLagP99: record.Of(0.4), Span: record.Of(1), GCPause: record.Of(1)},
		})
	}
	w, err := record.Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	plainPolicy = "version: 1\ntolerance: {ttft_p50: 5%}\n"
	priorPolicy = plainPolicy + "verdict: {calibration: noise.json}\n"
)

// wobble is a spread of about a percent around 0.
var wobble = []float64{0.01, -0.012, 0.008, -0.009, 0.011, -0.01, 0.009, -0.011, 0.004}

// runs runs a command line and wants its exit code.
func runs(t *testing.T, want int, args ...string) (out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	if got := command(args, &o, &e, nil); got != want {
		t.Fatalf("tailgate %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, want, o.String(), e.String())
	}
	return o.String(), e.String()
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A calibration can be made again from the run folder, to the same bytes, and is printed for people and for programs.
func TestCalibrateFrom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cal")
	aSession(t, dir, record.KindCalibrate, plainPolicy, wobble, 9)
	out, errOut := runs(t, 0, "calibrate", "--from", dir)
	for _, want := range []string{
		"CALIBRATED — rounds of one build differ by ", "one build aaaaaaa against itself", "9 of 9 pairs valid, rounds of 60 s", "TTFT p50",
		"at most 8 pairs with bounds at 97.7 %", "What is not gated is in calibration.json too (1)", "Judged as two builds: pass", "keep calibration.json in the repository",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("does not say %q:\n%s", want, out)
		}
	}
	if !strings.Contains(errOut, "written: "+filepath.Join(dir, "calibration.json")) || strings.Contains(out, "Warning") {
		t.Errorf("%s\n%s", errOut, out)
	}
	first := read(t, dir, "calibration.json")
	text, _ := runs(t, 0, "calibrate", "--from", dir, "--json")
	if read(t, dir, "calibration.json") != first {
		t.Error("made again, the file has other bytes")
	}
	c, err := record.ReadCalibration("stdout", []byte(text))
	if err != nil || c.Pairs != 9 || c.Verdict != "pass" || c.Run != "made-up-calibrate" {
		t.Errorf("%+v, %v", c, err)
	}
	// A run whose writer died keeps its rounds: four pairs are enough, three are not.
	for pairs, code := range map[int]int{4: 0, 3: 4} {
		part := filepath.Join(t.TempDir(), fmt.Sprint(pairs))
		aSession(t, part, record.KindCalibrate, plainPolicy, wobble[:pairs], 9)
		text := strings.Replace(read(t, part, "run.json"), `"status": "complete"`, `"status": "running"`, 1)
		if err := os.WriteFile(filepath.Join(part, "run.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, errOut := runs(t, code, "calibrate", "--from", part)
		if code == 0 && !strings.Contains(out, "4 pairs are too few for verdict.calibration") || code != 0 && !strings.Contains(errOut, "3 pairs valid, a calibration takes 4") {
			t.Errorf("%d pairs:\n%s%s", pairs, out, errOut)
		}
	}
}

// A tolerance that the noise does not support is said in the calibration and in every comparison that names it.
func TestCalibrateTooFine(t *testing.T) {
	dir := t.TempDir()
	loud := make([]float64, len(wobble))
	for i, d := range wobble {
		loud[i] = 4 * d
	}
	aSession(t, filepath.Join(dir, "cal"), record.KindCalibrate, plainPolicy, loud, 9)
	out, _ := runs(t, 0, "calibrate", "--from", filepath.Join(dir, "cal"))
	if !strings.Contains(out, "5 %, too fine") || !strings.Contains(out, "Warning: TTFT p50 has a tolerance of 5 %") {
		t.Errorf("does not warn:\n%s", out)
	}
	aSession(t, filepath.Join(dir, "run"), record.KindRevisions, priorPolicy, wobble[:4], 4, 6, 8)
	use(t, dir)
	out, _ = runs(t, 0, "report", filepath.Join(dir, "run"))
	if !strings.Contains(strings.Join(strings.Fields(out), " "), "Warning: TTFT p50 has a tolerance of 5 %; at the calibrated noise at most 8 pairs support") {
		t.Errorf("does not warn:\n%s", out)
	}
}

// use puts the calibration of dir/cal into dir/run, as a session that names it does.
func use(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "run", "calibration.json"), []byte(read(t, dir, "cal", "calibration.json")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A stored run is judged again with the calibration in its folder, to the same bytes; by another policy with that one's.
func TestReportWithCalibration(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	aSession(t, filepath.Join(dir, "cal"), record.KindCalibrate, plainPolicy, wobble, 9)
	runs(t, 0, "calibrate", "--from", filepath.Join(dir, "cal"))
	// Head is 3 % slower in four pairs that differ by 1 %: not enough by themselves to be within 5 %.
	slower := make([]float64, 4)
	for i := range slower {
		slower[i] = wobble[i] + 0.033
	}
	aSession(t, run, record.KindRevisions, priorPolicy, slower, 4, 6, 8)
	_, errOut := runs(t, gate.ExitUsage, "report", run)
	if !strings.Contains(errOut, "verdict.calibration") || !strings.Contains(errOut, "calibration.json") {
		t.Errorf("the missing copy is not named:\n%s", errOut)
	}
	use(t, dir)
	out, _ := runs(t, 0, "report", run)
	flat := strings.Join(strings.Fields(out), " ")
	if !strings.Contains(flat, "spread moderated by the calibration of 2026-03-04 (9 pairs, it was pass)") || !strings.Contains(flat, "(own 1.1 %)") {
		t.Errorf("does not say what moved the spread:\n%s", out)
	}
	first := read(t, run, "judgement.json")
	runs(t, 0, "report", run)
	if read(t, run, "judgement.json") != first {
		t.Error("judged again, the run has another judgement")
	}
	// Without it the same numbers are undecided; that is what it is for.
	plain := filepath.Join(dir, "plain.yaml")
	if err := os.WriteFile(plain, []byte(plainPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	runs(t, 3, "report", run, "--policy", plain, "--out", filepath.Join(dir, "again"))
	if strings.Contains(read(t, dir, "again", "judgement.json"), "moderation") || read(t, run, "judgement.json") != first {
		t.Error("the policy without a calibration has one, or wrote over the run's judgement")
	}
	// Another policy names a file beside itself.
	other := filepath.Join(dir, "other.yaml")
	if err := os.WriteFile(other, []byte(priorPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errOut = runs(t, gate.ExitUsage, "report", run, "--policy", other, "--out", filepath.Join(dir, "again"))
	if !strings.Contains(errOut, filepath.Join(dir, "noise.json")) {
		t.Errorf("does not name the file that is missing:\n%s", errOut)
	}
	text := strings.Replace(read(t, dir, "cal", "calibration.json"), `"pairs": 9`, `"pairs": 90`, 1)
	if err := os.WriteFile(filepath.Join(dir, "noise.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errOut = runs(t, gate.ExitUsage, "report", run, "--policy", other, "--out", filepath.Join(dir, "again"))
	if !strings.Contains(errOut, "noise.json:") || !strings.Contains(errOut, ": pairs: 90 is out of range: 4 to 12") {
		t.Errorf("file, line and field are not named:\n%s", errOut)
	}
}

// Three pairs say that they are provisional; pairs of a look that was not reached are kept, shown and not judged.
func TestUnfinishedLookIsShown(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	five := []float64{0.001, -0.001, 0.002, -0.001, 3}
	aSession(t, run, record.KindRevisions, plainPolicy, five, 4, 6, 8)
	// As a session leaves it whose time was over.
	text := strings.Replace(read(t, run, "run.json"), `"status": "complete"`, `"status": "deadline"`, 1)
	if err := os.WriteFile(filepath.Join(run, "run.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := runs(t, 0, "report", run)
	if !strings.Contains(strings.Join(strings.Fields(out), " "), "4 pairs, 1 more measured and not judged") || !strings.HasPrefix(out, "✅ PASS — out of time after slot 9: ") {
		t.Errorf("does not show the fifth pair:\n%s", out)
	}
	md := read(t, run, "report.md")
	if n := strings.Count(md, "valid, beyond the last look: not judged"); n != 2 {
		t.Errorf("%d rounds are marked, want 2:\n%s", n, md)
	}
	three := filepath.Join(dir, "three")
	aSession(t, three, record.KindRevisions, plainPolicy, five[:3], 3)
	out, _ = runs(t, 0, "report", three)
	if lines := strings.Split(out, "\n"); !strings.HasPrefix(lines[2], "3 pairs: provisional. Smallest slowdown detectable here: ") || !strings.Contains(lines[2], " % in TTFT p50") {
		t.Errorf("line 3 is %q", lines[2])
	}
	for _, word := range []string{"p-value", "p =", "p <"} {
		if strings.Contains(out+read(t, three, "report.md"), word) {
			t.Errorf("three pairs print %q", word)
		}
	}
}

// A pull request is judged with the calibration of the commit that its policy comes from; one that a change could have written
// outside the repository is refused.
func TestCalibrationOfACommit(t *testing.T) {
	repo := t.TempDir()
	ctx := t.Context()
	if err := git(ctx, repo, "init", "-q", "-b", "main"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	aSession(t, filepath.Join(dir, "cal"), record.KindCalibrate, plainPolicy, wobble, 9)
	runs(t, 0, "calibrate", "--from", filepath.Join(dir, "cal"))
	good := read(t, dir, "cal", "calibration.json")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("noise.json", good)
	if err := commit(ctx, repo, "Calibrate"); err != nil {
		t.Fatal(err)
	}
	write("noise.json", strings.Replace(good, `"pairs": 9`, `"pairs": 12`, 1))
	f, err := config.Parse("p", []byte(priorPolicy))
	if err != nil {
		t.Fatal(err)
	}
	p := policySource{path: "p", commit: "HEAD"}
	c, text, err := p.calibration(ctx, repo, f)
	if err != nil || c.Pairs != 9 || string(text) != good {
		t.Errorf("%+v, %v", c, err)
	}
	f.Verdict.Calibration = filepath.Join(dir, "cal", "calibration.json")
	if _, _, err := p.calibration(ctx, repo, f); err == nil || !strings.Contains(err.Error(), "lies outside the repository") {
		t.Errorf("an absolute path is read for a pull request: %v", err)
	}
	f.Verdict.Calibration = "none.json"
	if _, _, err := p.calibration(ctx, repo, f); err == nil || !strings.Contains(err.Error(), "verdict.calibration: none.json: no such file at commit HEAD") {
		t.Errorf("%v", err)
	}
	p.commit, f.Verdict.Calibration = "", filepath.Join(dir, "cal", "calibration.json")
	if c, _, err := p.calibration(ctx, repo, f); err != nil || c.Pairs != 9 {
		t.Errorf("a file of this machine is not read at a terminal: %+v, %v", c, err)
	}
	f.Verdict.Calibration = "off"
	if c, text, err := p.calibration(ctx, repo, f); c != nil || text != nil || err != nil {
		t.Errorf("off: %+v, %v", c, err)
	}
}
