package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// parsedLoad reads a command line's flags as `tailgate load` does.
func parsedLoad(t *testing.T, args ...string) (*config.File, error) {
	t.Helper()
	var fl loadFlags
	f := pflag.NewFlagSet("load", pflag.ContinueOnError)
	fl.register(f)
	if err := f.Parse(append([]string{"--measure", "1m"}, args...)); err != nil {
		t.Fatal(err)
	}
	text, err := fl.policy()
	if err != nil {
		return nil, err
	}
	return parsePolicy(text)
}

// The flags become a policy by the rules of the file: same units, same checks, and nothing that only a comparison has.
func TestLoadFlagsArePolicy(t *testing.T) {
	f, err := parsedLoad(t, "--measure", "90s", "--slo", "ttft_p99=800ms,error_rate=0.1%", "--slo", "output_tps=40/s", "--limit", "first_event=2s",
		"--limit", "idle=500ms", "--warmup-window", "2s", "--warmup-band", "20%", "--concurrency", "8", "--think", "250ms")
	if err != nil {
		t.Fatal(err)
	}
	want := config.SLO{"ttft_p99": 800, "error_rate": 0.001, "output_tps": 40}
	if diff := cmp.Diff(want, f.SLO); diff != "" {
		t.Error(diff)
	}
	got := []any{
		f.Load.Measure.String(), f.Load.Concurrency, f.Load.Think.String(), f.Load.Limits.FirstEvent.String(), f.Load.Limits.Idle.String(),
		f.Warmup.Window.String(), f.Warmup.Band.String(), f.Verdict.SLOBurden, f.Conditioning.Base.String(), f.Cooldown.Pause.String(),
	}
	if diff := cmp.Diff([]any{"1m30s", 8, "250ms", "2s", "500ms", "2s", "20%", "proven", "0s", "0s"}, got); diff != "" {
		t.Error(diff)
	}
	// The flags' own defaults are those of the file.
	f, err = parsedLoad(t)
	if err != nil {
		t.Fatal(err)
	}
	d := config.Default()
	if f.Warmup != d.Warmup || f.Load.Limits != d.Load.Limits || len(f.SLO) != 0 {
		t.Errorf("defaults %+v, the file has %+v", f.Warmup, d.Warmup)
	}
}

func TestLoadFlagsSayWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		args  []string
		parts []string
	}{
		{[]string{"--slo", "ttft_p99"}, []string{"--slo", "ttft_p99=800ms"}},
		{[]string{"--slo", "ttft_p99=800"}, []string{"--slo ttft_p99", "250ms"}},
		{[]string{"--slo", "ttft_p99=800ms}, load: {scale: 2"}, []string{"--slo"}},
		{[]string{"--slo", "x: y=1"}, []string{"--slo"}},
		{[]string{"--limit", "last=1s"}, []string{"--limit", "first_event"}},
		{[]string{"--limit", "first_event=-1s"}, []string{"--limit first_event"}},
		{[]string{"--limit", "total=1s", "--slo", "e2e_p99=2s"}, []string{"--slo e2e_p99", "2s", "--limit total 1s"}},
		{[]string{"--measure", "10ms"}, []string{"--measure", "10ms", "1s"}},
		{[]string{"--warmup-trend-windows", "3"}, []string{"--warmup-trend-windows", "the windows that must agree, 5"}},
		{[]string{"--warmup-band", "0"}, []string{"--warmup-band"}},
		{[]string{"--warmup-cap", "20s"}, []string{"--warmup-cap", "10 windows of 10s"}},
		{[]string{"--concurrency", "4", "--max-in-flight", "2"}, []string{"--max-in-flight", "--concurrency"}},
		{[]string{"--concurrency", "-1"}, []string{"--concurrency"}},
		{[]string{"--think", "1s"}, []string{"--think"}},
	} {
		_, err := parsedLoad(t, c.args...)
		if err == nil {
			t.Errorf("%v: no error", c.args)
			continue
		}
		text := err.Error()
		if exit, ok := errors.AsType[*exitError](err); ok {
			text += "; " + exit.hint
			if exit.code != gate.ExitUsage {
				t.Errorf("%v: exit %d", c.args, exit.code)
			}
		}
		for _, part := range c.parts {
			if !strings.Contains(text, part) {
				t.Errorf("%v: %q lacks %q", c.args, text, part)
			}
		}
		if strings.Contains(text, "load.") || strings.Contains(text, "warmup.") {
			t.Errorf("%v: %q speaks of the file's keys", c.args, text)
		}
	}
}

// Every way in which a server may refuse to answer says what to try, in one error of the right kind.
func TestRefusalsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		class  record.Outcome
		status int
		detail string
		code   int
		hint   string
	}{
		{record.Dial, 0, "dial tcp 127.0.0.1:8000: connect: connection refused", 2, "start the server"},
		{record.TLS, 0, "tls handshake: first record does not look like a TLS handshake", 2, "http://"},
		{record.Redirect, 307, "307 to /other", 2, "never followed"},
		{record.HTTP4xx, 401, "401: missing key", 2, "--header"},
		{record.HTTP4xx, 403, "403: no", 2, "--header"},
		{record.HTTP4xx, 404, "404 page not found", 2, "--dialect"},
		{record.HTTP4xx, 404, "404: The model `x` does not exist", 2, "--model"},
		{record.HTTP4xx, 400, "400: prompt is missing", 2, "tailgate probe"},
		{record.Malformed, 200, "no event could be parsed", 2, "another --dialect"},
		{record.EmptyOutput, 200, "no payload", 2, "another --dialect"},
		{record.Timeout, 0, "first_event", 2, "--limit first_event="},
		{record.Timeout, 200, "total", 2, "--limit total="},
		{record.HTTP503, 503, "503: loading", 4, "tailgate probe"},
		{record.HTTP5xx, 500, "500: out of memory", 4, "its log"},
		{record.ConnReset, 0, "reset", 4, "its log"},
	} {
		l := &loading{app: &app{}, url: "http://127.0.0.1:8000", fl: loadFlags{apiFlags: apiFlags{dialect: "openai-chat"}}, probe: record.ProbeReport{
			Sent: 1, Failed: 1, Samples: []record.Sample{{Class: c.class, Status: c.status, Detail: c.detail}},
		}}
		exit, ok := errors.AsType[*exitError](l.refused("tiny"))
		if !ok || exit.code != c.code || !strings.Contains(exit.hint, c.hint) || !strings.Contains(exit.Error(), c.detail) {
			t.Errorf("%s %d: %+v, want exit %d with %q", c.class, c.status, exit, c.code, c.hint)
		}
	}
}

// A log hears of a step at once and of what passes every ten seconds; the figures are the run's own.
func TestLoadViewInALog(t *testing.T) {
	var out bytes.Buffer
	run := &record.Run{Declared: record.Declared{
		Measure: time.Minute, Warmup: record.Warmup{Windows: 5, TrendWindows: 10, Cap: 10 * time.Minute},
	}}
	v := &loadView{w: &out, run: run, latency: "TTFT"}
	at := func(s int) record.Instant { return record.Instant(time.Duration(s) * time.Second) }
	for k := range 12 {
		v.step(runner.Progress{T: at(1 + k), Phase: "warmup", Text: "window 3, delivered 100 %, 5.5 ms a token"})
	}
	v.step(runner.Progress{T: at(20), Phase: "measure", Text: "1m0s, 600 requests"})
	for s := range 61 {
		p := runner.Progress{T: at(21 + s), Phase: "measure", Done: 10 * (s + 1), Planned: 600, Failed: s / 30, InFlight: record.Of(3), P50: record.Of(12.34), P99: record.Of(56.78)}
		if s == 0 {
			p.P50, p.P99, p.InFlight = record.NA("nothing measured yet"), record.NA("nothing measured yet"), record.NA("not counted")
		}
		v.step(p)
	}
	v.step(runner.Progress{T: at(90), Phase: "incident", Text: "engine_stalled: no token"})
	v.step(runner.Progress{T: at(91), Phase: "done", Text: "complete"})
	want := `   10s  warm-up  window 10 of at least 10, at most 10m; delivered 100 %, 5.5 ms a token
   20s  measure  1m0s, 600 requests
   30s  measure  0:50 left; 100 of 600 done, 10/s, 3 in flight, 0 failed, TTFT p50 12.3, p99 56.8 ms
   40s  measure  0:40 left; 200 of 600 done, 10/s, 3 in flight, 0 failed, TTFT p50 12.3, p99 56.8 ms
   50s  measure  0:30 left; 300 of 600 done, 10/s, 3 in flight, 0 failed, TTFT p50 12.3, p99 56.8 ms
  1m0s  measure  0:20 left; 400 of 600 done, 10/s, 3 in flight, 1 failed, TTFT p50 12.3, p99 56.8 ms
 1m10s  measure  0:10 left; 500 of 600 done, 10/s, 3 in flight, 1 failed, TTFT p50 12.3, p99 56.8 ms
 1m20s  measure  all sent, waiting for the last answers; 600 of 600 done, 10/s, 3 in flight, 1 failed, TTFT p50 12.3, p99 56.8 ms
 1m30s  incident engine_stalled: no token
 1m31s  done     complete
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// In a closed loop nobody knows how many requests there will be.
func TestLoadViewOfAClosedLoop(t *testing.T) {
	v := &loadView{run: &record.Run{}, latency: "E2E"}
	v.take(runner.Progress{T: 1, Phase: "measure", Text: "1m0s, closed loop of 4 slots"})
	p := runner.Progress{T: record.Instant(time.Second), Phase: "measure", Done: 8, Planned: runner.Uncounted, Failed: 1, InFlight: record.Of(4)}
	if got, want := v.sofar(p), "8 done, 8/s, 4 in flight, 1 failed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A schedule of 2,000 requests a second against a server that ends each connection with its answer runs out of local ports on
// any machine: exit 2 after the four questions, and no run folder.
func TestPortsAreCountedBeforeALoad(t *testing.T) {
	asked := 0
	closing := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			asked++
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"content":"A"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	closing.Config.SetKeepAlivesEnabled(false)
	closing.Start()
	defer closing.Close()
	t.Chdir(t.TempDir())
	turns := make([]workload.Turn, 2400)
	for i := range turns {
		id := fmt.Sprintf("r%04d", i)
		turns[i] = workload.Turn{
			ID: id, Conv: id, N: 1, At: time.Duration(i) * 500 * time.Microsecond, InTokens: 1, Prompt: &workload.Text{Inline: id}, Out: workload.Output{Mode: workload.Cap, Tokens: 1},
		}
	}
	w, err := workload.New(workload.Manifest{
		Name: "quick", Version: 1, Seed: "1", Source: workload.Source{Importer: "synthetic"},
		Arrivals: workload.Arrivals{Kind: "generated", SpanNS: int64(1200 * time.Millisecond)}, Output: workload.OutputPolicy{Mode: workload.Cap},
	}, turns, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := workload.Write("quick", w); err != nil {
		t.Fatal(err)
	}
	a := &app{out: io.Discard, err: io.Discard}
	cmd := a.root()
	cmd.SetArgs([]string{"load", closing.URL, "--workload", "quick", "--measure", "1s", "--warmup-window", "100ms", "--max-in-flight", "8"})
	err = cmd.Execute()
	exit, ok := errors.AsType[*exitError](err)
	if !ok || exit.code != gate.ExitUsage || !strings.Contains(exit.Error(), "the server closes its connections: more connections than local ports: 2000 new connections/s") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(".tailgate"); !errors.Is(err, fs.ErrNotExist) || asked != record.ProbeRequests {
		t.Errorf("a run folder: %v; %d requests", err, asked)
	}
}

func TestBuiltinWorkloadsOpen(t *testing.T) {
	names := builtinWorkloads()
	if len(names) < 2 {
		t.Fatalf("builtin workloads %v", names)
	}
	t.Chdir(t.TempDir())
	for _, name := range names {
		w, err := openWorkload(name)
		if err != nil || w.Manifest.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "..", "../workloads", "/nowhere", names[0] + "/turns.jsonl.gz", "none"} {
		_, err := openWorkload(name)
		if exit, ok := errors.AsType[*exitError](err); !ok || exit.code != gate.ExitUsage {
			t.Errorf("%q: %v", name, err)
		}
	}
}
