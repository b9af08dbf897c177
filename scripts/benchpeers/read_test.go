package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/internal/simserver"
)

// The layouts are those the pinned versions were seen to write; the numbers are made up, all different.
func TestReadsWhatEachClientLeaves(t *testing.T) {
	files := map[string]map[string]string{
		"vllm-bench": {"result.json": `{"completed":7,"failed":1,"request_throughput":9.5,"mean_ttft_ms":61.5,"p99_ttft_ms":82.5,"mean_itl_ms":10.25,"p99_itl_ms":11.5}`},
		"aiperf": {"out/profile_export_aiperf.json": `{"request_count":{"avg":7},"error_request_count":{"avg":1},"request_throughput":{"avg":9.5},
			"time_to_first_token":{"avg":61.5,"p99":82.5},"inter_token_latency":{"avg":1,"p99":2},"inter_chunk_latency":{"avg":10.25,"p99":11.5}}`},
		"guidellm": {"result.json": `{"benchmarks":[{"metrics":{"time_to_first_token_ms":{"successful":{"mean":61.5,"percentiles":{"p99":82.5}}},
			"inter_token_latency_ms":{"successful":{"mean":10.25,"percentiles":{"p99":11.5}}},"request_totals":{"successful":7,"errored":1},
			"requests_per_second":{"successful":{"mean":9.5}}}}]}`},
		"inference-perf": {"out/summary_lifecycle_metrics.json": `{"successes":{"count":7,"latency":{"time_to_first_token":{"mean":0.0615,"p99":0.0825},
			"inter_token_latency":{"mean":0.01025,"p99":0.0115}},"throughput":{"requests_per_sec":9.5}},"failures":{"count":1}}`},
	}
	outputs := map[string]string{
		"wrk":    "  7 requests in 10.01s, 1MB read\n  Non-2xx or 3xx responses: 1\nRequests/sec:      9.5\n",
		"hey":    "  Requests/sec:\t9.5\n\nStatus code distribution:\n  [200]\t7 responses\n  [503]\t1 responses\n",
		"oha":    `{"summary":{"successRate":0.875,"requestsPerSec":9.5},"statusCodeDistribution":{"200":7}}`,
		"vegeta": `{"requests":8,"rate":99,"throughput":9.5,"status_codes":{"200":7,"503":1}}`,
	}
	for _, p := range allPeers() {
		if p.ours {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range files[p.name] {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f, counts, err := p.read(scenario{plain: p.plain}, dir, []byte(outputs[p.name]))
			if err != nil {
				t.Fatal(err)
			}
			if f.requests != 7 || f.failed != 1 || math.Abs(f.rate-9.5) > 1e-9 || !counts("any") {
				t.Errorf("requests %d, failed %d, rate %v", f.requests, f.failed, f.rate)
			}
			if p.plain {
				return
			}
			for what, pair := range map[string][2]float64{
				"ttft mean": {f.ttft.mean, 61.5}, "ttft p99": {f.ttft.p99, 82.5}, "gap mean": {f.gap.mean, 10.25}, "gap p99": {f.gap.p99, 11.5},
			} {
				if math.Abs(pair[0]-pair[1]) > 1e-9 {
					t.Errorf("%s %v, want %v", what, pair[0], pair[1])
				}
			}
		})
		t.Run(p.name+" without figures", func(t *testing.T) {
			if _, _, err := p.read(scenario{plain: p.plain}, t.TempDir(), []byte("{}")); err == nil {
				t.Error("no error for a client that left nothing")
			}
		})
	}
}

func TestTruthCountsOnlyTheScenariosRequests(t *testing.T) {
	entries := []simserver.Entry{
		{ID: "a", ArrivedNS: 0, WroteNS: []int64{50e6, 60e6}, OutputTokens: 2, Outcome: "ok"},
		{ID: "b", ArrivedNS: 0, WroteNS: []int64{70e6, 100e6}, OutputTokens: 2, Outcome: "ok"},
		{ID: "probe", ArrivedNS: 0, WroteNS: []int64{1e6}, OutputTokens: 1, Outcome: "ok"},
		{ID: "gone", ArrivedNS: 0, WroteNS: []int64{1e6, 2e6}, OutputTokens: 2, Outcome: "aborted"},
		{ID: "other", ArrivedNS: 0, WroteNS: []int64{1e6, 2e6}, OutputTokens: 2, Outcome: "ok"},
	}
	f := truthOf(entries, 2, func(id string) bool { return id != "other" })
	if f.requests != 2 || f.failed != 1 {
		t.Errorf("requests %d, failed %d", f.requests, f.failed)
	}
	if f.ttft != (spread{60, 70}) || f.gap != (spread{20, 30}) {
		t.Errorf("ttft %v, gap %v", f.ttft, f.gap)
	}
}

func TestTableNamesWhoIsMissingAndWhy(t *testing.T) {
	rows := []row{
		{name: "tailgate", said: figures{ttft: spread{60.5, 72}, gap: spread{10, 11}, requests: 10}, truth: figures{ttft: spread{60, 70}, gap: spread{10, 10}}, cpuSeconds: 0.02},
		{name: "slow", said: figures{ttft: spread{65, 90}, gap: unknown(), requests: 10}, truth: figures{ttft: spread{60, 70}, gap: spread{10, 10}}, cpuSeconds: 0.1},
		{name: "absent", missing: "not installed:\n  no such package"},
	}
	var out bytes.Buffer
	table(&out, scenario{name: "x"}, rows)
	for _, want := range []string{"+0.50 ms", "+2.00 ms", "1.00×", "+5.00 ms", "10.00×", "n/a", "absent: not measured: not installed: no such package", "10.00"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "absent  ") {
		t.Error("a client without figures has a row")
	}
}

// The server must take each scenario's configuration, and its first event must be due when the scenario says.
func TestServerConfigurations(t *testing.T) {
	for _, s := range allScenarios() {
		cfg, err := simserver.ParseConfig([]byte(s.server()))
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if got := fmt.Sprint(cfg.DefaultTokens); got != fmt.Sprint(s.tokens) {
			t.Errorf("%s: %s tokens", s.name, got)
		}
	}
}

func TestRefusesUnknownNames(t *testing.T) {
	for _, args := range [][]string{{"--only", "nobody"}, {"--scenarios", "none"}, {"--rounds", "0"}} {
		if _, err := parse(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
