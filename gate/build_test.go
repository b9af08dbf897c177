package gate_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// requests is how many requests a round of a made-up session has: enough for every percentile.
const requests = 5000

// values are one metric of both arms, pair by pair in time order.
type values struct{ base, head []float64 }

// newRun makes a clean session in balanced order, coin 0, looks 4, 6, 8 (or one look at three pairs). Every round holds
// the given metrics, and a steady TTFT p50 unless one is given.
func newRun(metrics map[string]values) *record.Run {
	n := 0
	for _, v := range metrics {
		n = max(n, len(v.base))
	}
	looks := stat.Looks(4, 8)
	if n == 3 {
		looks = stat.Looks(3, 3)
	}
	run := &record.Run{
		Schema: record.Schema, ID: "made-up", Kind: record.KindRevisions, Status: record.StatusComplete,
		Declared: record.Declared{
			Looks: looks, Level: stat.Level(looks[0], len(looks)), Min: looks[0], Max: looks[len(looks)-1], MaxVoid: 2,
			Measure: 100 * time.Second, SLO: map[string]float64{},
		},
		Workload:    record.WorkloadInfo{Requests: requests},
		Environment: record.Environment{GPUs: []record.GPU{{UUID: "GPU-a"}}},
	}
	for _, head := range stat.Order(looks[len(looks)-1], 0) {
		arm := record.Base
		if head {
			arm = record.Head
		}
		run.Declared.Order = append(run.Declared.Order, arm)
	}
	for k := range n {
		addPair(run, metrics, k)
	}
	return run
}

// addPair appends the pair's two rounds on the next free slots.
func addPair(run *record.Run, metrics map[string]values, k int) {
	pair, slot := 0, len(run.Rounds)
	for _, r := range run.Rounds {
		pair, slot = max(pair, r.Pair+1), max(slot, r.Slot+1)
	}
	arms := []record.Arm{record.Base, record.Head}
	if run.Declared.Order[2*k] == record.Head {
		arms = []record.Arm{record.Head, record.Base}
	}
	for i, arm := range arms {
		r := newRound(slot+i, arm, pair)
		for key, v := range metrics {
			list := v.base
			if arm == record.Head {
				list = v.head
			}
			r.Metrics[key] = metricOf(key, list[k])
		}
		run.Rounds = append(run.Rounds, r)
	}
}

func newRound(slot int, arm record.Arm, pair int) record.Round {
	return record.Round{
		Slot: slot, Arm: arm, Pair: pair, State: record.RoundComplete,
		Counts:    record.Counts{Scheduled: requests, Classes: map[record.Outcome]int{record.OK: requests}},
		Metrics:   map[string]record.Metric{"ttft_p50": metricOf("ttft_p50", 100), "itl_p50": metricOf("itl_p50", 10)},
		Beyond:    map[string]int{},
		Steady:    record.SteadyReport{Windows: 10, Joined: 1, MetAt: 6, ConfirmedAt: 10, End: "confirmed"},
		Machine:   record.State{GPUs: []record.GPUState{{UUID: "GPU-a", Ticks: 100, Loaded: 100, Reasons: map[string]int{}}}},
		Client:    record.ClientReport{WireSHA256: "aa", PacerLagP99: record.Of(0.4), Span: record.Of(1), GCPause: record.Of(1)},
		Tokens:    record.FromUsage,
		OutTokens: record.Of(1e6),
	}
}

func metricOf(key string, x float64) record.Metric {
	m, _ := gate.MetricOf(key)
	return record.Metric{Value: record.Of(x), Unit: m.Unit, N: requests}
}

// named is a policy that names metrics with a tolerance of 5 %.
func named(keys ...string) gate.Policy {
	p := gate.Policy{SHA256: "policy", Tolerance: map[string]gate.Tolerance{}, MaxVoid: -1}
	for _, key := range keys {
		p.Tolerance[key] = gate.Tolerance{Relative: 0.05, Named: true}
	}
	return p
}

// fail gives a round that many failures of a class.
func fail(r *record.Round, class record.Outcome, n int) {
	r.Counts.Classes[record.OK] -= n
	r.Counts.Classes[class] += n
}

// of lists the rounds of an arm, in order of slots.
func of(run *record.Run, arm record.Arm) []*record.Round {
	var list []*record.Round
	for i := range run.Rounds {
		if run.Rounds[i].Arm == arm {
			list = append(list, &run.Rounds[i])
		}
	}
	return list
}

// same repeats a value.
func same(x float64, n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = x
	}
	return list
}

// quiet is a session of n pairs without a difference in E2E p95.
func quiet(n int) *record.Run {
	base := []float64{412, 408, 415, 410, 411, 409, 413, 410}
	head := []float64{413, 409, 412, 411, 410, 411, 412, 411}
	return newRun(map[string]values{"e2e_p95": {base[:n], head[:n]}})
}

// judge evaluates and checks what must hold of any judgement.
func judge(t *testing.T, run *record.Run, p gate.Policy) gate.Judgement {
	t.Helper()
	j := gate.Evaluate(run, p)
	checkJudgement(t, j)
	return j
}

func checkJudgement(t *testing.T, j gate.Judgement) {
	t.Helper()
	if _, err := json.Marshal(j); err != nil {
		t.Errorf("a judgement must always be writable: %v", err)
	}
	if j.Exit != gate.Exit(j.Verdict) {
		t.Errorf("verdict %q with exit %d", j.Verdict, j.Exit)
	}
	decides := j.Verdict == gate.Fail || j.Verdict == gate.Invalid || j.Verdict == gate.Inconclusive
	switch {
	case decides && (len(j.Findings) == 0 || j.Findings[0].Severity != gate.Deciding || j.Reason != j.Findings[0].ID):
		t.Errorf("%s, reason %q, but the first finding is not it: %+v", j.Verdict, j.Reason, j.Findings)
	case !decides && j.Reason != "":
		t.Errorf("%s has reason %q", j.Verdict, j.Reason)
	}
	for i, f := range j.Findings {
		if f.Text == "" || f.ID == "" {
			t.Errorf("finding without words: %+v", f)
		}
		if i > 0 && rankOf(f.Severity) < rankOf(j.Findings[i-1].Severity) {
			t.Errorf("finding %s stands after a weaker one", f.ID)
		}
	}
}

func rankOf(s gate.Severity) int {
	return map[gate.Severity]int{gate.Deciding: 0, gate.Warning: 1, gate.Info: 2}[s]
}

// want compares verdict and reason.
func want(t *testing.T, j gate.Judgement, verdict gate.Verdict, reason string) {
	t.Helper()
	if j.Verdict != verdict || j.Reason != reason {
		t.Errorf("verdict %q reason %q, want %q %q; findings %+v", j.Verdict, j.Reason, verdict, reason, j.Findings)
	}
}

// finding finds a finding by its id; nil when no such rule spoke.
func finding(j gate.Judgement, id string) *gate.Finding {
	for i := range j.Findings {
		if j.Findings[i].ID == id {
			return &j.Findings[i]
		}
	}
	return nil
}
