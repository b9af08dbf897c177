package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// The rules as a whole against the error rates they were chosen for, on thousands of made-up sessions whose truth is known.
// Nothing here decides anything: [terms.rule] does for one metric, [hearing] for several. Seeds are fixed; sessions are drawn
// whole, looks take prefixes, and all effects are tried on the same draws.
const sessions = 4000

// world is how noisy a made-up machine is, as fractions: the rounds' own noise, a linear drift over the session, a wave
// through it, and the share of rounds that something disturbs.
type world struct{ noise, linear, wave, spoiled float64 }

var (
	quietWorld    = world{0.01, 0, 0, 0}
	typicalWorld  = world{0.02, 0.05, 0.01, 0}
	driftyWorld   = world{0.01, 0.10, 0.02, 0}
	screenedWorld = world{0.03, 0.10, 0.03, 0.01}
	roughWorld    = world{0.03, 0.10, 0.03, 0.05}
	noisyWorld    = world{0.05, 0.05, 0.02, 0}
)

var worlds = []struct {
	name string
	world
}{
	{"quiet", quietWorld},
	{"typical", typicalWorld},
	{"drifty", driftyWorld},
	{"screened", screenedWorld},
	{"rough", roughWorld},
	{"noisy", noisyWorld},
}

// percentile draws the q-quantile of a round's latencies, as a logarithm: lognormal with a Pareto tail above 97 %, from so
// many requests that replay four fifths of the same traffic and depend on their neighbours.
func percentile(rng *rand.Rand, q float64, requests int) func() float64 {
	independent := float64(requests) / 2 / (1 - 0.8)
	rank := q * independent
	place := distuv.Beta{Alpha: rank, Beta: independent + 1 - rank, Src: rng}
	const tail = 0.97
	bend := 0.5 * distuv.UnitNormal.Quantile(tail)
	return func() float64 {
		u := place.Rand()
		if u > tail {
			return bend + math.Log((1-tail)/(1-u))/3
		}
		return 0.5 * distuv.UnitNormal.Quantile(max(u, 1e-6))
	}
}

// arms are the badnesses of one metric over a session of identical builds, pair by pair.
type arms struct{ base, head []float64 }

// session draws one: the slots of order in time, whose latencies move with the machine.
func (w world) session(rng *rand.Rand, order []bool, draw func() float64) arms {
	var a arms
	sign := float64(2*rng.IntN(2) - 1)
	phase, period := 2*math.Pi*rng.Float64(), 0.6+1.4*rng.Float64()
	for i, head := range order {
		x := float64(i) / float64(len(order)-1)
		y := draw() + w.noise*rng.NormFloat64() + sign*w.linear*x + w.wave*math.Sin(2*math.Pi*x/period+phase)
		if w.spoiled > 0 && rng.Float64() < w.spoiled {
			y += 0.10 + 0.20*rng.Float64()
		}
		if head {
			a.head = append(a.head, y)
		} else {
			a.base = append(a.base, y)
		}
	}
	return a
}

// slower makes head worse by a fraction.
func (a arms) slower(effect float64) arms {
	head := make([]float64, len(a.head))
	for i, y := range a.head {
		head[i] = y + math.Log1p(effect)
	}
	return arms{a.base, head}
}

// plan is how a session is judged.
type plan struct {
	looks []int
	terms
}

func planOf(first, last int, margin Margin) plan {
	looks := stat.Looks(first, last)
	return plan{looks, terms{level: stat.Level(first, len(looks)), last: looks[len(looks)-1], margin: margin}}
}

// judge asks the rules at each look of a session of several metrics, until they are settled, and returns the verdict and the
// pairs it took.
func (p plan) judge(metrics []arms, tolerances []float64) (Verdict, int) {
	h := &hearing{metrics: make([]compared, len(metrics))}
	for _, n := range p.looks {
		h.rulings = h.rulings[:0]
		for i, a := range metrics {
			tol := math.Log1p(tolerances[i])
			base, head := a.base[:n], a.head[:n]
			v, f := p.rule(stat.EstimateOf(stat.Pairs(base, head)), stat.Median(head)-stat.Median(base), tol)
			h.metrics[i] = compared{Comparison: Comparison{Verdict: v, T: tol, N: n}, futility: f}
		}
		h.ruleMetrics()
		if v := h.verdict(); v != Inconclusive || n == p.last || h.futile() {
			return v, n
		}
	}
	panic("unreachable")
}

// tally counts verdicts and pairs.
type tally struct {
	count [2]int // fail, pass
	n     int
	pairs int
}

func (c *tally) add(v Verdict, pairs int) {
	switch v {
	case Fail:
		c.count[0]++
	case Pass:
		c.count[1]++
	case Inconclusive, Invalid:
	}
	c.n++
	c.pairs += pairs
}

func (c *tally) fail() float64 { return 100 * float64(c.count[0]) / float64(c.n) }
func (c *tally) pass() float64 { return 100 * float64(c.count[1]) / float64(c.n) }

// opposite is how often, in percent, one of two sessions of the same builds passes and the other fails.
func (c *tally) opposite() float64 { return 2 * c.fail() * c.pass() / 100 }

func (c *tally) mean() float64 { return float64(c.pairs) / float64(c.n) }

// expect compares a percentage with the one the rules were chosen by; negative ones are not known.
func expect(t *testing.T, what string, got, want float64) {
	t.Helper()
	p := want / 100
	if slack := 400*math.Sqrt(p*(1-p)/sessions) + 0.3; want >= 0 && math.Abs(got-want) > slack {
		t.Errorf("%s: %.2f %%, want %.2f ± %.2f", what, got, want, slack)
	}
}

func expectPairs(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.15 {
		t.Errorf("%s: %.2f pairs on average, want %.1f ± 0.15", what, got, want)
	}
}

// atMost holds what must hold whatever the tables say.
func atMost(t *testing.T, what string, got, limit float64) {
	t.Helper()
	if got > limit {
		t.Errorf("%s: %.2f, at most %v", what, got, limit)
	}
}

// rates plays every effect on the same sessions.
func rates(w world, p plan, seed uint64, q float64, requests int, tolerance float64, effects ...float64) map[float64]*tally {
	rng := rand.New(rand.NewPCG(seed, 1))
	draw := percentile(rng, q, requests)
	counts := map[float64]*tally{}
	for _, effect := range effects {
		counts[effect] = &tally{}
	}
	for range sessions {
		a := w.session(rng, stat.Order(p.last, rng.IntN(2)), draw)
		for _, effect := range effects {
			counts[effect].add(p.judge([]arms{a.slower(effect)}, []float64{tolerance}))
		}
	}
	return counts
}

// One metric: p50 of 1,000 requests, tolerance 5 %. Percent of sessions that fail at no effect, 3, 5 and 10 %, percent that
// pass at no effect, 3 and 5 %, and the mean number of pairs at no effect, 5 and 10 %.
func TestErrorRates(t *testing.T) {
	tests := []struct {
		last              int
		fail, pass, pairs [6][]float64
	}{
		{
			8,
			[6][]float64{{0, 2.2, 51.9, 100}, {0, 5.1, 38, 99.8}, {0, 1.9, 46.1, 100}, {0.2, 5.9, 23.5, 91.3}, {0.1, 4.4, 18.9, 75.3}, {0.8, 6, 16.5, 68.7}},
			[6][]float64{{99.9, 57.6, 5.1}, {94, 33.1, 4.6}, {99.8, 52.1, 4.2}, {70, 20.6, 4.4}, {53.8, 14.3, 3}, {40.8, 13.4, 4.7}},
			[6][]float64{{4.5, 6.5, 4.1}, {5.4, 6.8, 4.5}, {4.6, 6.7, 4.1}, {6.2, 6.8, 5.4}, {6.4, 6.8, 5.7}, {6.6, 6.6, 6.3}},
		},
		{
			12,
			[6][]float64{{0, 2.1, 58.2, 100}, {0, 5.1, 49.6, 100}, {0, 1.9, 56, 100}, {0.1, 5.9, 31.4, 96.7}, {0.1, 4.2, 23.2, 84.1}, {0.6, 6.9, 22.6, 85.6}},
			[6][]float64{{100, 74.7, 5.1}, {99, 46.1, 5}, {100, 71.5, 4.7}, {85.4, 27.1, 4.7}, {64.6, 18.1, 2.9}, {57.6, 16.5, 4.9}},
			[6][]float64{{4.6, 8.3, 4.1}, {5.9, 9.1, 4.7}, {4.7, 8.6, 4.2}, {7.6, 9.6, 6}, {8.3, 9.6, 7}, {9, 9.4, 7.7}},
		},
	}
	for _, tt := range tests {
		for i, w := range worlds {
			t.Run(fmt.Sprintf("%s, %d", w.name, tt.last), func(t *testing.T) {
				t.Parallel()
				counts := rates(w.world, planOf(4, tt.last, MarginHalf), uint64(100+tt.last), 0.5, 1000, 0.05, 0, 0.03, 0.05, 0.10)
				for k, effect := range []float64{0, 0.03, 0.05, 0.10} {
					expect(t, fmt.Sprintf("fail at %v", effect), counts[effect].fail(), tt.fail[i][k])
				}
				for k, effect := range []float64{0, 0.03, 0.05} {
					expect(t, fmt.Sprintf("pass at %v", effect), counts[effect].pass(), tt.pass[i][k])
				}
				for k, effect := range []float64{0, 0.05, 0.10} {
					expectPairs(t, fmt.Sprintf("at %v", effect), counts[effect].mean(), tt.pairs[i][k])
				}
				atMost(t, "pass at the tolerance, %", counts[0.05].pass(), 6)
				atMost(t, "opposite verdicts of two sessions of identical builds, %", counts[0].opposite(), 1)
				atMost(t, "opposite verdicts of two sessions at twice the tolerance, %", counts[0.10].opposite(), 1)
			})
		}
	}
}

// Three pairs judged once, at 5 %.
func TestErrorRatesOfThreePairs(t *testing.T) {
	tests := map[string]struct {
		world                        world
		fail0, fail10, pass0, passAt float64
	}{
		"quiet":   {quietWorld, 0, 94.7, 75.3, 4.6},
		"typical": {typicalWorld, 0.1, 69.5, 46.8, 4.3},
		"rough":   {roughWorld, 0.8, 33.1, 20.8, 3.6},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counts := rates(tt.world, planOf(3, 3, MarginHalf), 3, 0.5, 1000, 0.05, 0, 0.05, 0.10)
			expect(t, "fail, identical", counts[0].fail(), tt.fail0)
			expect(t, "fail at twice the tolerance", counts[0.10].fail(), tt.fail10)
			expect(t, "pass, identical", counts[0].pass(), tt.pass0)
			expect(t, "pass at the tolerance", counts[0.05].pass(), tt.passAt)
			atMost(t, "pass at the tolerance, %", counts[0.05].pass(), 6)
		})
	}
}

// With the full margin a metric at the tolerance fails no more often than the level says.
func TestErrorRatesOfTheFullMargin(t *testing.T) {
	tests := map[string]struct {
		world          world
		failAt, fail10 float64
	}{"quiet": {quietWorld, 4.8, 99.9}, "typical": {typicalWorld, 4.8, 92.8}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counts := rates(tt.world, planOf(4, 8, MarginFull), 5, 0.5, 1000, 0.05, 0.05, 0.10)
			expect(t, "fail at the tolerance", counts[0.05].fail(), tt.failAt)
			expect(t, "fail at twice the tolerance", counts[0.10].fail(), tt.fail10)
		})
	}
}

// Tail percentiles: p99 with a tolerance of 15 %, by the size of a round.
func TestErrorRatesOfTails(t *testing.T) {
	tests := map[int]struct{ pass0, fail30 float64 }{5000: {100, 100}, 1000: {94.2, 99.8}, 200: {46.1, 67.7}}
	for requests, tt := range tests {
		t.Run(fmt.Sprint(requests), func(t *testing.T) {
			t.Parallel()
			counts := rates(typicalWorld, planOf(4, 8, MarginHalf), 7, 0.99, requests, 0.15, 0, 0.30)
			expect(t, "pass, identical", counts[0].pass(), tt.pass0)
			expect(t, "fail at twice the tolerance", counts[0.30].fail(), tt.fail30)
		})
	}
}

// eight are the metrics of a session as a policy gates them: tolerances, and how noisy each is.
var (
	eightTolerances = []float64{0.05, 0.05, 0.05, 0.075, 0.075, 0.15, 0.15, 0.15}
	eightNoises     = []float64{1, 1, 0.5, 1.4, 1.4, 2.5, 2.5, 2.5}
)

// eightArms draws eight metrics, half of whose noise is common to the rounds.
func eightArms(rng *rand.Rand, sd float64, pairs int) []arms {
	metrics := make([]arms, len(eightNoises))
	draw := func() [8]float64 {
		var ys [8]float64
		common := rng.NormFloat64()
		for i, m := range eightNoises {
			ys[i] = sd * m * (math.Sqrt(0.5)*common + math.Sqrt(0.5)*rng.NormFloat64())
		}
		return ys
	}
	for range pairs {
		b, h := draw(), draw()
		for i := range metrics {
			metrics[i].base, metrics[i].head = append(metrics[i].base, b[i]), append(metrics[i].head, h[i])
		}
	}
	return metrics
}

// The kinds of truth of a session of eight metrics.
var truths = []struct {
	name string
	// effect is how much worse head is in metric i, a fraction.
	effect func(i int) float64
}{
	{"identical", func(int) float64 { return 0 }},
	{"one metric at the tolerance", func(i int) float64 { return only(0, i, eightTolerances[i]) }},
	{"one at twice the tolerance", func(i int) float64 { return only(0, i, 2*eightTolerances[i]) }},
	{"all at half the tolerance", func(i int) float64 { return eightTolerances[i] / 2 }},
}

func only(one, i int, x float64) float64 {
	if i != one {
		return 0
	}
	return x
}

// Eight metrics at once, as a session has them: percent that fail and pass, and the mean number of pairs.
func TestErrorRatesOfEightMetrics(t *testing.T) {
	tests := []struct {
		sd   float64
		last int
		want [4][3]float64
	}{
		{0.01, 8, [4][3]float64{{0, 100, 4.1}, {57.7, 4.5, 6.1}, {100, 0, 4}, {0, 95, 6.2}}},
		{0.015, 8, [4][3]float64{{0, 99.9, 5}, {53.3, 4.4, 6.5}, {100, 0, 4}, {2, 48, 7.4}}},
		{0.02, 8, [4][3]float64{{0.03, 95.3, 6.1}, {46.3, 4, 6.7}, {100, 0, 4.3}, {7.5, 17.1, 7.4}}},
		{0.03, 8, [4][3]float64{{0.75, 50.5, 7.2}, {31.6, 3, 6.9}, {97.8, 0, 5}, {16.6, 3.1, 6.9}}},
		{0.02, 12, [4][3]float64{{0, 99.8, 6.7}, {54.7, 4.7, 8.9}, {100, 0, 4.4}, {6.6, 36.8, 10.4}}},
		{0.03, 12, [4][3]float64{{0.3, 81.9, 9.5}, {40.6, 4, 9.6}, {100, 0, 5.3}, {16.4, 7.3, 10}}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%v, %d", tt.sd, tt.last), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(9, uint64(1000*tt.sd)+uint64(tt.last)))
			p := planOf(4, tt.last, MarginHalf)
			counts := make([]tally, len(truths))
			for range sessions {
				drawn := eightArms(rng, tt.sd, tt.last)
				for k, truth := range truths {
					metrics := make([]arms, len(drawn))
					for i, a := range drawn {
						metrics[i] = a.slower(truth.effect(i))
					}
					counts[k].add(p.judge(metrics, eightTolerances))
				}
			}
			for k, truth := range truths {
				expect(t, truth.name+", fail", counts[k].fail(), tt.want[k][0])
				expect(t, truth.name+", pass", counts[k].pass(), tt.want[k][1])
				expectPairs(t, truth.name, counts[k].mean(), tt.want[k][2])
			}
			atMost(t, "opposite verdicts of two sessions of identical builds, %", counts[0].opposite(), 1)
			atMost(t, "opposite verdicts of two sessions at twice the tolerance, %", counts[2].opposite(), 1)
			if tt.sd > 0.02 {
				return
			}
			atMost(t, "identical builds that fail, %", counts[0].fail(), 0.5)
			atMost(t, "twice the tolerance and no fail, %", 100-counts[2].fail(), 0.5)
			if tt.sd == 0.02 && tt.last == 8 {
				atMost(t, "pairs, identical", counts[0].mean(), 6.5)
				atMost(t, "pairs, twice the tolerance", counts[2].mean(), 4.5)
			}
		})
	}
}

// alternating is the order we do not use: base first in every pair.
func alternating(pairs int) []bool {
	order := make([]bool, 2*pairs)
	for i := range order {
		order[i] = i%2 == 1
	}
	return order
}

// coverage is how often, in percent, each bound at 5 % lies on its side of the truth.
func coverage(w world, seed uint64, pairs int, order func(coin int) []bool) (lower, upper float64) {
	const drawn = 2 * sessions
	rng := rand.New(rand.NewPCG(seed, uint64(pairs)))
	draw := percentile(rng, 0.5, 1000)
	for range drawn {
		a := w.session(rng, order(rng.IntN(2)), draw)
		b := stat.EstimateOf(stat.Pairs(a.base, a.head)).Bounds(0.05)
		if b.L <= 0 {
			lower += 100.0 / drawn
		}
		if b.U >= 0 {
			upper += 100.0 / drawn
		}
	}
	return lower, upper
}

// The bounds hold what they promise on every machine, but for machines that drift under an order that alternates.
func TestCoverage(t *testing.T) {
	for _, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int{4, 6, 8} {
				lower, upper := coverage(w.world, 11, n, func(coin int) []bool { return stat.Order(n, coin) })
				if lower < 94 || upper < 94 {
					t.Errorf("%d pairs: the lower bound covers %.1f %%, the upper %.1f %%, want 94", n, lower, upper)
				}
			}
		})
	}
	t.Run("alternating", func(t *testing.T) {
		t.Parallel()
		lower, upper := coverage(driftyWorld, 11, 4, func(int) []bool { return alternating(4) })
		if worse := min(lower, upper); worse < 87.5 || worse > 90.5 {
			t.Errorf("ABAB on a drifting machine covers %.1f and %.1f %%, expected about 89", lower, upper)
		}
	})
}

// The order at work: +6 % on the second slot of each pair. Balanced, no identical build fails; in strict alternation most do.
func TestOrderHidesNoSlotPenalty(t *testing.T) {
	fails := func(order func(coin int) []bool) float64 {
		rng := rand.New(rand.NewPCG(13, 14))
		p := planOf(4, 4, MarginHalf)
		var c tally
		for range sessions {
			var a arms
			for i, head := range order(rng.IntN(2)) {
				y := 0.01 * rng.NormFloat64()
				if i%2 == 1 {
					y += math.Log(1.06)
				}
				if head {
					a.head = append(a.head, y)
				} else {
					a.base = append(a.base, y)
				}
			}
			c.add(p.judge([]arms{a}, []float64{0.05}))
		}
		return c.fail()
	}
	expect(t, "identical builds that fail", fails(func(coin int) []bool { return stat.Order(4, coin) }), 0)
	expect(t, "identical builds that fail in ABAB", fails(func(int) []bool { return alternating(4) }), 86.8)
}

// Sessions of four pairs whose TTFT p50 has noise alone, or a drift of 15 % besides: how many the drift rule makes invalid. The
// fitted drift is normal around the true one with deviation 7·sd/sqrt(42), from which the shares follow: without drift 6.4 %
// at 5 % noise.
func TestDriftRule(t *testing.T) {
	for _, tt := range []struct{ sd, still, drifting float64 }{{0.01, 0, 100}, {0.02, 0, 99.5}, {0.03, 0.2, 95}, {0.05, 6.4, 84}} {
		t.Run(fmt.Sprint(tt.sd), func(t *testing.T) {
			t.Parallel()
			for _, truth := range []struct{ drift, want float64 }{{0, tt.still}, {0.15, tt.drifting}} {
				fitted := distuv.Normal{Mu: truth.drift, Sigma: 7 * tt.sd / math.Sqrt(42)}
				exact := 100 * (fitted.CDF(math.Log(1-defaultDrift)) + 1 - fitted.CDF(math.Log(1+defaultDrift)))
				if math.Abs(exact-truth.want) > 0.55 {
					t.Errorf("a drift of %v: %.2f %% by the normal distribution, %.1f in the table", truth.drift, exact, truth.want)
				}
				rng := rand.New(rand.NewPCG(15, uint64(1000*tt.sd)))
				invalid := 0
				for range sessions {
					if driftIsInvalid(rng, tt.sd, truth.drift) {
						invalid++
					}
				}
				expect(t, fmt.Sprintf("invalid at a drift of %v", truth.drift), 100*float64(invalid)/sessions, truth.want)
			}
		})
	}
}

func driftIsInvalid(rng *rand.Rand, sd, drift float64) bool {
	order := stat.Order(4, rng.IntN(2))
	pairs := make([]pair, 4)
	for i, head := range order {
		y := 5 + sd*rng.NormFloat64() + drift*float64(i)/float64(len(order)-1)
		r := &record.Round{Slot: i, Arm: record.Base, Metrics: map[string]record.Metric{"ttft_p50": {Value: record.Of(math.Exp(y))}}}
		if head {
			r.Arm = record.Head
			pairs[i/2].head = r
		} else {
			pairs[i/2].base = r
		}
	}
	e := &evidence{policy: Policy{MaxBaseDrift: defaultDrift}, streams: true}
	var h hearing
	h.drift, _ = e.drift(pairs)
	h.ruleDrift()
	return h.verdict() == Invalid
}
