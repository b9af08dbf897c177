package record

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// Percentile is the nearest-rank percentile of values in rising order: sorted[ceil(q·n) - 1]. q is a fraction in [0, 1];
// below 1/n it gives the smallest value. Failures belong into sorted as +Inf. Without values it is NaN.
func Percentile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[rank(q, len(sorted))-1]
}

// rank is ceil(q·n) within [1, n]. The slack undoes binary rounding: 0.07·100 is 7.000000000000001 in a float64, and the
// rank meant is 7.
func rank(q float64, n int) int {
	k := math.Ceil(q*float64(n) - 1e-9)
	return int(min(max(k, 1), float64(n)))
}

// MinSamples is the smallest number of samples from which percentile q (a fraction below 1) is printed. Below it the
// largest sample may well lie under the true percentile.
func MinSamples(q float64) int {
	for _, known := range quantiles() {
		if known.q == q {
			return known.min
		}
	}
	return int(math.Ceil(6.64/(1-q) - 1e-9))
}

// quantile is one of the percentiles that each latency is reported at.
type quantile struct {
	name string
	q    float64
	min  int
}

func quantiles() []quantile {
	return []quantile{{"p50", 0.50, 11}, {"p90", 0.90, 64}, {"p95", 0.95, 130}, {"p99", 0.99, 662}, {"p999", 0.999, 6636}}
}

// metricKey is a latency's key taken apart: "ttft_p99_send" is {ttft, 0.99, send}.
type metricKey struct {
	latency string
	q       float64
	variant string
}

// parseKey takes the key of a latency percentile apart; ok is false for every other key.
func parseKey(key string) (k metricKey, ok bool) {
	for _, q := range quantiles() {
		latency, variant, found := strings.Cut(key, "_"+q.name)
		if found && latency != "" && slices.Contains([]string{"", "_send", "_ok"}, variant) {
			return metricKey{latency, q.q, strings.TrimPrefix(variant, "_")}, true
		}
	}
	return metricKey{}, false
}

// clock is the latency with the instant from which it counts: "ttft", or "ttft_send" for one that counts from the write.
func (k metricKey) clock() string {
	if k.variant == "send" {
		return k.latency + "_send"
	}
	return k.latency
}

// point is a value that occurred weight times, among the arrivals of a block.
type point struct {
	value  float64
	weight int
	block  uint8
}

// distribution is one latency over the requests of a round: finite values, and the weight of the failed ones at +Inf.
type distribution struct {
	points []point
	total  int
	failed int
	// answers counts successes with a value, without those that have none by nature, unknown those whose value cannot be
	// told; why says what is missing.
	answers, without, unknown int
	whyWithout, whyUnknown    string
	// floor is what all failed requests are known to exceed, in the unit of the values; 0 when one of them gives no such
	// promise.
	floor float64
	// block is the block of the request whose values are being added; failedIn is failed by block.
	block    uint8
	failedIn [blockCount]int
}

func (d *distribution) add(value float64, weight int) {
	d.points = append(d.points, point{value, weight, d.block})
	d.total += weight
}

// fail adds failures of the request at hand, at +Inf.
func (d *distribution) fail(weight int) {
	d.failed += weight
	d.failedIn[d.block] += weight
}

// seal sorts the points; percentiles may be asked for from then on.
func (d *distribution) seal() {
	sortPoints(d.points)
	d.sum()
}

func sortPoints(points []point) {
	slices.SortFunc(points, func(a, b point) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		default:
			return 0
		}
	})
}

// sum turns the weights of sorted points into running sums.
func (d *distribution) sum() {
	d.total = 0
	for i := range d.points {
		d.total += d.points[i].weight
		d.points[i].weight = d.total
	}
}

// maxUnknown is the share of answers without a count (or gap) above which a metric of the round says nothing: the answers
// that do have one would no longer stand for the rest.
const maxUnknown = 0.05

// missing says why the distribution has no percentile whatever its size; empty when it has.
func (d *distribution) missing() string {
	successes := d.answers + d.without + d.unknown
	switch {
	case float64(d.unknown) > maxUnknown*float64(d.answers+d.unknown):
		if d.answers == 0 {
			return d.whyUnknown
		}
		return fmt.Sprintf("%s in %d of %d answers", d.whyUnknown, d.unknown, successes)
	case d.answers == 0 && d.without > 0:
		return d.whyWithout
	case d.total+d.failed == 0:
		return "no request was due in the interval"
	default:
		return ""
	}
}

// at is percentile q over everything, failures at +Inf. A percentile among the failures is failed however few the samples
// are: withholding it would turn failures into good news.
func (d *distribution) at(q quantile) Metric {
	m := Metric{Unit: "ms", N: d.total + d.failed}
	if why := d.missing(); why != "" {
		m.Value = NA(why)
		return m
	}
	k := rank(q.q, m.N)
	switch {
	case k > d.total:
		m.Value = FailedBeyond(d.floor)
	case m.N < q.min:
		m.Value = tooFew(m.N)
	default:
		m.Value = Of(d.nth(k))
	}
	return m
}

// ofSuccesses is percentile q over the successes only: information, never gated.
func (d *distribution) ofSuccesses(q quantile) Metric {
	m := Metric{Unit: "ms", N: d.total}
	switch why := d.missing(); {
	case why != "":
		m.Value = NA(why)
	case d.total == 0:
		m.Value = NA("no request succeeded")
	case d.total < q.min:
		m.Value = tooFew(d.total)
	default:
		m.Value = Of(d.nth(rank(q.q, d.total)))
	}
	return m
}

// nth is the k-th smallest value, k from 1 to total.
func (d *distribution) nth(k int) float64 {
	return d.points[sort.Search(len(d.points), func(i int) bool { return d.points[i].weight >= k })].value
}

// over is the weight of finite values greater than limit.
func (d *distribution) over(limit float64) int {
	i := sort.Search(len(d.points), func(i int) bool { return d.points[i].value > limit })
	if i == 0 {
		return d.total
	}
	return d.total - d.points[i-1].weight
}

// tooFew is the value of a percentile below its smallest count; reports print it as "n/a (n=40)".
func tooFew(n int) Value { return NA(fmt.Sprintf("n=%d", n)) }
