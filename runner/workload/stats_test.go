package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Formulas are compared with the plainest code that computes the same.

func TestDistanceAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		a, b := make([]int, 1+r.IntN(20)), make([]int, 1+r.IntN(20))
		for i := range a {
			a[i] = r.IntN(8)
		}
		for i := range b {
			b[i] = r.IntN(8)
		}
		want := 0.0
		for x := range 8 {
			want = max(want, math.Abs(shareUpTo(a, x)-shareUpTo(b, x)))
		}
		if got := distance(a, b); math.Abs(got-want) > 1e-12 {
			t.Fatalf("%v, %v: %g, want %g", a, b, got, want)
		}
	}
	if distance(nil, []int{1}) != 0 {
		t.Error("a distance to nothing")
	}
}

func shareUpTo(values []int, x int) float64 {
	n := 0
	for _, v := range values {
		if v <= x {
			n++
		}
	}
	return float64(n) / float64(len(values))
}

func TestPrefixHitsAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var prompts []prompt
		for i := range 1 + r.IntN(12) {
			p := prompt{conv: fmt.Sprint(i % 3), tokens: 0}
			for range 1 + r.IntN(4) {
				p.ids = append(p.ids, BlockID{Number: r.Uint64N(5)})
			}
			p.tokens = 10*len(p.ids) - r.IntN(10)
			prompts = append(prompts, p)
		}
		for _, scope := range []Scope{ScopeGlobal, ScopeConversation} {
			for _, n := range []int{0, 1, 3} {
				got, want := prefixHits(prompts, scope, 10, n).token, bruteHits(prompts, scope, 10, n)
				if math.Abs(got-want) > 1e-12 {
					t.Fatalf("%v, %s, cache of %d: %g, want %g", prompts, scope, n, got, want)
				}
			}
		}
	}
}

// bruteHits keeps the cache as a list, most recent first.
func bruteHits(prompts []prompt, scope Scope, size, n int) float64 {
	var cache []string
	name := func(p prompt, i int) string {
		if scope == ScopeConversation {
			return p.conv + ":" + p.ids[i].String()
		}
		return p.ids[i].String()
	}
	hit, all := 0, 0
	for _, p := range prompts {
		k := 0
		for k < len(p.ids) && slices.Contains(cache, name(p, k)) {
			k++
		}
		hit += min(k*size, p.tokens)
		all += p.tokens
		for i := range slices.Backward(p.ids) {
			block := name(p, i)
			cache = slices.DeleteFunc(cache, func(s string) bool { return s == block })
			cache = append([]string{block}, cache...)
			if n > 0 && len(cache) > n {
				cache = cache[:n]
			}
		}
	}
	return float64(hit) / float64(all)
}

func TestQuantileIsNearestRank(t *testing.T) {
	ten := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for q, want := range map[float64]int{0: 1, 0.05: 1, 0.1: 1, 0.11: 2, 0.5: 5, 0.9: 9, 0.91: 10, 1: 10} {
		if got := quantile(ten, q); got != want {
			t.Errorf("quantile %g is %d, want %d", q, got, want)
		}
	}
	if got := quantiles(nil); got != (record.Quantiles{}) {
		t.Errorf("quantiles of nothing: %+v", got)
	}
}

// sparse lists counts as arrivals.counts does.
func sparse(counts ...int) ([]window, int) {
	var filled []window
	for k, n := range counts {
		if n > 0 {
			filled = append(filled, window{k, n})
		}
	}
	return filled, len(counts)
}

// W-05's counts: a peak of 12 in ten seconds with 24 arrivals.
func TestShape(t *testing.T) {
	s := shapeOf(sparse(3, 0, 0, 12, 1, 0, 8, 0, 0, 0))
	if s.mean != 2.4 || s.peak != 12 || float64(s.peak)/s.mean != 5 || s.empty != 0.6 {
		t.Errorf("%+v, want mean 2.4, peak/mean 5, six empty", s)
	}
	// Variance by hand: (9+144+1+64)/10 - 2.4² = 16.04.
	if math.Abs(s.iod-16.04/2.4) > 1e-12 {
		t.Errorf("IoD %g", s.iod)
	}
	if got := shapeOf(nil, 0); got != (shape{}) {
		t.Errorf("the shape of nothing: %+v", got)
	}
	if v := (arrivals{0, time.Second}).burst(time.Second); v.Reason() == "" {
		t.Error("one window has no burst")
	}
	if cv := (arrivals{0, 10, 20, 30}).gapCV(); cv != 0 {
		t.Errorf("even gaps have CV %g", cv)
	}
}

func TestShapeAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		counts := make([]int, 2+r.IntN(12))
		for i := range counts {
			counts[i] = max(0, r.IntN(9)-4)
		}
		mean := float64(sum(counts)) / float64(len(counts))
		var squares, lagged float64
		for i, c := range counts {
			squares += (float64(c) - mean) * (float64(c) - mean)
			if i > 0 {
				lagged += (float64(c) - mean) * (float64(counts[i-1]) - mean)
			}
		}
		got := shapeOf(sparse(counts...))
		if mean > 0 && math.Abs(got.iod-squares/float64(len(counts))/mean) > 1e-9 {
			t.Fatalf("%v: IoD %g", counts, got.iod)
		}
		if squares > 0 && math.Abs(got.acf1-lagged/squares) > 1e-9 {
			t.Fatalf("%v: acf1 %g, want %g", counts, got.acf1, lagged/squares)
		}
	}
}

// A stamp that is years off costs no memory.
func TestCountsOfYears(t *testing.T) {
	filled, n := (arrivals{0, 1, 100 * 365 * 24 * time.Hour}).counts(time.Second)
	if len(filled) != 1 || n != 100*365*24*3600 {
		t.Errorf("%d windows, %d filled", n, len(filled))
	}
}

func TestShares(t *testing.T) {
	for s, want := range map[string]uint64{"0": 0, "0.25": 250_000, "1": 1_000_000, "72": 72_000_000, "0.000001": 1, "2.0": 2_000_000} {
		if got, err := parseDecimal(s); err != nil || got != want {
			t.Errorf("%q is %d millionths, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "-1", ".5", "1.", "1e3", "01", "NaN", "0.0000001", "99999999999", "+1", " 1"} {
		if _, err := parseDecimal(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
	in := 0
	for k := range uint64(1000) {
		if inShare(k*(math.MaxUint64/1000), 250_000) {
			in++
		}
	}
	if in < 249 || in > 251 || !inShare(math.MaxUint64, 1_000_000) || inShare(0, 0) {
		t.Errorf("%d of 1,000 even positions lie in a quarter", in)
	}
	if d := divide(time.Duration(math.MaxInt64), 1_000_000); d != math.MaxInt64 {
		t.Errorf("the longest time / 1 is %d", d)
	}
}
