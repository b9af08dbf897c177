package gate_test

import (
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// limited is a quiet session with an SLO on E2E p99 of 800 ms; over is how many head requests of a round lie beyond it.
func limited(base, head float64, overBase, overHead int) (*record.Run, gate.Policy) {
	run := newRun(map[string]values{"e2e_p99": {same(base, 4), same(head, 4)}})
	run.Declared.SLO = map[string]float64{"e2e_p99": 800}
	for i := range run.Rounds {
		over := overBase
		if run.Rounds[i].Arm == record.Head {
			over = overHead
		}
		run.Rounds[i].Beyond["e2e_p99"] = over
	}
	p := named("e2e_p99")
	p.SLO = map[string]float64{"e2e_p99": 800}
	return run, p
}

func TestSLO(t *testing.T) {
	tests := map[string]struct {
		base, head         float64
		overBase, overHead int
		burden             gate.Burden
		old                gate.Preexisting
		state              gate.SLOState
		verdict            gate.Verdict
		reason             string
	}{
		"met":                          {700, 700, 20, 20, "", "", gate.SLOMet, gate.Pass, ""},
		"met, proven":                  {700, 700, 20, 20, gate.Proven, "", gate.SLOMet, gate.Pass, ""},
		"violated":                     {780, 810, 45, 90, "", "", gate.SLOViolated, gate.Fail, gate.SLOBroken},
		"at risk":                      {798, 799, 49, 49, "", "", gate.SLOAtRisk, gate.Pass, ""},
		"at risk, proven":              {798, 799, 49, 49, gate.Proven, "", gate.SLOAtRisk, gate.Inconclusive, gate.SLODoubtful},
		"value over, counts under":     {799, 801, 45, 45, "", "", gate.SLOAtRisk, gate.Pass, ""},
		"values under, counts near":    {700, 700, 49, 49, "", "", gate.SLOAtRisk, gate.Pass, ""},
		"pre-existing":                 {900, 905, 90, 92, "", "", gate.SLOViolated, gate.Pass, ""},
		"pre-existing, release":        {900, 905, 90, 92, "", gate.PreexistingFail, gate.SLOViolated, gate.Fail, gate.SLOBroken},
		"pre-existing but worse still": {900, 1000, 90, 200, "", "", gate.SLOViolated, gate.Fail, gate.SLOBroken},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			run, p := limited(tt.base, tt.head, tt.overBase, tt.overHead)
			p.Burden, p.Preexisting = tt.burden, tt.old
			j := judge(t, run, p)
			want(t, j, tt.verdict, tt.reason)
			if len(j.SLO) != 1 || j.SLO[0].State != tt.state || j.SLO[0].N != 4*requests || j.SLO[0].Beyond != 4*tt.overHead {
				t.Errorf("limit %+v, want %s", j.SLO, tt.state)
			}
			if j.Metrics[0].SLO == nil || j.Metrics[0].SLO.State != tt.state {
				t.Errorf("the limit does not stand beside its metric: %+v", j.Metrics[0].SLO)
			}
			if pre := finding(j, gate.SLOOldBreak) != nil; pre != (name == "pre-existing") {
				t.Errorf("pre-existing %v: %+v", pre, j.Findings)
			}
		})
	}
}

// A burst in one round is not four rounds of evidence.
func TestSLOOverdispersion(t *testing.T) {
	run, p := limited(700, 700, 0, 0)
	for i, over := range []int{10, 400, 12, 12} {
		of(run, record.Head)[i].Beyond["e2e_p99"] = over
	}
	if j := judge(t, run, p); j.SLO[0].State != gate.SLOAtRisk {
		t.Errorf("%+v", j.SLO[0])
	}
}

// A limit that the rounds did not count for is judged by their values alone.
func TestSLOOfAnotherPolicy(t *testing.T) {
	run, p := limited(700, 700, 0, 0)
	p.SLO["e2e_p99"] = 600
	j := judge(t, run, p)
	if r := j.SLO[0]; r.State != gate.SLOViolated || r.N != 0 || r.Up.Reason() == "" {
		t.Errorf("%+v", r)
	}
	want(t, j, gate.Pass, "")
	p.SLO["e2e_p99"] = 900
	if r := judge(t, run, p).SLO[0]; r.State != gate.SLOMet {
		t.Errorf("%+v", r)
	}
}

func TestSLOOfRates(t *testing.T) {
	tests := map[string]struct {
		failed [4]int
		state  gate.SLOState
	}{
		"few":      {[4]int{2, 2, 2, 1}, gate.SLOMet},
		"between":  {[4]int{5, 5, 5, 5}, gate.SLOAtRisk},
		"a burst":  {[4]int{2, 40, 3, 3}, gate.SLOAtRisk},
		"too many": {[4]int{12, 12, 12, 12}, gate.SLOViolated},
	}
	for name, tt := range tests {
		run := quiet(4)
		for i, n := range tt.failed {
			fail(of(run, record.Head)[i], record.HTTP503, n)
			fail(of(run, record.Base)[i], record.HTTP503, n)
		}
		p := named("e2e_p95")
		p.SLO = map[string]float64{"error_rate": 0.001}
		r := judge(t, run, p).SLO[0]
		share := float64(tt.failed[0]+tt.failed[1]+tt.failed[2]+tt.failed[3]) / (4 * requests)
		if x, _ := r.Value.Get(); r.State != tt.state || r.Unit != "fraction" || x != share {
			t.Errorf("%s: %+v", name, r)
		}
	}
	run := newRun(map[string]values{"goodput": {same(0.99, 4), same(0.90, 4)}})
	p := named("e2e_p95")
	p.Tolerance = nil
	p.SLO = map[string]float64{"goodput": 0.95}
	j := judge(t, run, p)
	want(t, j, gate.Fail, gate.SLOBroken)
	if r := j.SLO[0]; r.Beyond != 2000 || r.BaseState != gate.SLOMet || r.Preexisting {
		t.Errorf("%+v", r)
	}
	if x, _ := j.SLO[0].Value.Get(); x < 0.8999 || x > 0.9001 {
		t.Errorf("goodput %v", x)
	}
}

func TestSLOOfThroughput(t *testing.T) {
	run := newRun(map[string]values{"output_tps": {b4, b4}})
	p := named("output_tps")
	for limit, state := range map[float64]gate.SLOState{300: gate.SLOMet, 411: gate.SLOAtRisk, 500: gate.SLOViolated} {
		p.SLO = map[string]float64{"output_tps": limit}
		if r := judge(t, run, p).SLO[0]; r.State != state {
			t.Errorf("limit %v: %+v, want %s", limit, r, state)
		}
	}
}

// At this size even no failure at all would prove nothing, and the report can say how many requests would.
func TestSLONotProvable(t *testing.T) {
	run := quiet(4)
	each(run, func(r *record.Round) { small(r, 200) })
	p := named("e2e_p95")
	p.Tolerance["e2e_p95"] = gate.Tolerance{Relative: 0.05, Force: true, Named: true}
	p.SLO = map[string]float64{"error_rate": 0.001}
	j := judge(t, run, p)
	if r := j.SLO[0]; r.State != gate.SLONotProvable || r.Needs != 3771 {
		t.Errorf("%+v", r)
	}
	if f := finding(j, gate.SLODoubtful); f == nil || !strings.Contains(f.Text, "needs 3,771 requests") {
		t.Errorf("%+v", f)
	}
}

func TestSLOWithoutTheMetric(t *testing.T) {
	p := named("e2e_p95")
	p.SLO = map[string]float64{"tpot_p99": 30}
	j := judge(t, quiet(4), p)
	want(t, j, gate.Invalid, gate.MetricAbsent)
}

// One arm under load: limits are judged by counts, at 5 %; without a limit nothing is judged.
func TestLoad(t *testing.T) {
	load := func(over int) *record.Run {
		run, _ := limited(700, 700, 0, over)
		run.Kind = record.KindLoad
		run.Rounds = []record.Round{*of(run, record.Head)[0]}
		run.Declared.Looks, run.Declared.Order = nil, []record.Arm{record.Head}
		return run
	}
	p := gate.Policy{SLO: map[string]float64{"e2e_p99": 800}}
	tests := map[int]struct {
		state   gate.SLOState
		verdict gate.Verdict
		reason  string
	}{38: {gate.SLOMet, gate.Pass, ""}, 39: {gate.SLOAtRisk, gate.Pass, ""}, 70: {gate.SLOViolated, gate.Fail, gate.SLOBroken}}
	for over, tt := range tests {
		j := judge(t, load(over), p)
		want(t, j, tt.verdict, tt.reason)
		if j.SLO[0].State != tt.state || len(j.Metrics) != 0 || j.Level != 0.05 || j.Errors.Verdict != "" {
			t.Errorf("%d over: %+v", over, j)
		}
	}
	if j := judge(t, load(70), gate.Policy{Tolerance: gate.DefaultTolerances()}); j.Verdict != "" || j.Exit != 0 {
		t.Errorf("without a limit: %q exit %d", j.Verdict, j.Exit)
	}
	run := load(0)
	run.Rounds[0].Client.Late100 = 600
	want(t, judge(t, run, p), gate.Invalid, gate.VoidPacerLag)
	run.Rounds = nil
	want(t, judge(t, run, p), gate.Invalid, gate.TooFewRounds)
	run = load(0)
	run.Status = record.StatusCancelled
	want(t, judge(t, run, gate.Policy{}), gate.Invalid, record.Cancelled)

	run = load(0)
	run.Rounds[0].Metrics["output_tps"] = metricOf("output_tps", 90)
	want(t, judge(t, run, gate.Policy{SLO: map[string]float64{"output_tps": 100}}), gate.Fail, gate.SLOBroken)
	if j := judge(t, run, gate.Policy{SLO: map[string]float64{"output_tps": 80}}); j.SLO[0].State != gate.SLOAtRisk {
		t.Errorf("one round cannot prove a throughput: %+v", j.SLO[0])
	}
}
