package gate

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tailgate-ci/tailgate/gate/stat"
)

// world is how noisy a made-up machine is, as fractions: the rounds' own noise, a linear drift over the session, and a
// wave through it.
type world struct{ noise, linear, wave float64 }

// session draws the badness of one metric, a p50 of 1,000 requests that replay the same traffic, at a head that is slower
// by effect.
func (w world) session(rng *rand.Rand, pairs int) (head []bool, ys []float64) {
	head = stat.Order(pairs, rng.IntN(2))
	sign := float64(2*rng.IntN(2) - 1)
	phase, period := 2*math.Pi*rng.Float64(), 0.6+1.4*rng.Float64()
	const independent = 1000 / 2 / (1 - 0.8)
	sample := distuv.Beta{Alpha: independent / 2, Beta: independent/2 + 1, Src: rng}
	for i := range head {
		x := float64(i) / float64(2*pairs-1)
		y := 0.5*distuv.UnitNormal.Quantile(sample.Rand()) + w.noise*rng.NormFloat64()
		ys = append(ys, y+sign*w.linear*x+w.wave*math.Sin(2*math.Pi*x/period+phase))
	}
	return head, ys
}

// run judges a session at its looks until it stops, and returns the verdict and the pairs it took.
func run(head []bool, ys []float64, effect float64, looks []int, level float64) (Verdict, int) {
	var b, h series
	for i, y := range ys {
		if head[i] {
			h.ys = append(h.ys, y+math.Log1p(effect))
		} else {
			b.ys = append(b.ys, y)
		}
	}
	m, _ := MetricOf("ttft_p50")
	last := looks[len(looks)-1]
	for _, n := range looks {
		base, top := series{ys: b.ys[:n]}, series{ys: h.ys[:n]}
		c := compared{metric: m, Comparison: Comparison{N: n, T: math.Log1p(0.05), PairD: stat.Pairs(base.ys, top.ys)}}
		c.measure(base, top, terms{level: level, last: last, margin: MarginHalf})
		hearing := hearing{metrics: []compared{c}}
		if c.Verdict != Inconclusive || n == last || hearing.futile() {
			return c.Verdict, n
		}
	}
	panic("unreachable")
}

// The rule as a whole against the error rates it was chosen for: tolerance 5 %, looks at 4, 6 and 8 pairs. Percent of
// sessions that fail and that pass, and the mean number of pairs; n/a is -1.
func TestErrorRates(t *testing.T) {
	const sessions = 500
	quiet, typical, noisy := world{0.01, 0, 0}, world{0.02, 0.05, 0.01}, world{0.05, 0.05, 0.02}
	tests := []struct {
		name               string
		world              world
		effect             float64
		fails, pass, pairs float64
	}{
		{"quiet, identical", quiet, 0, 0.0, 99.9, 4.5},
		{"quiet, at the tolerance", quiet, 0.05, 51.9, 5.1, 6.5},
		{"typical, identical", typical, 0, 0.0, 94.0, 5.4},
		{"typical, at the tolerance", typical, 0.05, 38.0, 4.6, 6.8},
		{"typical, twice the tolerance", typical, 0.10, 99.8, -1, 4.5},
		{"noisy, identical", noisy, 0, 0.8, 40.8, 6.6},
		{"noisy, twice the tolerance", noisy, 0.10, 68.7, -1, 6.3},
	}
	looks := stat.Looks(4, 8)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, 12))
			count, sum := map[Verdict]float64{}, 0
			for range sessions {
				head, ys := tt.world.session(rng, 8)
				v, n := run(head, ys, tt.effect, looks, stat.Level(4, len(looks)))
				count[v]++
				sum += n
			}
			near := func(what string, got, want float64) {
				p := want / 100
				if slack := 400*math.Sqrt(p*(1-p)/sessions) + 0.5; want >= 0 && math.Abs(got-want) > slack {
					t.Errorf("%s %.1f %%, want %.1f ± %.1f", what, got, want, slack)
				}
			}
			near("fail", 100*count[Fail]/sessions, tt.fails)
			near("pass", 100*count[Pass]/sessions, tt.pass)
			if mean := float64(sum) / sessions; math.Abs(mean-tt.pairs) > 0.3 {
				t.Errorf("%.2f pairs on average, want %.1f", mean, tt.pairs)
			}
		})
	}
}
