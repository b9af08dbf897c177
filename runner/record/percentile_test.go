package record

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPercentileIsNearestRank(t *testing.T) {
	ten := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for _, tt := range []struct {
		values  []float64
		q, want float64
	}{
		{ten, 0, 1},
		{ten, 0.05, 1},
		{ten, 0.1, 1},
		{ten, 0.11, 2},
		{ten, 0.5, 5},
		{ten, 0.9, 9},
		{ten, 0.91, 10},
		{ten, 1, 10},
		{[]float64{7}, 0.5, 7},
		{[]float64{1, math.Inf(1)}, 0.5, 1},
		{[]float64{1, math.Inf(1)}, 0.51, math.Inf(1)},
	} {
		if got := Percentile(tt.values, tt.q); got != tt.want {
			t.Errorf("Percentile(%v, %v) = %v, want %v", tt.values, tt.q, got, tt.want)
		}
	}
	if got := Percentile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("without values it is %v, want NaN", got)
	}
}

// Every whole percentile of every small n against integer arithmetic: no binary rounding may move a rank.
func TestRankIsExact(t *testing.T) {
	for n := 1; n <= 2000; n++ {
		for percent := 1; percent <= 100; percent++ {
			if got, want := rank(float64(percent)/100, n), (percent*n+99)/100; got != want {
				t.Fatalf("rank(%d %%, %d) = %d, want %d", percent, n, got, want)
			}
		}
	}
}

func TestMinSamples(t *testing.T) {
	for q, want := range map[float64]int{0.5: 11, 0.9: 64, 0.95: 130, 0.99: 662, 0.999: 6636} {
		if got := MinSamples(q); got != want {
			t.Errorf("MinSamples(%v) = %d, want %d", q, got, want)
		}
	}
}

// A weighted distribution must give what the plain list of its values gives.
func TestDistributionAgainstTheList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		d, list := &distribution{answers: 1}, []float64{}
		for range 1 + r.IntN(40) {
			v, w := float64(r.IntN(20)), 1+r.IntN(30)
			d.add(v, w)
			list = append(list, slices.Repeat([]float64{v}, w)...)
		}
		ok := slices.Clone(list)
		d.failed = r.IntN(20)
		for range d.failed {
			list = append(list, math.Inf(1))
		}
		slices.Sort(list)
		slices.Sort(ok)
		d.seal()
		for _, q := range []quantile{{"", 0.01, 0}, {"", 0.5, 0}, {"", 0.9, 0}, {"", 0.99, 0}, {"", 1, 0}} {
			if got, _ := d.at(q).Get(); got != Percentile(list, q.q) {
				t.Errorf("%v of %v with %d failed: %v, want %v", q.q, d.points, d.failed, got, Percentile(list, q.q))
			}
			if got, _ := d.ofSuccesses(q).Get(); got != Percentile(ok, q.q) {
				t.Errorf("%v of successes: %v, want %v", q.q, got, Percentile(ok, q.q))
			}
		}
		limit := float64(r.IntN(22)) - 0.5
		want := 0
		for _, v := range ok {
			if v > limit {
				want++
			}
		}
		if got := d.over(limit); got != want {
			t.Errorf("%d over %v, want %d", got, limit, want)
		}
	}
}

func TestParseKey(t *testing.T) {
	for key, want := range map[string]metricKey{
		"ttft_p99": {"ttft", 0.99, ""}, "e2e_p50_send": {"e2e", 0.5, "send"}, "itl_p95_ok": {"itl", 0.95, "ok"},
	} {
		if got, ok := parseKey(key); !ok || got != want {
			t.Errorf("parseKey(%s) = %v, %v", key, got, ok)
		}
	}
	for _, key := range []string{"", "error_rate", "output_tps", "ttft", "ttft_p98", "ttft_p99_late", "goodput"} {
		if got, ok := parseKey(key); ok {
			t.Errorf("parseKey(%q) = %v", key, got)
		}
	}
}
