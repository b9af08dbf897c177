package trials

import (
	"math"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// Peer is another tool's rule, applied to the rounds of a session as if it had measured them. It sees valid rounds only, and successful
// requests only, which flatters it: it has no rules to void rounds by.
type Peer struct {
	// Name says the rule in a few words; Source where it stands.
	Name, Source string
	// fails reports whether the rule objects to one metric; false for ok when it has too little to say anything.
	fails func(e evidence) (fail, ok bool)
}

// evidence is what a peer gets to see of one metric of a session.
type evidence struct {
	key string
	// base and head are the valid rounds' values in time order, over successful requests, in the metric's unit.
	base, head []float64
	higher     bool
	tolerance  float64
	// limit is an absolute limit on the metric; 0 for none.
	limit  float64
	pooled *Pooled
}

// Peers lists the rules.
func Peers() []Peer {
	return []Peer{
		{
			"one run against one, 5 %",
			"benchmark-action/github-action-benchmark, src/write.ts, findAlerts: one value per commit, alert where the ratio exceeds alert-threshold; set to 105%",
			func(e evidence) (bool, bool) { return single(e, 1.05) },
		},
		{
			"one run against one, 200 %",
			"the same with the default of alert-threshold, 200% (action.yml)",
			func(e evidence) (bool, bool) { return single(e, 2) },
		},
		{
			"median of three over tolerance",
			"the usual shell script: three runs a side, compare medians. Its strict ABAB order cannot be had from recorded sessions; ours is balanced, which flatters it",
			medianOfThree,
		},
		{
			"absolute threshold",
			"k6, Thresholds (grafana.com/docs/k6/latest/using-k6/thresholds): one run of head against a fixed limit. The limit is the median of base's rounds in the first identical session, plus the tolerance",
			threshold,
		},
		{
			"Mann-Whitney on pooled requests",
			"spinnaker/kayenta, NetflixJudge.scala and MannWhitneyClassifier.scala: confidence 0.98, fails where the interval of the shift lies beyond 0.25 of its estimate. Kayenta feeds it points of a time series; requests take their place here, without its removal of outliers",
			pooled,
		},
		{
			"U-test on rounds",
			"golang.org/x/perf/benchmath, AssumeNothing.Compare, as benchstat uses it: exact two-sided test, alpha 0.05, any size of change",
			uTest,
		},
		{
			"U-test or intervals, and 10 %",
			"airspeed-velocity/asv, asv/_stats.py (is_different), asv_runner/statistics.py (compute_stats), asv/commands/compare.py (_is_result_better), default factor 1.1",
			asv,
		},
	}
}

// Judge applies the rule to every gated metric of a session, as a job that goes red on any of them; false for ok when it could
// judge none. Limits are from [Limits].
func (p Peer) Judge(r Result, limits map[string]float64) (fail, ok bool) {
	sc, known := Find(r.Scenario)
	if !known {
		return false, false
	}
	for _, key := range sc.Gated() {
		m, _ := gate.MetricOf(key)
		e := evidence{
			key: key, base: values(r.Valid(record.Base), key), head: values(r.Valid(record.Head), key), higher: m.HigherIsBetter,
			tolerance: Tolerances[key], limit: limits[limitKey(sc, key)],
		}
		if test, ok := r.Pooled[stem(key)]; ok {
			e.pooled = &test
		}
		f, can := p.fails(e)
		fail, ok = fail || f && can, ok || can
	}
	return fail, ok
}

// stem names the request-wise quantity behind a metric: gaps are averaged over an answer, and throughput in a closed loop is the
// inverse of the whole answer's time.
func stem(key string) string {
	switch s, _, _ := strings.Cut(key, "_p"); s {
	case "itl":
		return "tpot"
	case "output_tps":
		return "e2e"
	default:
		return s
	}
}

func values(rounds []Round, key string) []float64 {
	var out []float64
	for _, rd := range rounds {
		if x, ok := rd.OK[key]; ok {
			out = append(out, x)
		}
	}
	return out
}

// worse is how many times worse head's value is, above 1 when it is.
func (e evidence) worse(base, head float64) float64 {
	if e.higher {
		return base / head
	}
	return head / base
}

func single(e evidence, limit float64) (fail, ok bool) {
	if len(e.base) < 1 || len(e.head) < 1 {
		return false, false
	}
	return e.worse(e.base[0], e.head[0]) > limit, true
}

func medianOfThree(e evidence) (fail, ok bool) {
	if len(e.base) < 3 || len(e.head) < 3 {
		return false, false
	}
	base, head := median(e.base[:3]), median(e.head[:3])
	if e.higher {
		return head < base*(1-e.tolerance), true
	}
	return head > base*(1+e.tolerance), true
}

func threshold(e evidence) (fail, ok bool) {
	if len(e.head) < 1 || e.limit == 0 {
		return false, false
	}
	if e.higher {
		return e.head[0] < e.limit, true
	}
	return e.head[0] > e.limit, true
}

// Limits are the absolute limits of the threshold rule, set once from the first identical session of each kind of load in the file
// that has three valid rounds of base.
func Limits(results []Result) map[string]float64 {
	limits := map[string]float64{}
	for _, r := range results {
		sc, ok := Find(r.Scenario)
		if !ok || sc.Size != Same {
			continue
		}
		for _, key := range sc.Gated() {
			base := values(r.Valid(record.Base), key)
			if _, set := limits[limitKey(sc, key)]; set || len(base) < 3 {
				continue
			}
			m, _ := gate.MetricOf(key)
			if m.HigherIsBetter {
				limits[limitKey(sc, key)] = median(base) * (1 - Tolerances[key])
			} else {
				limits[limitKey(sc, key)] = median(base) * (1 + Tolerances[key])
			}
		}
	}
	return limits
}

func limitKey(sc Scenario, key string) string {
	if sc.closed {
		return "closed " + key
	}
	return key
}

func pooled(e evidence) (fail, ok bool) {
	const fraction = 0.25
	if e.pooled == nil || e.key == "output_tps" && len(e.base) == 0 {
		return false, false
	}
	return e.pooled.Low > fraction*math.Abs(e.pooled.Shift), true
}

func uTest(e evidence) (fail, ok bool) {
	const alpha = 0.05
	if len(e.base) < 4 || len(e.head) < 4 { // with fewer no difference can be significant
		return false, false
	}
	return ExactU(e.base, e.head) <= alpha && e.worse(median(e.base), median(e.head)) > 1, true
}

func asv(e evidence) (fail, ok bool) {
	const factor, alpha = 1.1, 0.002
	if len(e.base) < 2 || len(e.head) < 2 {
		return false, false
	}
	if e.worse(median(e.base), median(e.head)) <= factor {
		return false, true
	}
	if 1/choose(len(e.base)+len(e.head), len(e.base)) < alpha {
		return ExactU(e.base, e.head) < alpha, true
	}
	lowBase, highBase := MedianInterval(e.base)
	lowHead, highHead := MedianInterval(e.head)
	return highBase < lowHead || lowBase > highHead, true
}

// ExactU is the two-sided p-value of the Mann-Whitney test for small samples, by counting every way to deal the pooled values
// out to two hands. Ties count half. 1 for an empty sample.
//
// Source: Mann and Whitney, Annals of Mathematical Statistics 18 (1947); with ties as a permutation test of the same statistic.
func ExactU(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	all := slices.Concat(a, b)
	ranks := midranks(all)
	seen := 0.0
	for i := range a {
		seen += ranks[i]
	}
	mean := float64(len(a)) * float64(len(all)+1) / 2
	far, ways := 0, 0
	var deal func(from, left int, sum float64)
	deal = func(from, left int, sum float64) {
		if left == 0 {
			ways++
			if math.Abs(sum-mean) >= math.Abs(seen-mean)-1e-9 {
				far++
			}
			return
		}
		for i := from; i <= len(all)-left; i++ {
			deal(i+1, left-1, sum+ranks[i])
		}
	}
	deal(0, len(a), 0)
	return float64(far) / float64(ways)
}

// midranks are ranks from 1, the mean of them for equal values.
func midranks(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		less, same := 0, 0
		for _, y := range xs {
			switch {
			case y < x:
				less++
			case y == x:
				same++
			}
		}
		out[i] = float64(less) + float64(same+1)/2
	}
	return out
}

func choose(n, k int) float64 {
	c := 1.0
	for i := 1; i <= k; i++ {
		c *= float64(n-k+i) / float64(i)
	}
	return math.Round(c)
}

// MedianInterval is asv's interval of a median at 99 %. Where order statistics reach that far they are it (8 values or more);
// else it is the posterior of the location under Laplace noise, with density proportional to the sum of |x - t| over the sample to
// the power of minus its size, widened to the whole sample.
func MedianInterval(xs []float64) (low, high float64) {
	const tail = 0.005
	xs = slices.Sorted(slices.Values(xs))
	n := len(xs)
	low, high = math.Inf(-1), math.Inf(1)
	sum := 0.0
	for k, x := range xs { // sum is the chance of at most k of n below the median
		sum += choose(n, k) * math.Pow(0.5, float64(n))
		if sum <= tail {
			low = x
		}
		if sum >= 1-tail {
			high = x
			break
		}
	}
	if math.IsInf(low, 0) {
		low = min(laplace(xs, tail), xs[0])
	}
	if math.IsInf(high, 0) {
		high = max(laplace(xs, 1-tail), xs[n-1])
	}
	return low, high
}

// laplace is the quantile of that posterior; xs is sorted and has two values or more.
func laplace(xs []float64, p float64) float64 {
	n := len(xs)
	spread := func(t float64) float64 {
		s := 0.0
		for _, x := range xs {
			s += math.Abs(x - t)
		}
		return s
	}
	unit := spread(median(xs))
	if unit == 0 {
		return median(xs)
	}
	// The spread is linear between two values of the sample, with slope c, so that each piece of the integral is closed.
	power := float64(1 - n)
	height := func(t float64) float64 {
		if math.IsInf(t, 0) {
			return 0
		}
		return math.Pow(spread(t)/unit, power)
	}
	upTo := func(t float64) float64 {
		area, from := 0.0, math.Inf(-1)
		for k := 0; k <= n; k++ {
			to := t
			if k < n {
				to = min(t, xs[k])
			}
			if to > from {
				if c := float64(2*k - n); c == 0 {
					area += (to - from) / unit * math.Pow(spread(from)/unit, -float64(n))
				} else {
					area += (height(from) - height(to)) / (float64(n-1) * c)
				}
				from = to
			}
		}
		return area
	}
	whole := upTo(math.Inf(1))
	low, high := xs[0]-1e6*unit, xs[n-1]+1e6*unit
	for range 200 {
		middle := (low + high) / 2
		if upTo(middle) < p*whole {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}
