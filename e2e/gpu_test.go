package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// gpuPolicy is a quick session of the simulated server. Its start command counts the starts; in the third one the stub
// driver reports a hardware slowdown (thermal and the general bit), in every other none.
const gpuPolicy = `version: 1
target:
  build: mkdir -p out && cp sim.json out/
  outputs: [out/**]
  start: |
    n=$(($(cat "$STATE/starts" 2>/dev/null || echo 0) + 1))
    echo $n > "$STATE/starts"
    : > "$STATE/scenario.new"
    [ $n != 3 ] || echo '0 * nvmlDeviceGetCurrentClocksEventReasons 0x48' > "$STATE/scenario.new"
    mv "$STATE/scenario.new" "$STATE/scenario"
    exec "$TAILGATE" sim --config out/sim.json --port "$PORT"
  pass_env: [STATE, TAILGATE]
  ready: {path: /health, timeout: 10s}
  stop: {grace: 2s}
workload: workloads/azure-conv-mini
load: {measure: 4s, self_test: 200ms}
warmup: {window: 250ms, band: 30%, trend: 30%, trend_windows: 5, cap: 20s}
rounds: {min: 3, max: 3, max_void: 4}
conditioning: {base: 0s, head_max: 0s}
cooldown: {pause: 0s}
tolerance: {ttft_p50: 50%}
telemetry: {gpu: required, expect_gpu: false}
`

// gpuService is a repository of two commits that differ in a revision number.
func gpuService(t *testing.T, policy string) string {
	t.Helper()
	repo := t.TempDir()
	if err := os.CopyFS(filepath.Join(repo, "workloads"), os.DirFS(filepath.Join(root(t), "workloads"))); err != nil {
		t.Fatal(err)
	}
	write(t, repo, ".tailgate.yaml", policy)
	command(t, repo, "git", "init", "-q", "-b", "main")
	for _, revision := range []string{"1", "2"} {
		write(t, repo, "sim.json", `{"revision": "`+revision+`"}`)
		commitAll(t, repo, "Revision "+revision)
	}
	return repo
}

// A hardware slowdown in one round: no build can cause it, so the round is void whatever its latencies, its pair is run
// again, and the report says so.
func TestE2EHardwareSlowdown(t *testing.T) {
	requireE2E(t)
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Fatalf("the stub driver is compiled with gcc: %v", err)
	}
	state, lib := t.TempDir(), t.TempDir()
	nvml := filepath.Join(command(t, root(t), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml"), "pkg", "nvml")
	command(t, filepath.Join(root(t), "cmd", "tailgate-nvml", "testdata", "stub"),
		"gcc", "-shared", "-fPIC", "-I", nvml, "-o", filepath.Join(lib, "libnvidia-ml.so.1"), "stub.c")
	sensor := filepath.Join(t.TempDir(), "tailgate-nvml")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags", `-extldflags "-Wl,-z,lazy"`, "-o", sensor, "./cmd/tailgate-nvml")
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS=-Wno-deprecated-declarations")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	env := []string{
		"STATE=" + state, "TAILGATE=" + tailgate(t), "TAILGATE_NVML=" + sensor, "LD_LIBRARY_PATH=" + lib,
		"NVIDIA_STUB_SCENARIO=" + filepath.Join(state, "scenario"),
	}
	r := execute(t, gpuService(t, gpuPolicy), filepath.Join(t.TempDir(), "run"), env, "run", "--base", "HEAD~1", "--strategy", "ref")
	if r.judgement.Verdict != gate.Pass {
		t.Errorf("verdict %q; both arms are the same server\n%s\n%s", r.judgement.Verdict, r.out, r.err)
	}
	wantSlowdownVoid(t, r)
	if len(r.run.Environment.GPUs) == 0 || r.run.Environment.GPUs[0].Driver == "" {
		t.Errorf("the GPU and its driver are not on record: %+v", r.run.Environment.GPUs)
	}
	markdown, err := os.ReadFile(filepath.Join(r.dir, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{r.run.Environment.GPUs[0].Name, "driver " + r.run.Environment.GPUs[0].Driver} {
		if !strings.Contains(string(markdown), want) {
			t.Errorf("the report does not say %q:\n%s", want, markdown)
		}
	}
	sentence := regexp.MustCompile(`Void: slot 2 \(\w+, pair 2\), hw_slowdown: thermal_hw on [^ ]+ in \d+ readings under load; run again as slot \d\.`)
	if found := sentence.FindString(unwrapped(r.out)); found == "" {
		t.Errorf("no sentence about the void round in:\n%s", r.out)
	} else {
		t.Log(found)
	}
	wantJudgedAlike(t, r)
}

// wantSlowdownVoid checks that slot 2, the third start, is void by the slowdown and that its pair was run again.
func wantSlowdownVoid(t *testing.T, r result) {
	t.Helper()
	var slots []int
	for _, v := range r.judgement.Validity {
		if v.Rule == "hw_slowdown" {
			slots = append(slots, v.Slot)
		}
	}
	if len(slots) != 1 || slots[0] != 2 {
		t.Errorf("hw_slowdown in slots %v, want it in 2 alone: %+v", slots, r.judgement.Validity)
	}
	again := 0
	for _, rd := range r.run.Rounds {
		if rd.RerunOf != nil && *rd.RerunOf == 2 {
			again++
		}
		readings, err := os.ReadFile(filepath.Join(r.dir, "rounds", slotName(rd), "telemetry.jsonl"))
		if err != nil || strings.Count(string(readings), "\n") < 4 {
			t.Errorf("slot %d: one reading a second must lie beside the windows (%v)", rd.Slot, err)
		}
	}
	if again != 1 {
		t.Errorf("%d rounds run again for slot 2, want 1", again)
	}
}

func slotName(rd record.Round) string {
	name := string(rd.Arm)
	if rd.Slot < 10 {
		return "0" + string(rune('0'+rd.Slot)) + "-" + name
	}
	return string(rune('0'+rd.Slot/10)) + string(rune('0'+rd.Slot%10)) + "-" + name
}

// unwrapped is a report without its line breaks, which depend on the width.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }

// Without a driver the report says that the GPU was not observed, and why; where it is required, nothing is measured.
func TestE2ENoDriver(t *testing.T) {
	requireE2E(t)
	env := []string{"STATE=" + t.TempDir(), "TAILGATE=" + tailgate(t), "TAILGATE_NVML=", "LD_LIBRARY_PATH="}
	repo := gpuService(t, gpuPolicy)
	r := execute(t, repo, filepath.Join(t.TempDir(), "run"), env, "run", "--base", "HEAD~1", "--strategy", "ref")
	if r.code != 4 || r.judgement.Reason != record.TelemetryMissing || len(r.run.Rounds) != 0 {
		t.Errorf("exit %d, reason %q, %d rounds; a required GPU is missing\n%s", r.code, r.judgement.Reason, len(r.run.Rounds), r.err)
	}
	edit(t, repo, ".tailgate.yaml", "gpu: required", "gpu: optional")
	r = execute(t, repo, filepath.Join(t.TempDir(), "run"), env, "run", "--base", "HEAD~1", "--strategy", "ref")
	if !strings.Contains(unwrapped(r.out), "GPU: not observed (") {
		t.Errorf("the report does not say that the GPU was not observed:\n%s", r.out)
	}
	for _, boast := range []string{"no thermal", "no hardware slowdown", "no throttling"} {
		if strings.Contains(unwrapped(r.out), boast) {
			t.Errorf("the report says %q of a GPU that nobody watched", boast)
		}
	}
}
