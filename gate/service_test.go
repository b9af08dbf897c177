package gate_test

import (
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// full is a session with every metric of the default list.
func full() *record.Run {
	metrics := map[string]values{}
	for key := range gate.DefaultTolerances() {
		metrics[key] = values{b4, b4}
	}
	metrics["e2e_p50"], metrics["e2e_p99"] = values{b4, b4}, values{b4, b4}
	return newRun(metrics)
}

func defaults() gate.Policy { return gate.Policy{Tolerance: gate.DefaultTolerances(), MaxVoid: -1} }

// keys lists what was gated and what was left out, with the reason.
func keys(j gate.Judgement) (gated map[string]gate.Comparison, not map[string]string) {
	gated, not = map[string]gate.Comparison{}, map[string]string{}
	for _, c := range j.Metrics {
		gated[c.Key] = c
	}
	for _, n := range j.NotGated {
		not[n.Key] = n.Reason
	}
	return gated, not
}

func TestDefaultsOfAStreamingService(t *testing.T) {
	j := judge(t, full(), defaults())
	want(t, j, gate.Pass, "")
	if gated, not := keys(j); len(gated) != 7 || len(not) != 0 {
		t.Errorf("gated %d, not %v", len(gated), not)
	}
	run := full()
	run.Workload.Requests = 2100
	gated, not := keys(judge(t, run, defaults()))
	if len(gated) != 6 || not["ttft_p99"] != "2,100 requests a round, p99 needs 5,000" {
		t.Errorf("gated %d, not %v", len(gated), not)
	}
}

// A service that does not stream has no TTFT; whole answers are gated instead, and their median shows the drift.
func TestDefaultsWithoutStreams(t *testing.T) {
	run := full()
	each(run, func(r *record.Round) {
		for _, key := range []string{"ttft_p50", "ttft_p95", "ttft_p99", "itl_p50", "itl_p95"} {
			r.Metrics[key] = record.Metric{Value: record.NA("not streamed"), Unit: "ms"}
		}
	})
	j := judge(t, run, defaults())
	want(t, j, gate.Pass, "")
	gated, not := keys(j)
	for _, key := range []string{"e2e_p50", "e2e_p95", "e2e_p99", "output_tps"} {
		if _, ok := gated[key]; !ok {
			t.Errorf("%s is not gated", key)
		}
	}
	if len(gated) != 4 || len(not) != 5 || j.Drift.Key != "e2e_p50" {
		t.Errorf("gated %d, not %v, drift by %q", len(gated), not, j.Drift.Key)
	}
	want(t, judge(t, run, named("ttft_p50")), gate.Invalid, gate.MetricAbsent)
}

// A metric of the default list that base never had is left out with the reason; one that only head lost is not.
func TestMissingMetrics(t *testing.T) {
	lose := func(arms ...record.Arm) *record.Run {
		run := full()
		for _, arm := range arms {
			for _, r := range of(run, arm) {
				r.Metrics["itl_p95"] = record.Metric{Value: record.NA("tokens per event unknown"), Unit: "ms"}
			}
		}
		return run
	}
	j := judge(t, lose(record.Base, record.Head), defaults())
	want(t, j, gate.Pass, "")
	if _, not := keys(j); not["itl_p95"] != "tokens per event unknown" {
		t.Errorf("not gated %v", not)
	}
	want(t, judge(t, lose(record.Head), defaults()), gate.Inconclusive, gate.MetricMissing)
	want(t, judge(t, lose(record.Base, record.Head), named("itl_p95")), gate.Invalid, gate.MetricAbsent)
}

// Case S-10 of dstackai/dstack#4269 and others: a stream held back by a proxy says nothing of single tokens.
func TestBunchedStreams(t *testing.T) {
	bunch := func(arms ...record.Arm) *record.Run {
		run := full()
		for _, arm := range arms {
			of(run, arm)[1].Flags = []string{"bunched_stream"}
		}
		return run
	}
	j := judge(t, bunch(record.Base, record.Head), defaults())
	want(t, j, gate.Pass, "")
	if _, not := keys(j); len(not) != 5 || finding(j, gate.BunchedStream) == nil {
		t.Errorf("not gated %v, findings %+v", not, j.Findings)
	}
	// On head alone it may be the change itself: TTFT is still gated, gaps cannot be told.
	j = judge(t, bunch(record.Head), defaults())
	want(t, j, gate.Inconclusive, gate.BunchedStream)
	gated, _ := keys(j)
	if gated["ttft_p95"].Verdict != gate.Pass || gated["itl_p50"].Verdict != gate.Inconclusive {
		t.Errorf("TTFT %s, ITL %s", gated["ttft_p95"].Verdict, gated["itl_p50"].Verdict)
	}
	want(t, judge(t, bunch(record.Base, record.Head), named("itl_p50")), gate.Inconclusive, gate.BunchedStream)
}

// Tokens counted in two ways cannot be compared; estimated ones are never gated.
func TestTokenSources(t *testing.T) {
	run := full()
	for _, r := range of(run, record.Head) {
		r.Tokens = record.FromLogprobs
	}
	j := judge(t, run, defaults())
	want(t, j, gate.Inconclusive, gate.TokenSourceMixed)
	gated, _ := keys(j)
	for key, verdict := range map[string]gate.Verdict{"itl_p50": gate.Inconclusive, "output_tps": gate.Inconclusive, "ttft_p50": gate.Pass, "e2e_p95": gate.Pass} {
		if gated[key].Verdict != verdict {
			t.Errorf("%s: %s", key, gated[key].Verdict)
		}
	}
	each(run, func(r *record.Round) { r.Tokens = record.Estimated })
	j = judge(t, run, defaults())
	want(t, j, gate.Pass, "")
	if _, not := keys(j); len(not) != 3 {
		t.Errorf("not gated %v", not)
	}
	want(t, judge(t, run, named("output_tps")), gate.Inconclusive, gate.TokenSourceMixed)
}

// A named percentile on too few requests cannot pass by luck.
func TestNamedOnTooFewRequests(t *testing.T) {
	run := quiet(4)
	run.Workload.Requests = 900
	want(t, judge(t, run, named("e2e_p95")), gate.Inconclusive, gate.TooFewRequests)
	p := named("e2e_p95")
	p.Tolerance["e2e_p95"] = gate.Tolerance{Relative: 0.05, Named: true, Force: true}
	want(t, judge(t, run, p), gate.Pass, "")
}
