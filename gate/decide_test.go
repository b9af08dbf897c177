package gate_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestDecide(t *testing.T) {
	noisy := []float64{400, 390, 420, 380, 400, 410, 395, 405}
	tests := map[string]struct {
		run  *record.Run
		stop bool
		says string
	}{
		"no pair yet":     {quiet(0), false, "next look is at 4"},
		"between looks":   {quiet(5), false, "next look is at 6"},
		"quiet at 4":      {quiet(4), true, "look 1 of 3, 4 pairs: pass"},
		"slow at 4":       {newRun(map[string]values{"e2e_p95": {b4, []float64{452, 451, 455, 450}}}), true, "fail"},
		"X5 goes on":      {newRun(map[string]values{"e2e_p95": {b4, []float64{455, 405, 470, 420}}}), false, "going on to 6"},
		"X7 is futile":    {newRun(map[string]values{"e2e_p95": {[]float64{400, 300, 420, 380}, []float64{310, 430, 390, 410}}}), true, "no further pair"},
		"the last look":   {newRun(map[string]values{"e2e_p95": {noisy, []float64{430, 400, 415, 440, 405, 400, 450, 410}}}), true, "it was the last"},
		"drifted at look": {newRun(map[string]values{"ttft_p50": {[]float64{100, 112, 120, 124}, []float64{104, 108, 116, 128}}}), true, "invalid"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.run.Status = record.StatusRunning
			next := gate.Decide(tt.run, named("e2e_p95"))
			if name == "drifted at look" {
				next = gate.Decide(tt.run, named("ttft_p50"))
			}
			if next.Stop != tt.stop || !strings.Contains(next.Reason, tt.says) {
				t.Errorf("%+v, want stop %v saying %q", next, tt.stop, tt.says)
			}
		})
	}
}

func TestDecideBetweenLooks(t *testing.T) {
	run := quiet(2)
	run.Status = record.StatusRunning
	for _, r := range of(run, record.Head) {
		r.Server.Exit = new(139)
	}
	if next := gate.Decide(run, named("e2e_p95")); !next.Stop || !strings.Contains(next.Reason, "head's server") {
		t.Errorf("two crashes of head: %+v", next)
	}
	run = quiet(3)
	run.Declared.Looks = []int{4, 6, 8}
	for _, i := range []int{0, 2, 4} {
		run.Rounds[i].Client.Late100 = 600
	}
	if next := gate.Decide(run, named("e2e_p95")); !next.Stop {
		t.Errorf("the void budget is spent: %+v", next)
	}
	run.Declared.MaxVoid = 3
	if next := gate.Decide(run, named("e2e_p95")); next.Stop {
		t.Errorf("the void budget is not spent: %+v", next)
	}
}

// What waits for another pair is never futile: failures, a crash or a missing percentile in one round of head.
func TestDecideWaitsForAnotherRound(t *testing.T) {
	futile := values{[]float64{400, 300, 420, 380}, []float64{310, 430, 390, 410}}
	spoil := map[string]func(*record.Round){
		"failures":  func(r *record.Round) { fail(r, record.HTTP503, 60) },
		"crash":     func(r *record.Round) { r.Server.Exit = new(1) },
		"unbounded": func(r *record.Round) { r.Metrics["e2e_p90"] = record.Metric{Value: record.Failed()} },
	}
	for name, f := range spoil {
		run := newRun(map[string]values{"e2e_p95": futile, "e2e_p90": {b4, b4}})
		f(of(run, record.Head)[0])
		if next := gate.Decide(run, named("e2e_p95", "e2e_p90")); next.Stop {
			t.Errorf("%s: %+v", name, next)
		}
	}
}

// Where Decide stops with a verdict, Evaluate gives the same one.
func TestDecideAgreesWithEvaluate(t *testing.T) {
	for _, head := range [][]float64{{413, 409, 412, 411}, {452, 451, 455, 450}, {370, 368, 372, 371}} {
		run := newRun(map[string]values{"e2e_p95": {b4, head}})
		next := gate.Decide(run, named("e2e_p95"))
		j := judge(t, run, named("e2e_p95"))
		if !next.Stop || !strings.HasSuffix(next.Reason, string(j.Verdict)) {
			t.Errorf("%+v against %s", next, j.Verdict)
		}
	}
}

// What the simulation says of a session is what a session comes to that is measured pair by pair, asked after each whether it
// may stop, and judged at its end: verdict and number of pairs.
func TestSimulationIsTheGate(t *testing.T) {
	keys := []string{"e2e_p50", "e2e_p90", "e2e_p95", "e2e_p99", "ttft_p90", "ttft_p95", "ttft_p99", "tpot_p50"}
	p := named(keys...)
	for i, key := range keys {
		p.Tolerance[key] = gate.Tolerance{Relative: gate.EightTolerances()[i], Named: true}
	}
	rng := rand.New(rand.NewPCG(17, 18))
	seen := map[gate.Verdict]int{}
	for i := range 150 {
		drawn := gate.DrawEight(rng, 0.025, []float64{0, 0.05, 0.10}[i%3])
		metrics := map[string]values{}
		for m, key := range keys {
			v := values{}
			for k := range drawn.Base[m] {
				v.base, v.head = append(v.base, 100*math.Exp(drawn.Base[m][k])), append(v.head, 100*math.Exp(drawn.Head[m][k]))
			}
			metrics[key] = v
		}
		run := newRun(nil)
		run.Status = record.StatusRunning
		for k := 0; ; k++ {
			addPair(run, metrics, k)
			if next := gate.Decide(run, p); next.Stop {
				break
			}
		}
		run.Status = record.StatusComplete
		j := judge(t, run, p)
		if j.Verdict != drawn.Verdict || j.Pairs != drawn.Pairs {
			t.Fatalf("session %d: %s after %d pairs, in the simulation %s after %d", i, j.Verdict, j.Pairs, drawn.Verdict, drawn.Pairs)
		}
		seen[j.Verdict]++
	}
	for _, v := range []gate.Verdict{gate.Pass, gate.Fail, gate.Inconclusive} {
		if seen[v] < 10 {
			t.Errorf("%d sessions of 150 are %s: the comparison says little", seen[v], v)
		}
	}
}
