package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// full is the example of the manual with a value for every kind of key.
const full = `# our gate
version: 1
target:
  build: make server
  build_timeout: 5m
  outputs: [bin/*, "models/**"]
  start: ./server --port $PORT --model $MODEL
  ready: {path: /health, timeout: 90s}
  env: {MODEL: /models/small.gguf, THREADS: 08, MLOCK: yes}
  pass_env: [HF_HOME]
  cache_env: [TRITON_CACHE_DIR]
  toolchain: [go version]
  relocatable: false
  image_digest: cat digest
  git: {lfs: true, submodules: true}
  stop: {signal: SIGINT, grace: 5s, required: clean, memory_timeout: 90s}
  stop_command: ./stop.sh
  pids: cat pids
  port: 8080
  model: small
  dialect: openai-completions
arms:
  base: {args: [--no-prefix-cache]}
  head: {args: [--prefix-cache, 4], env: {CACHE: "1"}, ready: {timeout: 20m}}
workload: workloads/chat-v3
load:
  scale: 1.0
  measure: 1m30s
  limits: {total: 2m, first_event: 0}
warmup: {window: 250ms, windows: 3, band: 7.5%, cap: 1m}
rounds: {min: 6}
slo: {ttft_p99: 800ms, error_rate: 0.1%, output_tps: 1800/s, goodput: 99%}
tolerance:
  ttft_p50: 3%
  ttft_p99: {absolute: 5ms, force: true}
  output_tps: {relative: 2%, absolute: 40/s}
drift:
verdict: {alpha: 1%, fail_margin: full, multiplicity: holm, slo_burden: proven, slo_preexisting: fail, calibration: noise/c.json}
telemetry: {gpu: optional, interval: 500ms, nvml: bin/sensor, expect_gpu: false}
baseline: {cache: /var/cache/tailgate, protected: [main]}
`

func parse(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse(".tailgate.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestParseReadsEveryKey(t *testing.T) {
	want := Default()
	want.Target = Target{
		Build: "make server", BuildTimeout: Duration(5 * time.Minute), Outputs: []string{"bin/*", "models/**"},
		Start: "./server --port $PORT --model $MODEL", Ready: Ready{"/health", Duration(90 * time.Second)},
		Env:     map[string]string{"MODEL": "/models/small.gguf", "THREADS": "08", "MLOCK": "yes"},
		Git:     Git{LFS: true, Submodules: true},
		PassEnv: []string{"HF_HOME"}, Stop: Stop{"SIGINT", Duration(5 * time.Second), CleanStop, Duration(90 * time.Second)},
		StopCommand: "./stop.sh", PIDs: "cat pids",
		Port: 8080, Model: "small", Dialect: "openai-completions",
		Toolchain: []string{"go version"}, ImageDigest: "cat digest", CacheEnv: []string{"TRITON_CACHE_DIR"},
	}
	want.Arms = Arms{
		Base: &Arm{Args: []string{"--no-prefix-cache"}},
		Head: &Arm{Args: []string{"--prefix-cache", "4"}, Env: map[string]string{"CACHE": "1"}, Ready: ArmReady{Duration(20 * time.Minute)}},
	}
	want.Workload = "workloads/chat-v3"
	want.Load.Measure = Duration(90 * time.Second)
	want.Load.Limits.Total, want.Load.Limits.Drain, want.Load.Limits.FirstEvent = Duration(2*time.Minute), Duration(2*time.Minute), 0
	want.Warmup.Window, want.Warmup.Windows, want.Warmup.Band, want.Warmup.Cap = Duration(250*time.Millisecond), 3, 0.075, Duration(time.Minute)
	want.Rounds = Rounds{Min: 6, Max: 8, MaxVoid: 3, Mode: ModeRestart}
	want.SLO = SLO{"ttft_p99": 800, "error_rate": 0.001, "output_tps": 1800, "goodput": 0.99}
	want.Tolerance = Tolerances{
		"ttft_p50":   {Relative: 0.03, Named: true},
		"ttft_p99":   {Relative: 0.15, Absolute: 5, Force: true, Named: true},
		"output_tps": {Relative: 0.02, Absolute: 40, Named: true},
	}
	want.Verdict = Verdict{Alpha: 0.01, FailMargin: "full", Multiplicity: "holm", SLOBurden: "proven", SLOPreexisting: "fail", Calibration: "noise/c.json"}
	want.Baseline = Baseline{Cache: "/var/cache/tailgate", Protected: []string{"main"}}
	want.Telemetry = Telemetry{"optional", Duration(500 * time.Millisecond), "bin/sensor", false}
	got := parse(t, full)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(File{})); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
	if err := got.Runnable(); err != nil {
		t.Error(err)
	}
}

func TestParseAppliesDefaults(t *testing.T) {
	if diff := cmp.Diff(Default(), parse(t, "version: 1\n"), cmpopts.IgnoreUnexported(File{})); diff != "" {
		t.Errorf("a file that sets nothing is not the default (-want +got):\n%s", diff)
	}
	for text, want := range map[string]Rounds{
		"rounds: {min: 3}":         {Min: 3, Max: 8, MaxVoid: 2, Mode: ModeRestart},
		"rounds: {min: 10}":        {Min: 10, Max: 10, MaxVoid: 5, Mode: ModeRestart},
		"rounds: {max_void: 0}":    {Min: 4, Max: 8, MaxVoid: 0, Mode: ModeRestart},
		"rounds: {min: 4, max: 4}": {Min: 4, Max: 4, MaxVoid: 2, Mode: ModeRestart},
	} {
		if got := parse(t, "version: 1\n"+text).Rounds; got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

func TestRunnableNeedsWorkloadAndStart(t *testing.T) {
	for text, want := range map[string]string{
		"version: 1\n":              "f:1:1: workload: missing; name the folder of a workload",
		"version: 1\nworkload: w\n": "f:1:1: target.start: missing; name the command that starts the server",
		"version: 1\nworkload: w\ntarget:\n  build: make\n": "f:4:3: target.start: missing; name the command that starts the server",
	} {
		f, err := Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Runnable(); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestUnits(t *testing.T) {
	for word, want := range map[string]float64{
		"800ms": 800, "1.5s": 1500, "2m": 120_000, "1h30m": 5_400_000, "250us": 0.25, "0": 0,
	} {
		if got, _, ok := quantity(unitMS, word); !ok || got != want {
			t.Errorf("%s: %v %v, want %v ms", word, got, ok, want)
		}
	}
	for word, want := range map[string]Percent{"5%": 0.05, "0.7%": 0.007, "0.1%": 0.001, "7%": 0.07, "100%": 1, "7.5%": 0.075} {
		var p Percent
		if !p.set(word) || p != want || p.String() != word {
			t.Errorf("%s: %v, prints %s, want %v", word, float64(p), p, float64(want))
		}
	}
	for _, bad := range []string{"", "%", "-5%", "5 %", "5", "0x1%", "NaN%", "1e3%", ".5%"} {
		if p := Percent(0); p.set(bad) {
			t.Errorf("percentage %q taken as %v", bad, p)
		}
	}
	for _, bad := range []string{"", "6", "-1s", "6 m", "1d", "9999999999h", "s", "1.s"} {
		if d := Duration(0); d.set(bad) {
			t.Errorf("duration %q taken as %v", bad, d)
		}
	}
	for d, want := range map[Duration]string{
		Duration(6 * time.Minute): "6m", Duration(time.Hour): "1h", Duration(90 * time.Second): "1m30s",
		Duration(250 * time.Millisecond): "250ms", 0: "0s", Duration(20 * time.Second): "20s", Duration(time.Hour + time.Second): "1h0m1s",
	} {
		if got := d.String(); got != want {
			t.Errorf("%d prints %s, want %s", d, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(full)
	for _, c := range badFiles {
		f.Add(c.text)
	}
	f.Add("version: 1\n---\nversion: 1\n")
	f.Add("{version: 1, ? [a] : b}")
	f.Add(strings.Repeat("[", 2000))
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("f", []byte(text))
		if err == nil {
			again, err := Parse("f", []byte("# a comment\n"+text))
			if err == nil && again.Digest() != file.Digest() {
				t.Error("a comment changed the digest")
			}
			_ = file.Runnable()
			return
		}
		e, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("not an *Error: %v", err)
		}
		if e.Line < 1 || e.Column < 1 || e.Text == "" || strings.ContainsAny(e.Error(), "\n\r\x1b") {
			t.Errorf("bad error %#v", e)
		}
	})
}

// What the verdict is for sets the defaults of keys that are not written, and no others.
func TestGate(t *testing.T) {
	pr := Verdict{FailMargin: "half", SLOBurden: "not-violated", SLOPreexisting: "warn"}
	release := Verdict{FailMargin: "full", SLOBurden: "proven", SLOPreexisting: "fail"}
	tests := map[string]struct {
		text, as string
		max      int
		want     Verdict
	}{
		"unset":                   {"", "", 8, pr},
		"pr":                      {"gate: pr\n", "", 8, pr},
		"release":                 {"gate: release\n", "", 12, release},
		"release, written keys":   {"gate: release\nrounds: {max: 6}\nverdict: {fail_margin: half}\n", "", 6, Verdict{FailMargin: "half", SLOBurden: "proven", SLOPreexisting: "fail"}},
		"release, other keys":     {"gate: release\nrounds: {min: 5}\nverdict: {alpha: 1%}\n", "", 12, release},
		"pr asked as release":     {"", Release, 12, release},
		"release asked as pr":     {"gate: release\n", PullRequest, 8, pr},
		"asked, with a key":       {"verdict: {slo_burden: not-violated}\n", Release, 12, Verdict{FailMargin: "full", SLOBurden: "not-violated", SLOPreexisting: "fail"}},
		"a longest first look":    {"rounds: {min: 10}\n", "", 10, pr},
		"the same in other words": {"gate: release\n", Release, 12, release},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := parse(t, "version: 1\n"+tt.text)
			before := f.Digest()
			f.For(tt.as)
			got := Verdict{FailMargin: f.Verdict.FailMargin, SLOBurden: f.Verdict.SLOBurden, SLOPreexisting: f.Verdict.SLOPreexisting}
			if got != tt.want || f.Rounds.Max != tt.max {
				t.Errorf("%+v with at most %d rounds, want %+v with %d", got, f.Rounds.Max, tt.want, tt.max)
			}
			if asked := name == "pr asked as release" || name == "release asked as pr" || name == "asked, with a key"; (f.Digest() != before) != asked {
				t.Error("the digest must tell policies apart, and only them")
			}
		})
	}
}

// What a file says of servers that stay up, with its defaults.
func TestStandingServers(t *testing.T) {
	f := parse(t, "version: 1\nrounds: {mode: resident}\nresident: {gpus: {base: [GPU-a], head: [GPU-b]}}\n"+
		"reset: {path: /reset_prefix_cache, expect: {json: {success: true, n: 1, who: me}}}\n")
	want := Reset{Method: "POST", Path: "/reset_prefix_cache", Expect: Expect{Status: 200, JSON: map[string]string{"success": "true", "n": "1", "who": "me"}}}
	if diff := cmp.Diff(want, f.Reset); diff != "" {
		t.Error(diff)
	}
	if !f.Standing() || !f.Resident.GPUs.Present() || f.Target.URL.Present() {
		t.Errorf("resident: %+v", f.Resident)
	}
	f = parse(t, "version: 1\nworkload: w\ntarget:\n  url: {base: \"http://127.0.0.1:8000\", head: \"https://b.example/v1?key=x\"}\nreset: none\n")
	if !f.Reset.None || !f.Standing() || f.Target.URL.Head != "https://b.example/v1?key=x" || f.Rounds.Mode != ModeRestart {
		t.Errorf("running: %+v, reset %+v", f.Target.URL, f.Reset)
	}
	if err := f.Runnable(); err != nil {
		t.Errorf("running servers need no start: %v", err)
	}
	if f.Digest() == parse(t, "version: 1\nworkload: w\n").Digest() {
		t.Error("the digest does not see reset: none")
	}
	if parse(t, "version: 1\n").Standing() {
		t.Error("a file that says nothing has fresh servers")
	}
}

// target.gpus keeps its order and takes every form that drivers have; an empty list of sets beside it is none.
func TestGPUsOfATarget(t *testing.T) {
	f := parse(t, `version: 1
target:
  gpus: [GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, MIG-9f4a1c1e-3c5b-5ad1-8a5c-1f0a2b3c4d5e, MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/2, GPU-e8dbe1b6c4d9ab23]
`)
	want := []string{"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "MIG-9f4a1c1e-3c5b-5ad1-8a5c-1f0a2b3c4d5e", "MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/2", "GPU-e8dbe1b6c4d9ab23"}
	if !slices.Equal(f.Target.GPUs, want) {
		t.Errorf("%q, want %q", f.Target.GPUs, want)
	}
	// Which GPUs are measured on is no part of how a build is judged.
	if f.Digest() != parse(t, "version: 1\n").Digest() {
		t.Error("target.gpus changes the policy's digest")
	}
	if name, where := f.SetsGPUs(); name != "" || where != "" {
		t.Errorf("%s is set in %s", name, where)
	}
	f = parse(t, "version: 1\ntarget: {start: x, env: {A: b}}\narms: {head: {env: {HIP_VISIBLE_DEVICES: 1}}}\n")
	if name, where := f.SetsGPUs(); name != "HIP_VISIBLE_DEVICES" || where != "arms.head.env" {
		t.Errorf("%q is set in %q", name, where)
	}
}
