package stat_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tailgate-ci/tailgate/gate/stat"
)

func TestClopperPearson(t *testing.T) {
	upper := []struct{ k, n, want, within float64 }{
		{0, 2995, 0.00099974, 5e-9}, {0, 2994, 0.00100008, 5e-9}, {1, 6000, 0.00079040, 5e-9}, {38, 5000, 0.009950, 5e-7}, {39, 5000, 0.010176, 5e-7},
	}
	for _, tt := range upper {
		if _, up := stat.ClopperPearson(tt.k, tt.n, 0.05); !near(up, tt.want, tt.within) {
			t.Errorf("upper bound of %v in %v: %.8f, want %v", tt.k, tt.n, up, tt.want)
		}
	}
	lower := []struct{ k, n, want float64 }{
		{4, 1000, 0.00136744}, {3, 1000, 0.00081818}, {19, 12000, 0.00103707}, {18, 12000, 0.00096974},
	}
	for _, tt := range lower {
		if lo, _ := stat.ClopperPearson(tt.k, tt.n, 0.05); !near(lo, tt.want, 5e-9) {
			t.Errorf("lower bound of %v in %v: %.8f, want %v", tt.k, tt.n, lo, tt.want)
		}
	}
	for _, tt := range []struct{ k, n, lo, up float64 }{{0, 0, 0, 1}, {0, 10, 0, -1}, {10, 10, -1, 1}, {12, 10, -1, 1}} {
		lo, up := stat.ClopperPearson(tt.k, tt.n, 0.05)
		if tt.lo >= 0 && lo != tt.lo || tt.up >= 0 && up != tt.up || math.IsNaN(lo) || math.IsNaN(up) {
			t.Errorf("%v in %v: [%v, %v]", tt.k, tt.n, lo, up)
		}
	}
}

// The bounds mean what they say: at the bound, the binomial tail holds exactly the level.
func TestClopperPearsonAgainstBinomialTails(t *testing.T) {
	const a = 0.023
	for n := 1; n <= 40; n++ {
		for k := range n + 1 {
			lo, up := stat.ClopperPearson(float64(k), float64(n), a)
			if k < n && !near(binomialCDF(n, k, up), a, 1e-9) {
				t.Fatalf("%d in %d: P(X <= k) at %v is %v", k, n, up, binomialCDF(n, k, up))
			}
			if k > 0 && !near(1-binomialCDF(n, k-1, lo), a, 1e-9) {
				t.Fatalf("%d in %d: P(X >= k) at %v is %v", k, n, lo, 1-binomialCDF(n, k-1, lo))
			}
		}
	}
}

// binomialCDF adds up terms.
func binomialCDF(n, k int, p float64) float64 {
	sum := 0.0
	for i := range k + 1 {
		lg, _ := math.Lgamma(float64(n + 1))
		li, _ := math.Lgamma(float64(i + 1))
		lr, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(lg - li - lr + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

// The largest counts that still prove a limit, and the smallest that break one.
func TestCountsThatProve(t *testing.T) {
	tests := []struct {
		q, n, a float64
		most    int
	}{
		{0.99, 1000, 0.05, 4},
		{0.99, 5000, 0.05, 38},
		{0.99, 15000, 0.05, 129},
		{0.99, 1000, 0.023, 3},
		{0.99, 5000, 0.023, 35},
		{0.99, 15000, 0.023, 125},
		{0.95, 1000, 0.05, 38},
		{0.95, 5000, 0.05, 224},
		{0.95, 1000, 0.023, 36},
		{0.95, 5000, 0.023, 219},
		{0.999, 12000, 0.05, 6},
		{0.999, 12000, 0.023, 5},
	}
	for _, tt := range tests {
		limit := 1 - tt.q
		_, up := stat.ClopperPearson(float64(tt.most), tt.n, tt.a)
		_, over := stat.ClopperPearson(float64(tt.most+1), tt.n, tt.a)
		if up > limit || over <= limit {
			t.Errorf("q %v, %v requests, level %v: %d does not prove it (%v) or is not the most (%v)", tt.q, tt.n, tt.a, tt.most, up, over)
		}
	}
	for _, tt := range []struct {
		a     float64
		least float64
	}{{0.05, 19}, {0.023, 20}} {
		lo, _ := stat.ClopperPearson(tt.least, 12000, tt.a)
		under, _ := stat.ClopperPearson(tt.least-1, 12000, tt.a)
		if lo <= 0.001 || under > 0.001 {
			t.Errorf("level %v: %v failures in 12000: lower bound %v, one less %v", tt.a, tt.least, lo, under)
		}
	}
}

func TestOverdispersion(t *testing.T) {
	x, n := []int{2, 40, 3, 3}, []int{4000, 4000, 4000, 4000}
	phi := stat.Overdispersion(x, n)
	if !near(phi, 29.1430, 5e-5) {
		t.Fatalf("phi = %.4f, want 29.1430", phi)
	}
	k, total := math.Round(48/phi), 16000/phi
	lo, up := stat.ClopperPearson(k, total, 0.05)
	if k != 2 || !near(total, 549.02, 0.005) || !near(up, 0.011423, 5e-7) || !near(lo, 0.000648, 5e-7) {
		t.Errorf("k %v N %.2f up %.6f lo %.6f", k, total, up, lo)
	}
	if lo, _ := stat.ClopperPearson(48, 16000, 0.05); !near(lo, 0.002326, 5e-7) {
		t.Errorf("without phi lo = %.6f, want 0.002326", lo)
	}
	for name, tt := range map[string]struct{ x, n []int }{
		"one round":   {[]int{7}, []int{100}},
		"none failed": {[]int{0, 0}, []int{100, 100}},
		"all failed":  {[]int{100, 100}, []int{100, 100}},
		"no requests": {[]int{0, 0}, []int{0, 0}},
		"alike":       {[]int{5, 5, 5}, []int{100, 100, 100}},
		"an empty":    {[]int{5, 0, 5}, []int{100, 0, 100}},
	} {
		if phi := stat.Overdispersion(tt.x, tt.n); phi != 1 {
			t.Errorf("%s: phi %v", name, phi)
		}
	}
}

func TestFewerFailures(t *testing.T) {
	tests := []struct {
		base, head int
		want       float64
	}{
		{0, 6, 0.015625}, {0, 7, 0.007812}, {1, 9, 0.010742}, {1, 10, 0.005859}, {3, 13, 0.010635}, {3, 14, 0.006363}, {5, 16, 0.013302}, {5, 17, 0.008450},
	}
	for _, tt := range tests {
		if got := stat.FewerFailures(tt.base, 5000, tt.head, 5000); !near(got, tt.want, 6e-7) {
			t.Errorf("%d against %d failures: p = %.6f, want %.6f", tt.base, tt.head, got, tt.want)
		}
	}
	if stat.FewerFailures(5, 100, 0, 100) != 1 || stat.FewerFailures(0, 0, 5, 10) != 1 || stat.FewerFailures(0, 5, 5, 0) != 1 {
		t.Error("nothing to tell is p = 1")
	}
	// Unequal sizes: three times the requests explain three times the failures.
	if p := stat.FewerFailures(10, 1000, 30, 3000); p < 0.3 {
		t.Errorf("equal rates look different: p = %v", p)
	}
	want := 1 - distuv.Binomial{N: 12, P: 0.25}.CDF(6)
	if got := stat.FewerFailures(5, 3000, 7, 1000); !near(got, want, 1e-12) {
		t.Errorf("p = %v, want %v", got, want)
	}
}

func TestRequestsNeeded(t *testing.T) {
	tests := []struct {
		limit, a float64
		want     int
	}{{0.01, 0.05, 299}, {0.001, 0.05, 2995}, {0.01, 0.023, 376}, {0.001, 0.023, 3771}, {0, 0.05, 0}, {1, 0.05, 0}}
	for _, tt := range tests {
		if got := stat.RequestsNeeded(tt.limit, tt.a); got != tt.want {
			t.Errorf("limit %v at level %v needs %d requests, want %d", tt.limit, tt.a, got, tt.want)
		}
		if tt.want == 0 {
			continue
		}
		if _, up := stat.ClopperPearson(0, float64(tt.want), tt.a); up > tt.limit {
			t.Errorf("limit %v: %d clean requests prove only %v", tt.limit, tt.want, up)
		}
	}
}
