package runner

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/internal/simserver"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// simProcess makes this test binary a simulated server: only a process of its own can be stopped.
const simProcess = "RUNNER_TEST_SIM"

// TestSimProcess is no test but the server that startSim starts.
func TestSimProcess(t *testing.T) {
	text := os.Getenv(simProcess)
	if text == "" {
		t.Skip("only a child of another test serves")
	}
	cfg, err := simserver.ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	// Started by a session it is told its port.
	if err := simserver.Serve(ctx, cfg, simserver.Options{Addr: "127.0.0.1:" + cmp.Or(os.Getenv("PORT"), "0"), Log: os.Stdout}); err != nil {
		t.Fatal(err)
	}
}

// startSim starts a server as a process and returns its URL.
func startSim(t *testing.T, cfg simserver.Config) (url string, p *os.Process) {
	t.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), os.Args[0], "-test.run=^TestSimProcess$", "-test.count=1")
	cmd.Env = append(os.Environ(), simProcess+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if n, _ := fmt.Sscanf(lines.Text(), "listening on %s", &url); n == 1 {
			return url, cmd.Process
		}
	}
	t.Fatalf("the server said nothing of its address: %v", lines.Err())
	return "", nil
}

// A server that stands still for a tenth of the round makes a tenth of its requests wait: half of those wait for more than
// half of the stop, and so p95 is half the stop. A client that waits with the server, and does not count from the
// schedule, sees one slow request and nothing more. The e2e test does it with 6 s in 60 s.
func TestStoppedServerIsSeenInP95(t *testing.T) {
	const stop, measure, gap = 600 * time.Millisecond, 6 * time.Second, 20 * time.Millisecond
	log := filepath.Join(t.TempDir(), "truth.jsonl")
	cfg := simserver.Default()
	cfg.TruthLog = log
	url, p := startSim(t, cfg)
	stopped := false
	f, rd := loadWith(t, url, turns(t, 800, gap, nil), measure, nil, func(plan *Plan) {
		plan.Progress = func(step Progress) {
			if step.Phase != "measure" || stopped {
				return
			}
			stopped = true
			time.AfterFunc(2*time.Second, func() { _ = p.Signal(syscall.SIGSTOP) })
			time.AfterFunc(2*time.Second+stop, func() { _ = p.Signal(syscall.SIGCONT) })
		}
	})
	if want := int(measure / gap); rd.Counts.Scheduled != want || rd.Counts.Classes[record.OK] != want {
		t.Errorf("counts %+v; want %d requests, all ok", rd.Counts, want)
	}
	p95, ok := rd.Metrics["e2e_p95"].Finite()
	// 0.29 of 0.3: the metric itself is a request's, and they lie 20 ms apart.
	if !ok || p95 < 290 {
		t.Errorf("E2E p95 is %v ms (%s), want at least 290", p95, rd.Metrics["e2e_p95"].Reason())
	}
	wantOutcomes(t, f, truthOf(t, url, log), "", record.OK)
}

// truthOf is the server's log by request, brought up to date; each id stands in it once.
func truthOf(t *testing.T, url, log string) map[string]simserver.Entry {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/sim/truth", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := simserver.ReadTruth(data)
	if err != nil {
		t.Fatal(err)
	}
	truth := map[string]simserver.Entry{}
	for _, e := range entries {
		if _, twice := truth[e.ID]; twice {
			t.Errorf("the server saw %s twice", e.ID)
		}
		truth[e.ID] = e
	}
	return truth
}

// wantOutcomes holds each measured request against what the server did to it.
func wantOutcomes(t *testing.T, f *record.Folder, truth map[string]simserver.Entry, injected string, class record.Outcome) {
	t.Helper()
	measured := 0
	for s, err := range f.Samples(0) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Phase != record.PhaseMeasure {
			continue
		}
		measured++
		want := record.OK
		if truth[s.RequestID].Outcome == injected {
			want = class
		}
		if _, seen := truth[s.RequestID]; !seen || s.Class != want {
			t.Errorf("%s (%s): class %s, the server did %q to it", s.ID, s.RequestID, s.Class, truth[s.RequestID].Outcome)
		}
	}
	if measured == 0 {
		t.Error("no request was measured")
	}
}

// The error rate is the server's, exactly, and every percentile above it is infinite.
func TestErrorsAreCountedExactly(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault simserver.Fault
		class record.Outcome
		rate  float64
	}{
		{"20 % instant 503", simserver.Fault{Kind: simserver.FaultHTTP503, Every: 5}, record.HTTP503, 0.2},
		{"30 % errors in the stream", simserver.Fault{Kind: simserver.FaultStreamError, Every: 10, Burst: 3}, record.StreamError, 0.3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "truth.jsonl")
			url := serveSim(t, func(c *simserver.Config) { c.Errors, c.TruthLog = []simserver.Fault{tt.fault}, log })
			const n = 700 // enough for p99
			f, rd := loadOnce(t, url, turns(t, 1200, 5*time.Millisecond, nil), n*5*time.Millisecond, nil)
			wantOutcomes(t, f, truthOf(t, url, log), string(tt.fault.Kind), tt.class)
			// The server numbers requests as they arrive, so two that swap places at an edge of the interval move the count by one.
			failed := rd.Counts.Classes[tt.class]
			if rd.Counts.Scheduled != n || math.Abs(float64(failed)-tt.rate*n) > 1 || rd.Counts.Classes[record.OK] != n-failed {
				t.Errorf("counts %+v; want %v of %d failed", rd.Counts, tt.rate*n, n)
			}
			if rate, ok := rd.Metrics["error_rate"].Finite(); !ok || rate != float64(failed)/n {
				t.Errorf("error rate %v, want %v", rate, float64(failed)/n)
			}
			for _, stem := range []string{"ttft", "e2e", "tpot", "itl"} {
				if x, ok := rd.Metrics[stem+"_p50"].Finite(); !ok || x <= 0 {
					t.Errorf("%s_p50 is %v (%s)", stem, x, rd.Metrics[stem+"_p50"].Reason())
				}
				for _, q := range []string{"p90", "p95", "p99"} {
					if m := rd.Metrics[stem+"_"+q]; !m.IsFailed() {
						t.Errorf("%s_%s is not infinite: %+v", stem, q, m)
					}
				}
			}
		})
	}
}

// One token each 40 ms and four each 160 ms are the same speed. Time per token and throughput say so; the fingerprint says
// that gaps do not compare. Short answers make a first event that is not taken for four tokens an error of 40 %; the limits
// here leave room for a busy machine, the 1 % of the target is held by the e2e test.
func TestCoalescedTokensAreNoSlower(t *testing.T) {
	measure := func(perEvent int) *record.Round {
		url := serveSim(t, func(c *simserver.Config) {
			c.DecodeBase, c.DecodePerSeq, c.PrefillPerToken, c.TokensPerEvent = simserver.Duration(40*time.Millisecond), 0, 0, perEvent
		})
		w := turns(t, 200, 20*time.Millisecond, func(_ int, turn *workload.Turn) { turn.Out.Tokens = 8 })
		_, rd := loadWith(t, url, w, 2*time.Second, nil, func(p *Plan) { p.API.Settings.PerEventTokens = "usage" })
		if rd.Counts.Classes[record.OK] != 100 {
			t.Errorf("counts %+v", rd.Counts)
		}
		return rd
	}
	single, four := measure(1), measure(4)
	figure := func(rd *record.Round, key string) float64 {
		x, ok := rd.Metrics[key].Finite()
		if !ok {
			t.Fatalf("%s: %s", key, rd.Metrics[key].Reason())
		}
		return x
	}
	if a, b := figure(single, "tpot_p50"), figure(four, "tpot_p50"); math.Abs(a-b) > 0.1*a {
		t.Errorf("TPOT p50 is %v ms and %v ms", a, b)
	}
	if a, b := figure(single, "output_tps"), figure(four, "output_tps"); math.Abs(a-b) > 0.1*a {
		t.Errorf("output throughput is %v and %v", a, b)
	}
	if a, b := figure(single, "tokens_per_event"), figure(four, "tokens_per_event"); a != 1 || b != 4 {
		t.Errorf("tokens per event are %v and %v", a, b)
	}
}
