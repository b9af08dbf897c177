package gate_test

import (
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// cut sets how an arm's answers are cut: tokens an event, events a read.
func cut(run *record.Run, arm record.Arm, tokens, events float64) {
	for _, r := range of(run, arm) {
		r.Metrics["tokens_per_event"] = record.Metric{Value: record.Of(tokens), Unit: "ratio", N: 5000}
		r.Metrics["events_per_read"] = record.Metric{Value: record.Of(events), Unit: "ratio", N: 5000}
	}
}

// timed is a full run whose rounds have a TPOT, which is that of their ITL.
func timed() *record.Run {
	run := full()
	each(run, func(r *record.Round) {
		for _, p := range []string{"p50", "p90", "p95", "p99"} {
			r.Metrics["tpot_"+p] = r.Metrics["itl_"+p]
		}
	})
	return run
}

// Case S-09 of sgl-project/sglang#12064 and others: four tokens a chunk triple the gaps of a server that is no slower. ITL
// of the default list makes way for TPOT, with the reason; one that the policy names is undecided.
func TestDifferentCutsAreNotComparedByGaps(t *testing.T) {
	for _, tt := range []struct {
		name           string
		tokens, events float64
		differs        bool
	}{
		{"same", 1, 1, false},
		{"within 5 %", 1.04, 1.049, false},
		{"four tokens an event", 4, 1, true},
		{"two events a read", 1, 2, true},
		{"fewer", 0.9, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := timed()
			cut(run, record.Base, 1, 1)
			cut(run, record.Head, tt.tokens, tt.events)
			j := judge(t, run, defaults())
			want(t, j, gate.Pass, "")
			gated, not := keys(j)
			if _, there := gated["itl_p50"]; there == tt.differs || tt.differs && !strings.Contains(not["itl_p50"], "cut differently") {
				t.Errorf("ITL gated %v, not gated %q", there, not["itl_p50"])
			}
			if c, there := gated["tpot_p50"]; there != tt.differs || there && c.Verdict != gate.Pass {
				t.Errorf("TPOT in its place: %v, %+v", there, c)
			}
			if tt.differs {
				want(t, judge(t, run, named("itl_p50")), gate.Inconclusive, gate.CutDiffers)
			}
		})
	}
}

// A slower head is not saved by cutting its answers differently: TPOT stands in and fails.
func TestTPOTStandsIn(t *testing.T) {
	run := timed()
	cut(run, record.Base, 1, 1)
	cut(run, record.Head, 4, 1)
	for _, r := range of(run, record.Head) {
		m := r.Metrics["tpot_p50"]
		x, _ := m.Get()
		r.Metrics["tpot_p50"] = record.Metric{Value: record.Of(1.3 * x), Unit: m.Unit, N: m.N}
	}
	want(t, judge(t, run, defaults()), gate.Fail, gate.MetricWorse)
}

// K-03: where every failure above a percentile is a timeout, its median says what it exceeds. One that promises nothing
// takes the promise away.
func TestMedianKeepsWhatItExceeds(t *testing.T) {
	run := full()
	for _, r := range of(run, record.Head) {
		r.Metrics["e2e_p95"] = record.Metric{Value: record.FailedBeyond(5000), Unit: "ms", N: 5000}
	}
	gated, _ := keys(judge(t, run, named("e2e_p95")))
	if floor, ok := gated["e2e_p95"].HeadMedian.AtLeast(); !ok || floor != 5000 || !gated["e2e_p95"].HeadMedian.IsFailed() {
		t.Errorf("head's median %v", gated["e2e_p95"].HeadMedian)
	}
	of(run, record.Head)[0].Metrics["e2e_p95"] = record.Metric{Value: record.Failed(), Unit: "ms", N: 5000}
	gated, _ = keys(judge(t, run, named("e2e_p95")))
	if floor, ok := gated["e2e_p95"].HeadMedian.AtLeast(); ok {
		t.Errorf("head's median promises %v", floor)
	}
}
