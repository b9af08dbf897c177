package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/tailgate-ci/tailgate/gate"
)

// changeText is a comparison in figures that do not contradict its verdict.
type changeText struct {
	// change is "+26.0 %"; low and high are "+22.9" and "+27.4", empty when there are no bounds.
	change, low, high string
	// tolerance is "15 %".
	tolerance string
}

// shownChange prints the change of a metric, its bounds and its tolerance. The signs are the metric's own: a throughput
// that fell is negative. Digits are added until every figure lies on its true side of the tolerance.
func shownChange(c gate.Comparison) changeText {
	worse := 1.0
	if c.HigherIsBetter {
		worse = -1
	}
	percent := func(y float64) float64 { return 100 * math.Expm1(worse*y) }
	tolerance := c.Tolerance * 100
	limit := worse * tolerance
	digits := trimmed(tolerance, 2)

	r, hasR := c.R.Finite()
	l, hasL := c.L.Finite()
	u, hasU := c.U.Finite()
	bounds := hasL && hasU
	var figures []float64
	if hasR {
		figures = append(figures, percent(r))
	}
	if bounds {
		figures = append(figures, percent(l), percent(u))
	}
	limitD, valueD := beside(limit, digits, 1, figures...)
	out := changeText{tolerance: fixed(tolerance, max(limitD, digits)) + " %"}
	switch {
	case hasR:
		out.change = signed(figures[0], valueD[0]) + " %"
		figures, valueD = figures[1:], valueD[1:]
	case c.R.IsFailed():
		out.change = "unbounded"
	default:
		out.change = missing(c.R.Reason())
	}
	if bounds {
		out.low, out.high = signed(figures[0], valueD[0]), signed(figures[1], valueD[1])
		if c.HigherIsBetter {
			out.low, out.high = out.high, out.low
		}
	}
	return out
}

// rank orders rows: failing, open, the rest.
func rank(v gate.Verdict) int {
	switch v {
	case gate.Fail:
		return 0
	case gate.Inconclusive:
		return 1
	case gate.Pass, gate.Invalid:
		return 2
	default:
		return 2
	}
}

// pressure is |change| / tolerance, +Inf without a finite change.
func pressure(c gate.Comparison) float64 {
	r, ok := c.R.Finite()
	if !ok || c.T <= 0 {
		return math.Inf(1)
	}
	return math.Abs(r) / c.T
}

// sortedMetrics puts FAIL first, then inconclusive, then the rest, each by |change| / tolerance.
func sortedMetrics(metrics []gate.Comparison) []gate.Comparison {
	sorted := slices.Clone(metrics)
	slices.SortStableFunc(sorted, func(a, b gate.Comparison) int {
		if d := cmp.Compare(rank(a.Verdict), rank(b.Verdict)); d != 0 {
			return d
		}
		return cmp.Compare(pressure(b), pressure(a))
	})
	return sorted
}

// causeText says why a metric is undecided.
func causeText(c gate.Comparison) string {
	text, ok := map[string]string{
		"too_noisy": "too noisy", "near_tolerance": "too near the tolerance", "futile": "no further pair could decide it",
		"tolerance_below_noise": "tolerance below the noise", gate.Multiple: "not clear enough among so many metrics", "base_unbounded": "base itself has failed requests there",
		"unbounded": "more requests fail than the percentile allows", "metric_missing": "missing in some round",
		"bunched_stream": "tokens came in bunches", "token_source": "token counts differ in source", "coalescing_differs": "the arms cut their answers differently", "too_few_requests": "too few requests a round",
		"drift_leaks": "the machine's drift could explain it",
	}[c.Cause]
	switch {
	case ok:
		return text
	case c.Cause == "":
		return "not decided"
	default:
		return inert(c.Cause, 40)
	}
}

// pairChange prints the change within one pair in percent; a pair with a failed percentile has none.
func pairChange(d float64, higherIsBetter bool) string {
	switch {
	case math.IsNaN(d):
		return "n/a"
	case math.IsInf(d, 0):
		return "failed"
	case higherIsBetter:
		return signed(100*math.Expm1(-d), 1)
	default:
		return signed(100*math.Expm1(d), 1)
	}
}
