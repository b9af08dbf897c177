package gate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// many is a session in which one metric is worse by a little more than the margin carries, among others that are not.
func many(slow values) (*record.Run, []string) {
	metrics := map[string]values{"e2e_p95": slow}
	keys := []string{"e2e_p95"}
	for _, key := range []string{"e2e_p50", "e2e_p90", "e2e_p99", "ttft_p90", "ttft_p95", "ttft_p99"} {
		metrics[key] = values{b4, []float64{413, 409, 412, 411}}
		keys = append(keys, key)
	}
	return newRun(metrics), keys
}

func TestHolm(t *testing.T) {
	barely := values{same(100, 4), []float64{108, 104.4, 108, 104.2}}
	clearly := values{b4, []float64{452, 451, 455, 450}}
	tests := map[string]struct {
		slow    values
		m       gate.Multiplicity
		alone   bool
		verdict gate.Verdict
		cause   string
	}{
		"barely, none":     {barely, gate.MultiplicityNone, false, gate.Fail, gate.MetricWorse},
		"barely, unset":    {barely, "", false, gate.Fail, gate.MetricWorse},
		"barely, holm":     {barely, gate.MultiplicityHolm, false, gate.Inconclusive, gate.Multiple},
		"barely and alone": {barely, gate.MultiplicityHolm, true, gate.Fail, gate.MetricWorse},
		"clearly, holm":    {clearly, gate.MultiplicityHolm, false, gate.Fail, gate.MetricWorse},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			run, keys := many(tt.slow)
			if tt.alone {
				keys = keys[:1]
			}
			p := named(keys...)
			p.Multiplicity = tt.m
			j := judge(t, run, p)
			want(t, j, tt.verdict, tt.cause)
			if c := j.Metrics[0]; c.Key != "e2e_p95" || c.Cause != tt.cause {
				t.Errorf("%+v", c)
			}
			if tt.cause == gate.Multiple && (j.Metrics[0].PairsNeeded <= 4 || !strings.Contains(j.Findings[0].Text, "Holm's steps ask for more: about")) {
				t.Errorf("%d pairs needed: %s", j.Metrics[0].PairsNeeded, j.Findings[0].Text)
			}
		})
	}
}

// Holm only ever takes failures back: whatever the numbers, it turns nothing else into anything.
func TestHolmOnlyTakesBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	taken := 0
	for range 200 {
		metrics, p := map[string]values{}, named("e2e_p50", "e2e_p90", "e2e_p95", "e2e_p99")
		for key := range p.Tolerance {
			v := values{}
			shift := 0.08 * rng.Float64()
			for range 4 {
				v.base, v.head = append(v.base, 100*math.Exp(0.015*rng.NormFloat64())), append(v.head, 100*math.Exp(shift+0.015*rng.NormFloat64()))
			}
			metrics[key] = v
		}
		run := newRun(metrics)
		before := map[string]gate.Comparison{}
		for _, c := range judge(t, run, p).Metrics {
			before[c.Key] = c
		}
		p.Multiplicity = gate.MultiplicityHolm
		for _, c := range judge(t, run, p).Metrics {
			if was := before[c.Key]; c.Verdict != was.Verdict {
				taken++
				if was.Verdict != gate.Fail || c.Verdict != gate.Inconclusive || c.Cause != gate.Multiple {
					t.Fatalf("from %s to %s (%s)", was.Verdict, c.Verdict, c.Cause)
				}
			}
		}
	}
	if taken == 0 {
		t.Error("Holm changed nothing in 800 metrics")
	}
}

// blocksOf are leave-one-out values of a round whose value x comes with that deviation from its sample.
func blocksOf(x, sd float64) []float64 {
	list := make([]float64, 10)
	for i := range list {
		list[i] = x * math.Exp(sd/3*float64(1-2*(i%2)))
	}
	return list
}

// An undecided metric says whether longer rounds would help, by what its rounds' noise is made of.
func TestLongerRounds(t *testing.T) {
	const noisy = 0.061983 // X5: the deviation of its pairs
	tests := map[string]struct {
		sampling float64
		says     string
	}{
		"all sampling": {noisy / math.Sqrt2, "or rounds 2.22 times as long"},
		"no sampling":  {0.001, "longer rounds do not help"},
		"not known":    {0, "about 16 pairs would settle it."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			run := newRun(map[string]values{"e2e_p95": {b4, []float64{455, 405, 470, 420}}})
			if tt.sampling > 0 {
				each(run, func(r *record.Round) {
					r.Blocks = map[string][]float64{"e2e_p95": blocksOf(400, tt.sampling)}
				})
			}
			j := judge(t, run, named("e2e_p95"))
			want(t, j, gate.Inconclusive, gate.ToleranceTooFine)
			if !strings.Contains(j.Findings[0].Text, tt.says) {
				t.Errorf("want %q: %s (%s)", tt.says, j.Findings[0].Text, fmt.Sprint(j.Metrics[0].Longer))
			}
			if x, ok := j.Metrics[0].Longer.Finite(); ok && (x <= 1 || x > 4) {
				t.Errorf("%v times as long", x)
			}
		})
	}
}
