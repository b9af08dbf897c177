package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// llamaServer starts the example's server and returns its address once it answers its health check.
func llamaServer(t *testing.T) string {
	t.Helper()
	env := llama(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(root(t), "examples", "llama.cpp", "serve.sh"),
		"--model", strings.TrimPrefix(env[0], "MODEL="), "--port", port, "--ctx-size", "2048", "--parallel", "2", "--threads", "2")
	cmd.Env = append(os.Environ(), env...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url := "http://127.0.0.1:" + port
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if resp, err := http.Get(url + "/health"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return url
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server is not up:\n%s", log.String())
		}
	}
}

// bill is what a number of requests cost, in tokens. Prompt is all of it, Cached the part that was not computed anew.
type bill struct{ Output, Prompt, Cached int }

func (b bill) minus(o bill) bill {
	return bill{b.Output - o.Output, b.Prompt - o.Prompt, b.Cached - o.Cached}
}

// counters are the server's own, summed since it started. Its prompt counter leaves out what came from the cache, which has
// a counter of its own.
func counters(t *testing.T, url string) bill {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) int {
		f := families["llamacpp:"+name]
		if f == nil || len(f.GetMetric()) != 1 {
			t.Fatalf("the server has no counter %s", name)
		}
		return int(f.GetMetric()[0].GetCounter().GetValue())
	}
	cached := value("prompt_tokens_cached_total")
	return bill{value("tokens_predicted_total"), value("prompt_tokens_total") + cached, cached}
}

// reported sums what a run folder says of every request that was sent: those before the round, its warm-up, the measured
// ones and the tail.
func reported(t *testing.T, dir string) (b bill, requests int) {
	t.Helper()
	var probe record.ProbeReport
	readJSON(t, filepath.Join(dir, "probe.json"), &probe)
	if len(probe.Samples) != record.ProbeRequests {
		t.Fatalf("%d requests in probe.json", len(probe.Samples))
	}
	f, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	samples := probe.Samples
	phases := map[record.Phase]int{}
	for s, err := range f.Samples(0) {
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, s)
	}
	for _, s := range samples {
		phases[s.Phase]++
		if s.Class != record.OK || s.NOut == nil || s.NIn == nil || s.NCached == nil {
			t.Fatalf("%s of phase %s: %s %s, tokens not all known", s.ID, s.Phase, s.Class, s.Detail)
		}
		b.Output += *s.NOut
		b.Prompt += *s.NIn
		b.Cached += *s.NCached
	}
	t.Logf("requests by phase %v", phases)
	for _, phase := range []record.Phase{record.PhaseProbe, record.PhaseWarmup, record.PhaseMeasure} {
		if phases[phase] == 0 {
			t.Errorf("no request of phase %s", phase)
		}
	}
	return b, len(samples)
}

// prompts is one request a second for 40 seconds: 12 words after a beginning that all share, 8 output tokens.
func prompts(t *testing.T) string {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 3))
	shared := sentence(r, 10)
	list := make([]workload.Turn, 40)
	for i := range list {
		id := fmt.Sprintf("p%02d", i)
		list[i] = workload.Turn{
			ID: id, Conv: id, N: 1, At: time.Duration(i) * time.Second, InTokens: 22,
			Prompt: &workload.Text{Inline: shared + " " + sentence(r, 12)}, Out: workload.Output{Mode: workload.Force, Tokens: 8},
		}
	}
	w, err := workload.New(workload.Manifest{
		Name: "prompts", Version: 1, Seed: "3", Source: workload.Source{Importer: "synthetic"},
		Arrivals: workload.Arrivals{Kind: "generated", SpanNS: int64(40 * time.Second)}, Output: workload.OutputPolicy{Mode: workload.Force},
	}, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "prompts")
	if err := workload.Write(dir, w); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What tailgate counts, request by request, is what the server itself counted over the same requests: difference 0, in
// every dialect it speaks, with the warm-up and the requests before the round included. (Issue 4, "Done when".)
func TestE2ELoadAgreesWithTheServersCounters(t *testing.T) {
	requireE2E(t)
	url := llamaServer(t)
	chat := filepath.Join(root(t), "examples", "llama.cpp", "workloads", "shared-prefix")
	for dialect, dir := range map[string]string{"openai-chat": chat, "openai-completions": prompts(t), "llamacpp": prompts(t)} {
		t.Run(dialect, func(t *testing.T) {
			before := counters(t, url)
			out := filepath.Join(t.TempDir(), "run")
			r := execute(t, t.TempDir(), out, nil, "load", url, "--dialect", dialect, "--workload", dir, "--measure", "10s",
				"--warmup-window", "2s", "--warmup-band", "50%", "--warmup-trend", "50%", "--warmup-trend-windows", "5", "--warmup-cap", "60s")
			if r.code != 0 {
				t.Fatalf("exit %d\n%s\n%s", r.code, r.out, r.err)
			}
			server := counters(t, url).minus(before)
			ours, n := reported(t, out)
			if ours != server || ours.Output == 0 {
				t.Errorf("over %d requests we report %+v, the server counted %+v", n, ours, server)
			}
			t.Logf("%d requests: %+v, difference %+v", n, ours, ours.minus(server))
			if !strings.Contains(r.out, "none of 10") || !strings.Contains(r.out, "by the server's usage; output 80") {
				t.Errorf("10 requests of 8 tokens:\n%s", r.out)
			}
		})
	}
}

// `tailgate probe` explains one answer of the real server in every dialect it speaks, and its count is the server's.
func TestE2EProbeLlama(t *testing.T) {
	requireE2E(t)
	url := llamaServer(t)
	for _, dialect := range []string{"openai-chat", "openai-completions", "llamacpp"} {
		before := counters(t, url)
		text := command(t, t.TempDir(), tailgate(t), "probe", url, "--dialect", dialect, "--json")
		var e client.Explanation
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		server := counters(t, url).minus(before)
		if e.Outcome != record.OK || e.Text == "" || e.TTFT == nil || e.E2E == nil || *e.TTFT > *e.E2E || e.Source != record.FromUsage {
			t.Errorf("%s: %s", dialect, text)
			continue
		}
		if e.Output == nil || e.Input == nil || e.Cached == nil || (bill{*e.Output, *e.Input, *e.Cached}) != server {
			t.Errorf("%s: the server counted %+v\n%s", dialect, server, text)
		}
	}
}
