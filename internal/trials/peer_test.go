package trials

import (
	"math"
	"testing"

	"github.com/tailgate-ci/tailgate/runner/record"
)

func close3(a, b float64) bool { return math.Abs(a-b) <= 5e-4*max(1, math.Abs(b)) }

// By hand: of the nine differences -0.5 0.5 1 1.5 2 2 3 3 4 one is below 0, so U = 1 against 4.5 with deviation sqrt(9*7/12) =
// 2.2913, z = 1.5275, p = 0.1266; the fifth difference is 2.
func TestCompare(t *testing.T) {
	got := Compare([]float64{3, 1, 2}, []float64{2.5, 5, 4})
	if !close3(got.P, 0.127) || !close3(got.Shift, 2) || got.NBase != 3 || got.NHead != 3 {
		t.Errorf("Compare is %+v, want p 0.127, shift 2", got)
	}
	if got.Low > -0.4 || got.High < 3.9 {
		t.Errorf("the interval [%g, %g] of three values a side must hold nearly all differences", got.Low, got.High)
	}
	same := Compare([]float64{1, 1, 1}, []float64{1, 1})
	if same.P != 1 || math.Abs(same.Shift) > 1e-5 {
		t.Errorf("equal samples give %+v, want p 1 and no shift", same)
	}
	// Twelve differences -5 -4 -3 1 2 2 3 3 3 4 4 5: the middle lies between 2 and 3.
	if got := Compare([]float64{1, 2, 3, 9}, []float64{4, 5, 6}); !close3(got.Shift, 2.5) {
		t.Errorf("the shift is %g, want 2.5", got.Shift)
	}
	if a, b := Compare([]float64{1, 2, 3, 9}, []float64{4, 5, 6}), Compare([]float64{4, 5, 6}, []float64{1, 2, 3, 9}); a.P != b.P || !close3(a.Shift, -b.Shift) {
		t.Errorf("swapping the arms gives %+v and %+v", a, b)
	}
}

func TestExactU(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b []float64
		want float64
	}{
		{"three apart: 2 of 20 deals", []float64{1, 2, 3}, []float64{4, 5, 6}, 0.1},
		{"four apart: 2 of 70", []float64{8, 7, 6, 5}, []float64{1, 2, 3, 4}, 2.0 / 70},
		{"one out of order: 4 of 70", []float64{1, 2, 3, 5}, []float64{4, 6, 7, 8}, 4.0 / 70},
		{"all equal", []float64{1, 1}, []float64{1, 1}, 1},
		{"midranks 2 2 2 4: every deal is as far", []float64{1, 1}, []float64{1, 2}, 1},
		{"nothing", nil, []float64{1}, 1},
	} {
		if got := ExactU(tt.a, tt.b); !close3(got, tt.want) {
			t.Errorf("%s: p = %g, want %g", tt.name, got, tt.want)
		}
	}
}

// By hand for {0, 1}: the density is 1 between them and (1-2t)^-2 below, which holds a mass of 1/2 on each side of 2 in all. A
// half percent of it lies below t with 1/(2(1-2t)) = 0.01, so t = -24.5. Of eight values the chance of none below the median
// is 1/256 = 0.39 %, so the first and the last bound it.
func TestMedianInterval(t *testing.T) {
	low, high := MedianInterval([]float64{1, 0})
	if !close3(low, -24.5) || !close3(high, 25.5) {
		t.Errorf("interval of {0, 1} is [%g, %g], want [-24.5, 25.5]", low, high)
	}
	low, high = MedianInterval([]float64{8, 7, 6, 5, 4, 3, 2, 1})
	if low != 1 || high != 8 {
		t.Errorf("interval of 1 to 8 is [%g, %g], want [1, 8]", low, high)
	}
	if low, high = MedianInterval([]float64{3, 3, 3}); low != 3 || high != 3 {
		t.Errorf("interval of equal values is [%g, %g], want [3, 3]", low, high)
	}
}

// Each rule on values a person can check.
func TestPeers(t *testing.T) {
	flat := []float64{100, 100.2, 99.8, 100.1}
	rules := map[string]Peer{}
	for _, p := range Peers() {
		if p.Source == "" {
			t.Errorf("%s names no source", p.Name)
		}
		rules[p.Name] = p
	}
	for _, tt := range []struct {
		rule, what string
		e          evidence
		fail, ok   bool
	}{
		{"one run against one, 5 %", "6 % on the first run", evidence{base: flat, head: []float64{106, 100, 100}}, true, true},
		{"one run against one, 5 %", "6 % on the second", evidence{base: flat, head: []float64{100, 106, 106}}, false, true},
		{"one run against one, 5 %", "throughput down by 6 %", evidence{base: flat, head: []float64{94}, higher: true}, true, true},
		{"one run against one, 5 %", "throughput up by 6 %", evidence{base: flat, head: []float64{106}, higher: true}, false, true},
		{"one run against one, 200 %", "90 % more", evidence{base: flat, head: []float64{190}}, false, true},
		{"one run against one, 200 %", "110 % more", evidence{base: flat, head: []float64{210}}, true, true},
		{"one run against one, 200 %", "nothing", evidence{}, false, false},
		{"median of three over tolerance", "two of three 6 % over", evidence{base: flat, head: []float64{100, 106, 106, 100}, tolerance: 0.05}, true, true},
		{"median of three over tolerance", "the fourth round is not seen", evidence{base: flat, head: []float64{100, 106, 100, 106}, tolerance: 0.05}, false, true},
		{"median of three over tolerance", "two rounds", evidence{base: flat[:2], head: flat, tolerance: 0.05}, false, false},
		{"median of three over tolerance", "throughput down", evidence{base: flat, head: []float64{94, 94, 94}, higher: true, tolerance: 0.05}, true, true},
		{"absolute threshold", "over", evidence{head: []float64{106}, limit: 105}, true, true},
		{"absolute threshold", "under", evidence{head: []float64{104}, limit: 105}, false, true},
		{"absolute threshold", "throughput under", evidence{head: []float64{94}, limit: 95, higher: true}, true, true},
		{"absolute threshold", "no limit", evidence{head: []float64{94}}, false, false},
		{"Mann-Whitney on pooled requests", "[1, 3] around 2: 1 > 0.5", evidence{key: "ttft_p50", pooled: &Pooled{Low: 1, High: 3, Shift: 2}}, true, true},
		{"Mann-Whitney on pooled requests", "[0.4, 3.6] around 2: 0.4 < 0.5", evidence{key: "ttft_p50", pooled: &Pooled{Low: 0.4, High: 3.6, Shift: 2}}, false, true},
		{"Mann-Whitney on pooled requests", "faster", evidence{key: "ttft_p50", pooled: &Pooled{Low: -3, High: -1, Shift: -2}}, false, true},
		{"U-test on rounds", "0.5 % apart, p = 2/70", evidence{base: flat, head: []float64{100.5, 100.6, 100.7, 100.8}}, true, true},
		{"U-test on rounds", "faster", evidence{base: flat, head: []float64{99, 99.1, 99.2, 99.3}}, false, true},
		{"U-test on rounds", "three rounds", evidence{base: flat[:3], head: []float64{200, 201, 202}}, false, false},
		{"U-test or intervals, and 10 %", "9 %", evidence{base: flat, head: []float64{109, 109, 109, 109}}, false, true},
		{"U-test or intervals, and 10 %", "20 %, quiet rounds", evidence{base: flat, head: []float64{120, 120.1, 119.9, 120.2}}, true, true},
		{"U-test or intervals, and 10 %", "12 %, wild rounds", evidence{base: []float64{90, 110, 95, 105}, head: []float64{100, 125, 110, 115}}, false, true},
		{"U-test or intervals, and 10 %", "six rounds far apart: the smallest p is 2/924 > 0.002", evidence{
			base: []float64{1, 2, 3, 4, 5, 6}, head: []float64{11, 12, 13, 14, 15, 16},
		}, false, true},
	} {
		p, known := rules[tt.rule]
		if !known {
			t.Fatalf("no rule %q", tt.rule)
		}
		if fail, ok := p.fails(tt.e); fail != tt.fail || ok != tt.ok {
			t.Errorf("%s, %s: fails %t, can say %t; want %t, %t", tt.rule, tt.what, fail, ok, tt.fail, tt.ok)
		}
	}
}

// A peer sees valid rounds and successful requests, and goes red on any metric.
func TestPeerJudge(t *testing.T) {
	round := func(slot int, arm record.Arm, void string, ttft float64) Round {
		return Round{Slot: slot, Arm: arm, Void: void, OK: map[string]float64{"ttft_p50": ttft, "ttft_p95": 150, "itl_p50": 10, "output_tps": 1000}}
	}
	r := Result{Scenario: "identical", Rounds: []Round{
		round(0, record.Base, "pacer_lag", 1), round(1, record.Base, "", 70), round(2, record.Head, "", 80),
	}}
	known := Result{Scenario: "identical", Rounds: []Round{
		round(0, record.Base, "", 69), round(1, record.Base, "", 70), round(2, record.Base, "", 71),
	}}
	limits := Limits([]Result{r, known})
	if got := limits["ttft_p50"]; !close3(got, 73.5) {
		t.Errorf("the limit on TTFT p50 is %g, want 70 * 1.05", got)
	}
	if got := limits["output_tps"]; !close3(got, 950) {
		t.Errorf("the limit on throughput is %g, want 1000 * 0.95", got)
	}
	for _, p := range Peers() {
		fail, ok := p.Judge(r, limits)
		switch p.Name {
		case "one run against one, 5 %", "absolute threshold":
			if !fail || !ok {
				t.Errorf("%s: fails %t, can say %t; TTFT rose by 14 %%", p.Name, fail, ok)
			}
		case "one run against one, 200 %":
			if fail || !ok {
				t.Errorf("%s: fails %t, can say %t", p.Name, fail, ok)
			}
		default:
			if ok {
				t.Errorf("%s judges a single pair", p.Name)
			}
		}
	}
}
