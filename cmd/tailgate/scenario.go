package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/internal/simserver"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// scenario is a known truth for the demo: two configurations of the simulated server, and the verdict they must get.
type scenario struct {
	about string
	// base and head change the server's configuration; nil leaves it as it is.
	base, head func(*simserver.Config)
	// broken takes the built file away from base, so that its build fails.
	broken bool
	want   gate.Verdict
	// led reports whether the verdict came for the right reason.
	led func(gate.Judgement) bool
	// gates lists what --quick gates; the whole demo gates all of demoTolerance.
	gates []string
	// pairs overrides the number of pairs; 0 takes the demo's.
	pairs int
}

var scenarios = map[string]scenario{
	"slower": {
		about: "head computes prompts 20 % slower",
		head:  func(c *simserver.Config) { c.PrefillPerToken = c.PrefillPerToken * 6 / 5 },
		want:  gate.Fail, led: metricLeads("ttft_p50", "ttft_p95", "ttft_p99"),
		gates: []string{"ttft_p50"},
	},
	"identical": {
		about: "head differs from base in a revision number only",
		want:  gate.Pass, led: func(j gate.Judgement) bool { return j.Reason == "" },
		gates: []string{"ttft_p50"},
	},
	"tail": {
		about: "head holds every 12th request back for 100 ms",
		head: func(c *simserver.Config) {
			c.Delay = simserver.Delay{Every: 12, For: simserver.Duration(100 * time.Millisecond)}
		},
		want: gate.Fail, led: metricLeads("ttft_p95", "ttft_p99", "e2e_p95"),
		gates: []string{"ttft_p50", "ttft_p95"},
	},
	"errors": {
		about: "head answers every 50th request with status 500",
		head:  func(c *simserver.Config) { c.Errors = []simserver.Fault{{Kind: simserver.FaultHTTP500, Every: 50}} },
		want:  gate.Fail, led: func(j gate.Judgement) bool { return j.Errors.Verdict == gate.Fail },
		gates: []string{"ttft_p50"},
	},
	// Every other start is slow, so the second round of a pair is, whichever arm it belongs to. A pattern of four starts such
	// as fast, slow, slow, fast drifts less, but one pair run again shifts it into favouring one arm.
	"noisy": {
		about: "the machine is as fast as it likes: every other start is 15 % slower, whatever the build",
		base:  func(c *simserver.Config) { c.SpeedByStart = []float64{1, 1.15} },
		head:  func(c *simserver.Config) { c.SpeedByStart = []float64{1, 1.15} },
		want:  gate.Inconclusive,
		led:   func(j gate.Judgement) bool { return j.Reason == gate.TooNoisy || j.Reason == gate.ToleranceTooFine },
		gates: []string{"ttft_p50"},
		pairs: 4,
	},
	"base-broken": {
		about:  "base does not build",
		broken: true,
		want:   gate.Invalid, led: func(j gate.Judgement) bool { return strings.Contains(j.Reason, record.BuildFailed) },
		gates: []string{"ttft_p50"},
	},
}

func scenarioNames() []string { return slices.Sorted(maps.Keys(scenarios)) }

// metricLeads reports whether one of the metrics is the first row of a failed decision table.
func metricLeads(keys ...string) func(gate.Judgement) bool {
	return func(j gate.Judgement) bool {
		return len(j.Metrics) > 0 && j.Metrics[0].Verdict == gate.Fail && slices.Contains(keys, j.Metrics[0].Key)
	}
}

// configs returns the server's file for each arm. They differ in their revision, as two builds of one source would.
func (s scenario) configs() (base, head []byte, err error) {
	for i, change := range []func(*simserver.Config){s.base, s.head} {
		c := simserver.Demo()
		c.Revision = fmt.Sprintf("%d", i+1)
		c.StateEnv = stateEnv
		if change != nil {
			change(&c)
		}
		text, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			return nil, nil, err
		}
		text = append(text, '\n')
		if i == 0 {
			base = text
		} else {
			head = text
		}
	}
	return base, head, nil
}

// stateEnv names the folder in which simulated servers count their starts.
const stateEnv = "SIM_STATE"

// demoTolerance is what the whole demo gates. Token gaps at the 95th percentile jump on a busy machine; the demo shows
// them and does not gate them.
var demoTolerance = map[string]string{
	"ttft_p50": "5%", "ttft_p95": "7.5%", "ttft_p99": "15%", "itl_p50": "5%", "e2e_p95": "7.5%", "output_tps": "5%",
}

// policy writes the demo's .tailgate.yaml.
func (s scenario) policy(binary, state string, quick bool) string {
	pairs, measure, test, gates := 4, "13s", "500ms", slices.Sorted(maps.Keys(demoTolerance))
	if quick {
		pairs, measure, test, gates = 3, "3s", "200ms", s.gates
	}
	if s.pairs > 0 {
		pairs = s.pairs
	}
	var tolerance strings.Builder
	for _, key := range gates {
		fmt.Fprintf(&tolerance, "  %s: %s\n", key, demoTolerance[key])
	}
	return fmt.Sprintf(`version: 1
target:
  build: mkdir -p out && cp sim.json out/
  outputs: [out/**]
  start: >-
    exec %s sim --config out/sim.json --port "$PORT"
  ready: {path: /health, timeout: 30s}
  env: {%s: %q}
  stop: {grace: 5s}
workload: workloads/azure-conv-mini
load: {measure: %s, self_test: %s}
warmup: {window: 250ms, cap: 30s}      # ten windows at least: 2.5 s
rounds: {min: %d, max: %d, max_void: 6}  # a stall of a shared machine voids several rounds in a row
conditioning: {base: 1s, head_max: 1s} # nothing heats up here
cooldown: {pause: 0s}
tolerance:
%stelemetry: {gpu: optional, expect_gpu: false}
`, proc.Quote(binary), stateEnv, state, measure, test, pairs, pairs, tolerance.String())
}
