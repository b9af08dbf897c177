package stat

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// ClopperPearson returns the exact one-sided bounds, each at level a, of a share of which k in n were seen: lo is 0 for
// none, up is 1 for all. Both are real numbers, since counts may have been divided by their overdispersion. Without
// observations the bounds are 0 and 1.
//
// Source: Clopper and Pearson, The use of confidence or fiducial limits, Biometrika 26 (1934).
func ClopperPearson(k, n, a float64) (lo, up float64) {
	up = 1
	if n <= 0 {
		return lo, up
	}
	if k > 0 {
		lo = distuv.Beta{Alpha: k, Beta: max(n-k, 0) + 1}.Quantile(a)
	}
	if k < n {
		up = distuv.Beta{Alpha: k + 1, Beta: n - k}.Quantile(1 - a)
	}
	return lo, up
}

// Overdispersion is the factor, at least 1, by which counts x[i] of n[i] vary more between rounds than independent
// requests would: Pearson's chi-squared over its degrees of freedom. It is 1 for one round, and when none or all were
// counted. Failures come in bursts; dividing counts by it keeps the bounds of a share honest.
func Overdispersion(x, n []int) float64 {
	var sumX, sumN float64
	for i := range x {
		sumX += float64(x[i])
		sumN += float64(n[i])
	}
	p := sumX / sumN
	if len(x) < 2 || sumN == 0 || p <= 0 || p >= 1 {
		return 1
	}
	chi := 0.0
	for i := range x {
		if expected := float64(n[i]) * p; expected > 0 {
			chi += (float64(x[i]) - expected) * (float64(x[i]) - expected) / (expected * (1 - p))
		}
	}
	return max(1, chi/float64(len(x)-1))
}

// FewerFailures is the chance of at least head failures of headN requests if both arms failed alike, given the sum of
// both: a small value says that base fails less. It is 1 when head has none, or a count of requests is 0.
//
// Source: Przyborowski and Wilenski, Homogeneity of results in testing samples from Poisson series, Biometrika 31 (1940),
// with shares for rates.
func FewerFailures(base, baseN, head, headN int) float64 {
	if head <= 0 || baseN <= 0 || headN <= 0 {
		return 1
	}
	share := float64(headN) / (float64(baseN) + float64(headN))
	p := 1 - distuv.Binomial{N: float64(base + head), P: share}.CDF(float64(head-1))
	return min(max(p, 0), 1)
}

// RequestsNeeded is how many requests without a single one beyond the limit would prove, at level a, that the share beyond
// it is at most limit: the smallest n with (1-limit)^n <= a. It is 0 for a limit outside (0, 1).
func RequestsNeeded(limit, a float64) int {
	if limit <= 0 || limit >= 1 {
		return 0
	}
	return int(math.Ceil(math.Log(a) / math.Log1p(-limit)))
}
