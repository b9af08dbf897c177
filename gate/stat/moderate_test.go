package stat_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tailgate-ci/tailgate/gate/stat"
)

func TestModerate(t *testing.T) {
	tests := []struct {
		name  string
		s     float64
		df    int
		s0    float64
		d0    int
		want  float64
		df1   int
		drawn bool
	}{
		{"the worked example", 0.01, 3, 0.02, 8, 0.017838, 11, true},
		{"equal", 0.02, 3, 0.02, 8, 0.02, 11, true},
		{"noisier, just believed", 0.04, 3, 0.02, 8, math.Sqrt((8*0.0004 + 3*0.0016) / 11), 11, true},
		{"noisier than the prior", 0.0401, 3, 0.02, 8, 0.0401, 3, false},
		{"no pairs", math.Inf(1), 0, 0.02, 8, math.Inf(1), 0, false},
		{"no prior", 0.01, 3, 0, 8, 0.01, 3, false},
		{"prior without weight", 0.01, 3, 0.02, 0, 0.01, 3, false},
	}
	for _, tt := range tests {
		s, df, drawn := stat.Moderate(tt.s, tt.df, tt.s0, tt.d0)
		if s != tt.want && !near(s, tt.want, 5e-7) || df != tt.df1 || drawn != tt.drawn {
			t.Errorf("%s: %.6f, %d, %v, want %.6f, %d, %v", tt.name, s, df, drawn, tt.want, tt.df1, tt.drawn)
		}
	}
	if _, _, drawn := stat.Moderate(math.NaN(), 3, 0.02, 8); drawn {
		t.Error("NaN was drawn towards a prior")
	}
}

// A prior that is right narrows the bounds of few pairs: most of their width is not knowing the noise.
func TestModeratedBounds(t *testing.T) {
	e := stat.Estimate{N: 4, Mean: 0.01, S: 0.02}
	m, ok := e.Moderate(0.02, stat.PriorDF)
	if !ok || m.Prior != 8 || m.N != 4 || m.Mean != e.Mean {
		t.Fatalf("%+v, %v", m, ok)
	}
	// t(0.977, 11) and t(0.977, 3) of the constants.
	if b := m.Bounds(0.023); !near(b.H, 2.248633*0.02/2, 1e-8) {
		t.Errorf("half width %v with a prior", b.H)
	}
	if b := e.Bounds(0.023); !near(b.H, 3.292256*0.02/2, 1e-8) {
		t.Errorf("half width %v without", b.H)
	}
	if m.MDE(0.023, 0.8) >= e.MDE(0.023, 0.8) || m.PairsNeeded(0.023, 0.03) > e.PairsNeeded(0.023, 0.03) || m.HalfWidth(8, 0.023) >= e.HalfWidth(8, 0.023) {
		t.Error("the prior does not reach every projection")
	}
}

// The tolerance that a round noise of 1 % supports, before it is rounded.
func TestSupported(t *testing.T) {
	for _, tt := range []struct {
		last int
		want float64
	}{{4, 0.050}, {6, 0.034}, {8, 0.0275}, {12, 0.021}} {
		level := stat.Level(4, len(stat.Looks(4, tt.last)))
		if got := math.Expm1(stat.Supported(0.01*math.Sqrt2, tt.last, level)); !near(got, tt.want, 0.0005) {
			t.Errorf("at most %d pairs: %.4f, want %.4f", tt.last, got, tt.want)
		}
	}
}

func TestLag1(t *testing.T) {
	for _, tt := range []struct {
		name string
		d    []float64
		want float64
		ok   bool
	}{
		{"alternating", []float64{1, -1, 1, -1, 1, -1, 1, -1}, -7.0 / 8, true},
		{"in blocks", []float64{1, 1, 1, 1, -1, -1, -1, -1}, 5.0 / 8, true},
		{"shifted", []float64{3, 3, 3, 3, 1, 1, 1, 1}, 5.0 / 8, true},
		{"equal", []float64{2, 2, 2, 2}, 0, false},
		{"two", []float64{1, 2}, 0, false},
		{"infinite", []float64{1, math.Inf(1), 2, 3}, 0, false},
	} {
		if got, ok := stat.Lag1(tt.d); ok != tt.ok || !near(got, tt.want, 1e-12) {
			t.Errorf("%s: %v, %v, want %v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

// passing is the share of sessions at looks of 4, 6 and 8 pairs that pass although head is slower by exactly the tolerance,
// where the true deviation is sd and the prior's was calibrated as a share of it.
func passing(sessions int, share float64) float64 {
	rng := rand.New(rand.NewPCG(14, 5))
	const sd, tol = 0.02, 0.04879
	passed := 0
	for range sessions {
		var d [8]float64
		for i := range d {
			d[i] = tol + sd*rng.NormFloat64()
		}
		for _, n := range stat.Looks(4, 8) {
			e, _ := stat.EstimateOf(d[:n]).Moderate(stat.PriorMargin*share*sd, stat.PriorDF)
			if e.Bounds(stat.Level(4, 3)).U <= tol {
				passed++
				break
			}
		}
	}
	return float64(passed) / float64(sessions)
}

// What a calibration may cost: with the right one fewer slowdowns pass than without, with one at half the true deviation
// 9 to 10 % do (docs/calibrate.md).
func TestPriorKeepsItsPromise(t *testing.T) {
	const sessions = 20_000
	for _, tt := range []struct{ share, low, high float64 }{
		// A share of 0 is no prior.
		{0, 0.04, 0.06}, {1, 0.01, 0.03}, {0.5, 0.08, 0.11},
	} {
		if got := passing(sessions, tt.share); got < tt.low || got > tt.high {
			t.Errorf("calibrated at %v of the truth: %.4f pass at the tolerance, want %v to %v", tt.share, got, tt.low, tt.high)
		} else {
			t.Logf("calibrated at %v of the truth: %.4f pass", tt.share, got)
		}
	}
}
