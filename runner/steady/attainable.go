package steady

import (
	"math"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// mostJoined is how many windows are joined into one at most.
	mostJoined = 6
	// firstChance is how often a service without any trend should meet the rule in the first windows that could.
	firstChance = 0.9
)

// attainable is the largest standard deviation of a signal, as a share of its mean, with which a service that has no trend
// meets the rule at its first chance nine times in ten: each of n windows lies within the band around their common mean when
// z·sd·sqrt(1-1/n) does, z the two-sided normal quantile of the n-th root of that chance.
func attainable(band float64, n int) float64 {
	z := math.Sqrt2 * math.Erfinv(math.Pow(firstChance, 1/float64(n)))
	return band / (z * math.Sqrt(1-1/float64(n)))
}

// join settles, once the rule has had its chance, how many windows it takes to make one that is quiet enough for the band: the
// band itself is never widened. Where no number does that fits into the cap, the rule is unattainable here, and says so. It
// waits while a signal is missing.
func (d *Detector) join() {
	g, okG := noise(d.last(d.rule.TrendWindows, delivered))
	i, okI := noise(d.last(d.rule.TrendWindows, latency))
	if !okG || !okI {
		return
	}
	d.chosen = true
	v, quiet := max(g, i), attainable(d.rule.Band, d.rule.Windows)
	d.report.Noise = record.Of(v)
	if v <= quiet {
		return
	}
	for k := 2; k <= mostJoined && float64(k*d.rule.TrendWindows)*d.rule.Window.Seconds() <= d.rule.Cap.Seconds(); k++ {
		if v/math.Sqrt(float64(k)) <= quiet {
			d.report.Joined = k
			d.flatAt = 0
			return
		}
	}
	d.report.Unattainable = true
}

// noise is the standard deviation of values around their least-squares line, as a share of their mean; false without a
// positive mean or below three values.
func noise(xs []float64) (float64, bool) {
	if len(xs) < 3 {
		return 0, false
	}
	m, mid := mean(xs), float64(len(xs)-1)/2
	var sxy, sxx, rest float64
	for i, x := range xs {
		sxx += (float64(i) - mid) * (float64(i) - mid)
		sxy += (float64(i) - mid) * (x - m)
	}
	for i, x := range xs {
		r := x - m - sxy/sxx*(float64(i)-mid)
		rest += r * r
	}
	return math.Sqrt(rest/float64(len(xs)-2)) / m, m > 0
}
