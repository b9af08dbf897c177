package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// loadScenarios are runs of one server: measured without a limit, judged by limits, cut by failures, void, and too short.
func loadScenarios() []scenario {
	return []scenario{loadScenario(), loadLimitsScenario(), loadFailuresScenario(), loadVoidScenario(), loadSmallScenario(), loadClosedScenario(), loadKeptScenario()}
}

// aLoad is a load of 5,040 requests, all answered.
func aLoad() *record.Run {
	run := aRun(1)
	run.Kind, run.Arms = record.KindLoad, record.Arms{Head: &record.ArmInfo{URL: "http://127.0.0.1:8000"}}
	run.Declared.Order, run.Declared.Looks, run.Declared.Conditioning, run.Declared.Cooldown = []record.Arm{record.Head}, nil, record.Conditioning{}, 0
	run.Environment.GPUs, run.Environment.GPUReason = nil, "no sensor"
	rd := aRound(0, record.Head)
	rd.Machine, rd.Server.Model, rd.Server.CachedShare = record.State{GPUReason: "no sensor"}, "tiny", record.Of(0.371)
	rd.Metrics = map[string]record.Metric{}
	for _, m := range []struct {
		stem string
		ms   [4]float64
		n    int
	}{
		{"ttft", [4]float64{182.4, 301, 401.2, 619.8}, 5040},
		{"ttfo", [4]float64{182.4, 301, 401.2, 619.8}, 5040},
		{"itl", [4]float64{0.0214 * 1000, 24.1, 28.8, 61.2}, 658224},
		{"icl", [4]float64{21.4, 24.1, 28.8, 61.2}, 658224},
		{"stall", [4]float64{44.1, 71, 96.3, 402}, 5040},
		{"tpot", [4]float64{21.5, 22.9, 24.6, 30.1}, 5040},
		{"e2e", [4]float64{2719, 6110, 7440, 9120}, 5040},
	} {
		for i, p := range loadPercentiles {
			x := record.Metric{Value: record.Of(m.ms[i]), Unit: "ms", N: m.n}
			rd.Metrics[m.stem+"_"+p], rd.Metrics[m.stem+"_"+p+"_ok"] = x, x
			if m.stem == "ttft" || m.stem == "e2e" {
				rd.Metrics[m.stem+"_"+p+"_send"] = x
			}
		}
	}
	for key, m := range map[string]record.Metric{
		"output_tps": {Value: record.Of(1842.4), Unit: "tok/s"}, "output_tps_all": {Value: record.Of(1842.4), Unit: "tok/s"},
		"input_tps": {Value: record.Of(10211), Unit: "tok/s"}, "request_tps": {Value: record.Of(13.97), Unit: "req/s"},
		"offered_rps": {Value: record.Of(14), Unit: "req/s"}, "sent_rps": {Value: record.Of(14), Unit: "req/s"},
		"in_flight_mean": {Value: record.Of(38.4), Unit: "requests"}, "in_flight_max": {Value: record.Of(71), Unit: "requests"},
		"goodput": {Value: record.NA("no per-request limit is declared"), Unit: "fraction"}, "error_rate": {Value: record.Of(0), Unit: "fraction"},
	} {
		m.N = 5040
		rd.Metrics[key] = m
	}
	run.Rounds = []record.Round{rd}
	return run
}

func aLoadJudgement() gate.Judgement {
	na := record.NA("one arm only")
	return gate.Judgement{
		Schema: gate.JudgementSchema, PolicySHA256: "9f31c0d2b4a6e8f0a1c3e5d7f9b1a3c5e7d9f1b3a5c7e9d1f3b5a7c9e1d3f5b7", Level: 0.05, Looks: []int{1},
		Errors: gate.ErrorComparison{HeadN: 5040}, Rounds: map[record.Arm]gate.RoundTally{record.Head: {Planned: 1, Run: 1}},
		Drift: gate.DriftReport{Limit: 0.1, Change: na, SlotEffect: na, BaseRange: na},
	}
}

func loadScenario() scenario { return scenario{"load", aLoad(), aLoadJudgement()} }

func loadLimitsScenario() scenario {
	run, j := aLoad(), aLoadJudgement()
	run.Rounds[0].Metrics["goodput"] = record.Metric{Value: record.Of(0.9929), Unit: "fraction", N: 5040}
	j.Verdict, j.Exit, j.Reason = gate.Inconclusive, 3, "slo_at_risk"
	j.SLO = []gate.SLOResult{
		{Key: "error_rate", Limit: 0.0005, Unit: "fraction", State: gate.SLONotProvable, Value: record.Of(0), N: 5040, Needs: 5990, Up: record.Of(0.0006), Lo: record.Of(0)},
		{Key: "ttft_p99", Limit: 800, Unit: "ms", State: gate.SLOMet, Value: record.Of(619.8), N: 5040, Beyond: 36, Up: record.Of(0.0093), Lo: record.Of(0.005)},
	}
	j.Findings = []gate.Finding{{ID: "slo_at_risk", Severity: gate.Deciding, Metric: "error_rate", Text: "Error rate is 0 %, the limit is at most 0.05 %; not provable at this size: needs 5,990 requests"}}
	return scenario{"load-limits", run, j}
}

// loadFailuresScenario is a server that broke off: percentiles above the failures do not exist, and requests waited for a
// connection.
func loadFailuresScenario() scenario {
	run, j := aLoad(), aLoadJudgement()
	rd := &run.Rounds[0]
	rd.Counts.Classes = map[record.Outcome]int{record.OK: 4810, record.ConnReset: 3, record.Dial: 207, record.Timeout: 12, record.ConversationAborted: 8}
	rd.Details = map[record.Outcome]string{
		record.ConnReset: "connection reset by peer after 17 events", record.Dial: "dial tcp 127.0.0.1:8000: connect: connection refused",
		record.Timeout: "idle: nothing came for 1m0s | <script>", record.ConversationAborted: "an earlier turn of its conversation failed",
	}
	for _, stem := range []string{"ttft", "ttfo", "tpot", "e2e", "icl"} {
		for _, p := range []string{"p99", "p95"} {
			m := rd.Metrics[stem+"_"+p]
			m.Value = record.Failed()
			if p == "p99" || stem == "e2e" {
				rd.Metrics[stem+"_"+p] = m
			}
		}
	}
	rd.Metrics["ttft_p99_send"] = record.Metric{Value: record.Of(500), Unit: "ms", N: 5040}
	for _, p := range loadPercentiles {
		rd.Metrics["itl_"+p] = record.Metric{Value: record.NA("tokens per event unknown"), Unit: "ms"}
	}
	rd.Metrics["output_tps_all"] = record.Metric{Value: record.Of(1861), Unit: "tok/s", N: 5040}
	rd.Tokens = record.Estimated
	rd.Server.CachedShare = record.NA("the server reports no cached tokens")
	j.Verdict, j.Exit, j.Reason = gate.Fail, 1, "slo_violated"
	j.Errors = gate.ErrorComparison{Head: 222, HeadN: 5032}
	j.SLO = []gate.SLOResult{
		{Key: "error_rate", Limit: 0.01, Unit: "fraction", State: gate.SLOViolated, Value: record.Of(222.0 / 5032), N: 5032, Beyond: 222},
		{Key: "ttft_p99", Limit: 800, Unit: "ms", State: gate.SLOViolated, Value: record.Failed(), N: 5040, Beyond: 230},
	}
	j.Findings = []gate.Finding{
		{ID: "slo_violated", Severity: gate.Deciding, Metric: "error_rate", Text: "Error rate is 4.41 %"},
		{ID: "crashed_once", Severity: gate.Warning, Text: "the server exited or stalled while it was measured"},
	}
	return scenario{"load-failures", run, j}
}

func loadVoidScenario() scenario {
	run, j := aLoad(), aLoadJudgement()
	run.Rounds[0].Client.PacerLagP99 = record.Of(12.5)
	run.Rounds[0].Metrics["ttft_p99_send"] = record.Metric{Value: record.Of(500), Unit: "ms", N: 5040}
	j.Verdict, j.Exit, j.Reason = gate.Invalid, 4, "pacer_lag"
	j.Validity = []record.Void{{Slot: 0, Rule: "pacer_lag", Evidence: "requests were released late: p99 12.5 ms, the limit is 10 ms"}}
	j.Findings = []gate.Finding{{ID: "pacer_lag", Severity: gate.Deciding, Text: "the round does not count: requests were released late: p99 12.5 ms, the limit is 10 ms"}}
	return scenario{"load-void", run, j}
}

// loadSmallScenario is a service that answers in one piece, measured for 40 requests.
func loadSmallScenario() scenario {
	run, j := aLoad(), aLoadJudgement()
	run.Declared.Measure = 40 * time.Second
	run.Workload.Rate, run.Workload.Requests = record.Of(1), 40
	rd := &run.Rounds[0]
	rd.Counts = record.Counts{Scheduled: 40, Classes: map[record.Outcome]int{record.OK: 40}}
	for key, m := range rd.Metrics {
		if m.Unit != "ms" {
			continue
		}
		m.N = 40
		switch {
		case !strings.HasPrefix(key, "e2e"):
			m.Value = record.NA("the service does not stream")
		case !strings.Contains(key, "p50"):
			m.Value = record.NA("n=40")
		}
		rd.Metrics[key] = m
	}
	return scenario{"load-small", run, j}
}

// loadClosedScenario is a closed loop whose workload ran out, and a server without a self-test before it.
func loadClosedScenario() scenario {
	run, j := aLoad(), aLoadJudgement()
	run.Declared.Load = record.Load{Kind: record.ClosedLoop, Dialect: "openai-chat", Concurrency: 32, Think: 250 * time.Millisecond}
	rd := &run.Rounds[0]
	rd.Phases.M1 = rd.Phases.M0 + record.Instant(90*time.Second)
	rd.Client.Floor = record.NoFloor("self_test is 0s")
	rd.Metrics["ttft_p99"] = record.Metric{Value: record.NA("n=600"), Unit: "ms", N: 600}
	run.Notes = []record.Note{{ID: "workload_ran_out", Text: "the workload's 600 requests were all sent after 90.0 s of 6m0s"}}
	return scenario{"load-closed", run, j}
}

// loadKeptScenario is a load whose limits all hold.
func loadKeptScenario() scenario {
	run, j := aLoad(), aLoadJudgement()
	j.Verdict = gate.Pass
	j.SLO = []gate.SLOResult{
		{Key: "error_rate", Limit: 0.001, Unit: "fraction", State: gate.SLOMet, Value: record.Of(0), N: 5040},
		{Key: "ttft_p99", Limit: 800, Unit: "ms", State: gate.SLOMet, Value: record.Of(619.8), N: 5040, Beyond: 20},
	}
	return scenario{"load-kept", run, j}
}

func TestLoadLines(t *testing.T) {
	want := map[string]string{
		"load":          "MEASURED — TTFT p50 182 ms, p99 620 ms; output 1,842 tok/s; 0 of 5,040 requests failed",
		"load-limits":   "❔ INCONCLUSIVE — Error rate is 0 %, the limit is at most 0.05 %; not provable at this size: needs 5,990 requests",
		"load-failures": "❌ FAIL — SLO Error rate <= 1 % violated: 4.41 %, 222 of 5,032 requests beyond it (+1 more)",
		"load-void":     "⛔ INVALID — the round does not count: requests were released late: p99 12.5 ms, the limit is 10 ms. Says nothing about the server.",
		"load-closed":   "MEASURED — TTFT p50 182 ms, p99 n/a (n=600); output 1,842 tok/s; 0 of 5,040 requests failed",
		"load-kept":     "✅ PASS — every limit is shown to hold: Error rate <= 0.1 % (0 %), TTFT p99 <= 800 ms (620 ms)",
		"load-small":    "MEASURED — E2E p50 2.72 s, p99 n/a (n=40); output 1,842 tok/s; 0 of 40 requests failed",
	}
	for _, c := range loadScenarios() {
		if got := Line(c.run, c.j); got != want[c.name] {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, want[c.name])
		}
	}
}

// A load has no base: no report of one may speak of a comparison, a pair or a pull request.
func TestLoadComparesNothing(t *testing.T) {
	for _, c := range loadScenarios() {
		for _, s := range surfaces()[:2] {
			text := render(t, s, c)
			for _, word := range []string{"pull request", "comparison", "pair", "base drift", "%!"} {
				if strings.Contains(text, word) {
					t.Errorf("%s.%s says %q", c.name, s.ext, word)
				}
			}
		}
	}
}

// Example texts come from the server: none may reach Markdown as markup.
func TestLoadExamplesAreInert(t *testing.T) {
	c := loadFailuresScenario()
	text := render(t, surfaces()[0], c)
	if strings.Contains(text, "<script>") || !strings.Contains(text, `\| \<script\>`) {
		t.Errorf("markup in an example reached the report:\n%s", text)
	}
}

// Before anything was measured there are no figures, and nothing that reads like one.
func TestLoadWithoutRound(t *testing.T) {
	c := loadScenario()
	c.run.Rounds[0].State = record.RoundPartial
	c.run.Status, c.j = record.StatusCancelled, fault(gate.Invalid, 4, "cancelled", "the session was cancelled", 0)
	for _, s := range surfaces()[:2] {
		text := render(t, s, c)
		if strings.Contains(text, "TTFT") || !strings.Contains(text, "start the load again") {
			t.Errorf("%s:\n%s", s.ext, text)
		}
	}
}

// A percentile that could not be taken is never an empty cell: a row of the table has a number, n/a or failed in each.
func TestLoadTableHasNoHoles(t *testing.T) {
	for _, c := range loadScenarios() {
		for _, b := range newScribe(c.run, c.j, Options{}).latencies(&c.run.Rounds[0]) {
			if b.table == nil {
				continue
			}
			for _, row := range b.table.rows {
				cells := make([]string, len(row))
				for i, w := range row {
					cells[i] = w.plain()
				}
				if slices.Contains(cells, "") || slices.Contains(cells, "0 ms") {
					t.Error(fmt.Sprint(c.name, ": ", cells))
				}
			}
		}
	}
}
