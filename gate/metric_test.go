package gate_test

import (
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
)

// The table of metrics: direction and unit are properties that no caller may get wrong.
func TestMetrics(t *testing.T) {
	tests := []struct {
		key, name, unit string
		higher          bool
		needs           int
	}{
		{"ttft_p50", "TTFT p50", "ms", false, 100},
		{"ttft_p90", "TTFT p90", "ms", false, 500},
		{"ttft_p95", "TTFT p95", "ms", false, 1000},
		{"ttft_p99", "TTFT p99", "ms", false, 5000},
		{"ttfo_p50", "TTFO p50", "ms", false, 100},
		{"ttfo_p90", "TTFO p90", "ms", false, 500},
		{"ttfo_p95", "TTFO p95", "ms", false, 1000},
		{"ttfo_p99", "TTFO p99", "ms", false, 5000},
		{"e2e_p50", "E2E p50", "ms", false, 100},
		{"e2e_p90", "E2E p90", "ms", false, 500},
		{"e2e_p95", "E2E p95", "ms", false, 1000},
		{"e2e_p99", "E2E p99", "ms", false, 5000},
		{"tpot_p50", "TPOT p50", "ms", false, 100},
		{"tpot_p90", "TPOT p90", "ms", false, 500},
		{"tpot_p95", "TPOT p95", "ms", false, 1000},
		{"tpot_p99", "TPOT p99", "ms", false, 5000},
		{"itl_p50", "ITL p50", "ms", false, 100},
		{"itl_p90", "ITL p90", "ms", false, 500},
		{"itl_p95", "ITL p95", "ms", false, 1000},
		{"itl_p99", "ITL p99", "ms", false, 5000},
		{"icl_p50", "ICL p50", "ms", false, 100},
		{"icl_p90", "ICL p90", "ms", false, 500},
		{"icl_p95", "ICL p95", "ms", false, 1000},
		{"icl_p99", "ICL p99", "ms", false, 5000},
		{"stall_p50", "Longest stall p50", "ms", false, 100},
		{"stall_p90", "Longest stall p90", "ms", false, 500},
		{"stall_p95", "Longest stall p95", "ms", false, 1000},
		{"stall_p99", "Longest stall p99", "ms", false, 5000},
		{"output_tps", "Output throughput", "tok/s", true, 0},
		{"input_tps", "Input throughput", "tok/s", true, 0},
		{"request_tps", "Request throughput", "req/s", true, 0},
		{"goodput", "Goodput", "fraction", true, 0},
		{"error_rate", "Error rate", "fraction", false, 0},
	}
	for _, tt := range tests {
		m, ok := gate.MetricOf(tt.key)
		if !ok || m.Name != tt.name || m.Unit != tt.unit || m.HigherIsBetter != tt.higher || m.Needs() != tt.needs {
			t.Errorf("%s: %+v (known %v) needs %d, want %+v", tt.key, m, ok, m.Needs(), tt)
		}
	}
	if got := len(gate.Metrics()); got != len(tests) {
		t.Errorf("%d metrics, the table here has %d: add the new one with its direction", got, len(tests))
	}
	if _, ok := gate.MetricOf("latency"); ok {
		t.Error("an unknown metric was found")
	}
}

func TestExit(t *testing.T) {
	tests := map[gate.Verdict]int{gate.Pass: 0, gate.Fail: 1, gate.Inconclusive: 3, gate.Invalid: 4, "": 0, "odd": 4}
	for v, code := range tests {
		if got := gate.Exit(v); got != code {
			t.Errorf("Exit(%q) = %d, want %d", v, got, code)
		}
	}
	seen := map[int]bool{}
	for _, row := range gate.ExitCodes() {
		if seen[row.Code] || row.Meaning == "" {
			t.Errorf("row %+v is double or says nothing", row)
		}
		seen[row.Code] = true
	}
	for _, code := range []int{0, 1, gate.ExitUsage, 3, 4, gate.ExitInterrupted, gate.ExitTerminated} {
		if !seen[code] {
			t.Errorf("exit code %d is not in the table", code)
		}
	}
}

func TestGateable(t *testing.T) {
	defaults := gate.Policy{Tolerance: gate.DefaultTolerances()}
	gated, not, err := gate.Gateable(defaults, 2100, true)
	if err != nil || len(gated.Tolerance) != 6 || len(not) != 1 || not[0].Key != "ttft_p99" || not[0].Reason != "2,100 requests a round, p99 needs 5,000" {
		t.Errorf("2,100 requests: gated %v, not %+v, error %v", gated.Tolerance, not, err)
	}
	if len(defaults.Tolerance) != 7 {
		t.Error("the caller's policy was changed")
	}
	gated, not, err = gate.Gateable(defaults, 5000, true)
	if err != nil || len(gated.Tolerance) != 7 || len(not) != 0 {
		t.Errorf("5,000 requests: gated %v, not %+v, error %v", gated.Tolerance, not, err)
	}
	if gated, _, err = gate.Gateable(defaults, 50, true); err != nil || len(gated.Tolerance) != 1 {
		t.Errorf("50 requests: gated %v, error %v; only throughput is left", gated.Tolerance, err)
	}
}

func TestGateableNamed(t *testing.T) {
	tests := map[string]struct {
		key      string
		tol      gate.Tolerance
		requests int
		streams  bool
		want     string
	}{
		"too few":         {"ttft_p99", gate.Tolerance{Relative: 0.1, Named: true}, 4999, true, "tolerance.ttft_p99: 4,999 requests a round, p99 needs 5,000; measure longer, gate a lower percentile, or say `force: true`"},
		"enough":          {"ttft_p99", gate.Tolerance{Relative: 0.1, Named: true}, 5000, true, ""},
		"forced":          {"ttft_p99", gate.Tolerance{Relative: 0.1, Named: true, Force: true}, 700, true, ""},
		"forced too far":  {"ttft_p99", gate.Tolerance{Relative: 0.1, Named: true, Force: true}, 600, true, "no number below 662"},
		"not streamed":    {"itl_p50", gate.Tolerance{Relative: 0.1, Named: true}, 5000, false, "not streamed"},
		"e2e not streams": {"e2e_p50", gate.Tolerance{Relative: 0.1, Named: true}, 5000, false, ""},
		"unknown":         {"speed", gate.Tolerance{Relative: 0.1, Named: true}, 5000, true, "no such metric"},
		"error rate":      {"error_rate", gate.Tolerance{Relative: 0.1, Named: true}, 5000, true, "slo.error_rate"},
	}
	for name, tt := range tests {
		_, not, err := gate.Gateable(gate.Policy{Tolerance: map[string]gate.Tolerance{tt.key: tt.tol}}, tt.requests, tt.streams)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		case len(not) != 0:
			t.Errorf("%s: a named metric is no default that can be left out: %+v", name, not)
		}
	}
}

// A service that does not stream is gated by whole answers.
func TestGateableWithoutStreams(t *testing.T) {
	gated, not, err := gate.Gateable(gate.Policy{Tolerance: gate.DefaultTolerances()}, 2000, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"e2e_p50", "e2e_p95", "output_tps"} {
		if _, ok := gated.Tolerance[key]; !ok {
			t.Errorf("%s is not gated: %v", key, gated.Tolerance)
		}
	}
	if len(gated.Tolerance) != 3 || len(not) != 5 {
		t.Errorf("gated %v, not %+v", gated.Tolerance, not)
	}
	gated, _, _ = gate.Gateable(gate.Policy{Tolerance: gate.DefaultTolerances()}, 5000, false)
	if tol, ok := gated.Tolerance["e2e_p99"]; !ok || tol.Relative != 0.15 {
		t.Errorf("e2e_p99 at 5,000 requests: %+v %v", tol, ok)
	}
}
