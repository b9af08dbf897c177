package stat_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tailgate-ci/tailgate/gate/stat"
)

func logs(xs ...float64) []float64 {
	ys := make([]float64, len(xs))
	for i, x := range xs {
		ys[i] = math.Log(x)
	}
	return ys
}

func near(a, b, within float64) bool { return math.Abs(a-b) <= within }

// Student quantiles, read through the half width of one pair-sized deviation.
func TestStudentQuantiles(t *testing.T) {
	tests := []struct {
		p    float64
		df   int
		want float64
	}{
		{0.95, 2, 2.919986},
		{0.95, 3, 2.353363},
		{0.95, 5, 2.015048},
		{0.95, 7, 1.894579},
		{0.975, 2, 4.302653},
		{0.9975, 11, 3.496614},
		{0.977, 3, 3.292256},
		{0.977, 5, 2.639570},
		{0.977, 7, 2.421363},
		{0.977, 11, 2.248633},
		{0.983, 3, 3.711765},
	}
	for _, tt := range tests {
		n := tt.df + 1
		if got := (stat.Estimate{S: math.Sqrt(float64(n))}).HalfWidth(n, 1-tt.p); !near(got, tt.want, 5e-7) {
			t.Errorf("t(%v, %d) = %.6f, want %.6f", tt.p, tt.df, got, tt.want)
		}
	}
}

// The worked metrics of the verdict rules: latencies in ms, numbers as log ratios.
var worked = []struct {
	id            string
	base, head    []float64
	a             float64
	d, s, l, u, r float64
	futile        bool
	mde           float64
	needed        int
	floored       bool
}{
	{id: "X1", base: b4, head: []float64{413, 409, 412, 411}, a: 0.023, d: 0.000013, s: 0.004846, l: -0.007963, u: 0.007990, r: 0.001218},
	{id: "X2", base: b4, head: []float64{452, 451, 455, 450}, a: 0.023, d: 0.094492, s: 0.003831, l: 0.088186, u: 0.100798, r: 0.093985, mde: 0.0082},
	{id: "X3", base: []float64{100, 112, 120, 124}, head: []float64{104, 108, 116, 128}, a: 0.023, d: 0.000175, s: 0.040898, l: -0.067149, u: 0.067499, r: -0.035135},
	{id: "X4", base: b4, head: []float64{430, 427, 433, 429}, a: 0.023, d: 0.044009, s: 0.003, l: 0.039071, u: 0.048948, r: 0.044031, floored: true},
	{id: "X5", base: b4, head: []float64{455, 405, 470, 420}, a: 0.023, d: 0.060111, s: 0.061983, l: -0.041921, u: 0.162144, r: 0.061686, needed: 16},
	{id: "X6", base: []float64{100, 100, 100, 100}, head: []float64{102, 102, 102, 102}, a: 0.023, d: 0.019803, s: 0.003, l: 0.014864, u: 0.024741, r: 0.019803, floored: true},
	{id: "X7", base: []float64{400, 300, 420, 380}, head: []float64{310, 430, 390, 410}, a: 0.023, d: 0.026747, s: 0.260113, l: -0.401432, u: 0.454926, r: 0.025334, futile: true},
	{id: "X8", base: b4, head: []float64{370, 368, 372, 371}, a: 0.023, d: -0.105011, s: 0.004255, l: -0.112016, u: -0.098006, r: -0.103738},
	{id: "X9", base: []float64{100, 100, 100, 100}, head: []float64{106, 106, 106, 101}, a: 0.023, d: 0.046189, s: 0.024159, l: 0.006420, u: 0.085959, r: 0.058269},
	{id: "X10", base: []float64{101, 104, 99}, head: []float64{103, 100, 105}, a: 0.05, d: 0.013076, s: 0.049356, l: -0.070131, u: 0.096283, r: 0.019608, mde: 0.120},
}

var b4 = []float64{412, 408, 415, 410}

func TestWorkedMetrics(t *testing.T) {
	const within = 5.1e-7
	for _, x := range worked {
		base, head := logs(x.base...), logs(x.head...)
		e := stat.EstimateOf(stat.Pairs(base, head))
		b := e.Bounds(x.a)
		r := stat.Median(head) - stat.Median(base)
		if !near(e.Mean, x.d, within) || !near(e.S, x.s, within) || !near(b.L, x.l, within) || !near(b.U, x.u, within) || !near(r, x.r, within) {
			t.Errorf("%s: d %.6f s %.6f L %.6f U %.6f R %.6f, want %v %v %v %v %v", x.id, e.Mean, e.S, b.L, b.U, r, x.d, x.s, x.l, x.u, x.r)
		}
		if e.Floored != x.floored {
			t.Errorf("%s: floored %v", x.id, e.Floored)
		}
		if mde := e.MDE(x.a, 0.8); x.mde > 0 && !near(mde, x.mde, 0.0005) {
			t.Errorf("%s: smallest slowdown %.4f, want %.4f", x.id, mde, x.mde)
		}
		tol := math.Log(1.05)
		if n := e.PairsNeeded(x.a, tol); x.needed > 0 && n != x.needed {
			t.Errorf("%s: %d pairs needed, want %d", x.id, n, x.needed)
		}
		f := stat.Futile(e, x.a, tol, tol/2, 8)
		if x.id == "X5" || x.id == "X7" {
			if got := f.NoPass && f.NoFail; got != x.futile {
				t.Errorf("%s: futile %+v, want both %v", x.id, f, x.futile)
			}
		}
	}
}

func TestEstimateOfTooLittle(t *testing.T) {
	for _, d := range [][]float64{nil, {0.04}} {
		e := stat.EstimateOf(d)
		b := e.Bounds(0.05)
		if !math.IsInf(e.S, 1) || !math.IsInf(e.SE(), 1) || !math.IsInf(b.L, -1) || !math.IsInf(b.U, 1) {
			t.Errorf("%v: %+v with bounds %+v, want infinitely wide", d, e, b)
		}
	}
	if one := (stat.Estimate{N: 1, S: 0.01}); !math.IsInf(one.MDE(0.05, 0.8), 1) || !math.IsInf(one.HalfWidth(1, 0.05), 1) {
		t.Error("one pair can show nothing")
	}
	if f := stat.Futile(stat.EstimateOf([]float64{9}), 0.05, 0.05, 0.025, 8); f.NoPass || f.NoFail {
		t.Errorf("one pair rules nothing out, got %+v", f)
	}
}

func TestMedian(t *testing.T) {
	inf := math.Inf(1)
	tests := []struct {
		xs   []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{3, 1}, 2},
		{[]float64{3, 1, 2}, 2},
		{[]float64{inf, 1, 2}, 2},
		{[]float64{inf, 1, inf}, inf},
		{[]float64{inf, inf}, inf},
		{[]float64{1, inf}, inf},
	}
	for _, tt := range tests {
		before := slices.Clone(tt.xs)
		if got := stat.Median(tt.xs); got != tt.want {
			t.Errorf("Median(%v) = %v, want %v", tt.xs, got, tt.want)
		}
		if !slices.Equal(before, tt.xs) {
			t.Errorf("Median changed its argument to %v: pairs would be lost", tt.xs)
		}
	}
	if !math.IsNaN(stat.Median(nil)) || !math.IsNaN(stat.HodgesLehmann(nil)) {
		t.Error("nothing has no middle")
	}
}

// Brute force: count the averages on either side.
func TestHodgesLehmannSplitsItsAverages(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		d := make([]float64, 1+rng.IntN(12))
		for i := range d {
			d[i] = rng.NormFloat64()
		}
		hl := stat.HodgesLehmann(d)
		below, above := 0, 0
		for j := range d {
			for k := range j + 1 {
				switch avg := (d[j] + d[k]) / 2; {
				case avg < hl:
					below++
				case avg > hl:
					above++
				}
			}
		}
		if below != above {
			t.Fatalf("%v: %d averages below %v, %d above", d, below, hl, above)
		}
	}
	if got := stat.HodgesLehmann([]float64{0, 0.01, 0.02, 9}); got > 0.5 {
		t.Errorf("one wild pair moved the centre to %v", got)
	}
}

// Swapping the arms flips every sign, a stricter level widens, and another pair like the mean narrows.
func TestEstimateProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		n := 2 + rng.IntN(11)
		base, head := make([]float64, n), make([]float64, n)
		for i := range base {
			base[i], head[i] = 6+0.02*rng.NormFloat64(), 6+0.05*rng.NormFloat64()
		}
		e, f := stat.EstimateOf(stat.Pairs(base, head)), stat.EstimateOf(stat.Pairs(head, base))
		b, c := e.Bounds(0.023), f.Bounds(0.023)
		if !near(e.Mean, -f.Mean, 1e-12) || !near(b.L, -c.U, 1e-12) || !near(b.U, -c.L, 1e-12) || !near(e.S, f.S, 1e-12) {
			t.Fatalf("swapping arms: %+v %+v against %+v %+v", e, b, f, c)
		}
		strict := e.Bounds(0.01)
		if strict.L >= b.L || strict.U <= b.U || b.L >= e.Mean || b.U <= e.Mean {
			t.Fatalf("bounds are not monotone in the level: %+v inside %+v", b, strict)
		}
		more := stat.Estimate{N: e.N + 1, Mean: e.Mean, S: e.S}.Bounds(0.023)
		if more.H >= b.H {
			t.Fatalf("%d pairs: half width %v, with one more %v", n, b.H, more.H)
		}
		if m := e.MDE(0.023, 0.8); m <= math.Expm1(b.H) {
			t.Fatalf("what is shown with power 0.8 (%v) must lie over the half width %v", m, b.H)
		}
	}
}

func TestFutilityAtTheLastLookIsTheVerdict(t *testing.T) {
	tol := math.Log(1.05)
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		e := stat.Estimate{N: 8, Mean: 0.08 * rng.NormFloat64(), S: 0.003 + 0.05*rng.Float64()}
		b := e.Bounds(0.023)
		f := stat.Futile(e, 0.023, tol, tol/2, 8)
		if f.NoPass != (b.U > tol) || f.NoFail != (e.Mean < tol || b.L <= tol/2) {
			t.Fatalf("%+v: %+v at the last look, bounds %+v", e, f, b)
		}
	}
}

func TestPairsNeeded(t *testing.T) {
	if got := (stat.Estimate{S: 0.5}).PairsNeeded(0.023, 0.01); got != stat.PairsOver {
		t.Errorf("hopeless noise needs %d pairs", got)
	}
	if got := (stat.Estimate{S: 0.003}).PairsNeeded(0.05, 0.05); got != 4 {
		t.Errorf("quiet pairs need %d", got)
	}
	last := 0
	for s := 0.005; s < 0.1; s *= 1.1 {
		n := (stat.Estimate{S: s}).PairsNeeded(0.023, 0.0488)
		if n < last || n%2 == 1 && n != stat.PairsOver {
			t.Fatalf("deviation %v needs %d pairs, a smaller one %d", s, n, last)
		}
		last = n
	}
}

// What is called shown with power 0.8 is: against a true slowdown of that size, a test at the level finds it four times in
// five, by the noncentral t distribution. The sum of two quantiles is a little generous at three pairs.
func TestPowerOfMDE(t *testing.T) {
	for n := 3; n <= 12; n++ {
		for _, a := range []float64{0.05, 0.03, 0.023, 0.017} {
			const s = 0.02
			ncp := math.Log1p((stat.Estimate{N: n, S: s}).MDE(a, 0.8)) * math.Sqrt(float64(n)) / s
			df := float64(n - 1)
			critical := (stat.Estimate{S: math.Sqrt(float64(n))}).HalfWidth(n, a)
			power := 1 - distuv.NoncentralT{Mu: ncp, Nu: df}.CDF(critical)
			least := 0.77
			if n == 3 {
				least = 0.74
			}
			if power < least || power > 0.86 {
				t.Errorf("%d pairs at level %v: power %.3f", n, a, power)
			}
		}
	}
}

// The chance of an excess is the bound read the other way round: the lower bound lies over the margin exactly when it is
// under the level.
func TestExcessIsTheBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for range 500 {
		e := stat.Estimate{N: 3 + rng.IntN(10), Mean: 0.1 * rng.NormFloat64(), S: 0.003 + 0.05*rng.Float64()}
		a := 0.01 + 0.05*rng.Float64()
		if p, l := e.Excess(0.0244), e.Bounds(a).L; (l > 0.0244) != (p < a) {
			t.Fatalf("%+v at level %v: lower bound %v, chance %v", e, a, l, p)
		}
	}
	if p := (stat.Estimate{N: 1, Mean: 9, S: math.Inf(1)}).Excess(0); p != 1 {
		t.Errorf("one pair: %v", p)
	}
}

func TestHolm(t *testing.T) {
	tests := []struct {
		p    []float64
		want []bool
	}{
		{nil, []bool{}},
		{[]float64{0.04}, []bool{true}},
		{[]float64{0.05}, []bool{false}},
		{[]float64{0.04, 0.04}, []bool{false, false}},
		{[]float64{0.04, 0.02}, []bool{true, true}},
		{[]float64{0.06, 0.02}, []bool{false, true}},
		// Holm's own example, at 0.05: only the two smallest of four.
		{[]float64{0.01, 0.03, 0.04, 0.005}, []bool{true, false, false, true}},
		{[]float64{math.NaN(), 0.001, 1}, []bool{false, false, false}},
	}
	for _, tt := range tests {
		if got := stat.Holm(tt.p, 0.05); !slices.Equal(got, tt.want) {
			t.Errorf("Holm(%v) = %v, want %v", tt.p, got, tt.want)
		}
	}
}

// For a mean, leaving blocks out gives back the standard error that its blocks' means have.
func TestBlockJackknife(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	const blocks, size = 10, 50
	var means, without [blocks]float64
	total := 0.0
	for b := range means {
		for range size {
			means[b] += rng.NormFloat64() / size
		}
		total += means[b] / blocks
	}
	for b := range without {
		without[b] = (total*blocks - means[b]) / (blocks - 1)
	}
	e := stat.EstimateOf(means[:])
	if sd, ok := stat.BlockJackknife(without[:]); !ok || !near(sd, e.SE(), 1e-12) {
		t.Errorf("jackknife %v (%v), standard error of the mean %v", sd, ok, e.SE())
	}
	for _, none := range [][]float64{nil, {1}, {1, math.Inf(1)}, {1, math.NaN()}} {
		if sd, ok := stat.BlockJackknife(none); ok {
			t.Errorf("%v: %v", none, sd)
		}
	}
}

func TestLonger(t *testing.T) {
	const a, gap = 0.023, 0.0488
	enough := 0.0
	for s := 0.001; (stat.Estimate{S: s}).PairsNeeded(a, gap) <= 8; s *= 1.001 {
		enough = s
	}
	tests := map[string]struct {
		s, sampling, low, high float64
	}{
		"quiet enough":          {enough, 0.01, 1, 1},
		"all of it is sampling": {2 * enough, math.Sqrt2 * enough, 3.9, 4.1},
		"none of it is":         {2 * enough, 0, math.Inf(1), math.Inf(1)},
		"too little of it is":   {2 * enough, 0.5 * enough, math.Inf(1), math.Inf(1)},
	}
	for name, tt := range tests {
		if k := (stat.Estimate{S: tt.s}).Longer(tt.sampling, 8, a, gap); k < tt.low || k > tt.high {
			t.Errorf("%s: %v times as long, want %v to %v", name, k, tt.low, tt.high)
		}
	}
	if k := (stat.Estimate{S: 0.01}).Longer(0.01, 8, a, 0); !math.IsInf(k, 1) {
		t.Errorf("no gap can be told in any length, got %v", k)
	}
	// With rounds so much longer, the noise that is left would settle it.
	s, w := 0.06, 0.038
	k := (stat.Estimate{S: s}).Longer(w, 8, a, gap)
	left := math.Sqrt(s*s - 2*w*w + 2*w*w/k)
	if n := (stat.Estimate{S: left * 0.9999}).PairsNeeded(a, gap); k <= 1 || n > 8 {
		t.Errorf("%v times as long leaves %v, which needs %d pairs", k, left, n)
	}
}
