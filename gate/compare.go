package gate

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// Notes of a comparison.
const (
	noteImproved = "improved"
	noteSlower   = "slower, within tolerance"
)

// terms are what a session's metrics are compared under.
type terms struct {
	level  float64
	last   int
	margin Margin
	// leaked is the part of the machine's drift that the order lets into the difference of the arms, a log ratio.
	leaked float64
}

// compared is a comparison with what only the judge needs.
type compared struct {
	Comparison
	metric   Metric
	futility stat.Futility
	// client says how the load generator could explain a change; empty when it could not.
	client string
	// open is true when another pair may settle it whatever the numbers say now.
	open bool
}

// compareAll compares every gated metric over some pairs: those that fail first, then the undecided, then by the size of
// the change against its tolerance.
func (e *evidence) compareAll(pairs []pair, t terms) []compared {
	var list []compared
	for _, key := range slices.Sorted(maps.Keys(e.policy.Tolerance)) {
		m, known := MetricOf(key)
		if !known || key == ErrorRate {
			continue
		}
		c := compare(m, e.policy.Tolerance[key], pairs, t)
		e.doubt(&c)
		c.doubtClient(pairs)
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b compared) int {
		return cmp.Or(cmp.Compare(rank(a.Verdict), rank(b.Verdict)), -cmp.Compare(a.strain(), b.strain()))
	})
	return list
}

func rank(v Verdict) int { return slices.Index([]Verdict{Fail, Invalid, Inconclusive, Pass}, v) }

// strain is the size of the change against the tolerance; infinite where there is no number.
func (c compared) strain() float64 {
	r, ok := c.R.Finite()
	if !ok {
		return math.Inf(1)
	}
	return math.Abs(r) / c.T
}

// compare judges one metric. Lower and upper bound are one-sided: pass needs proof of being within tolerance, fail proof
// of being clearly worse; the rest is undecided.
func compare(m Metric, tol Tolerance, pairs []pair, t terms) compared {
	base, head := m.series(rounds(pairs, record.Base)), m.series(rounds(pairs, record.Head))
	c := compared{metric: m, Comparison: Comparison{
		Key: m.Key, Unit: m.Unit, HigherIsBetter: m.HigherIsBetter, N: len(pairs), PairD: []float64{},
		BaseMedian: base.median(m), HeadMedian: head.median(m),
	}}
	c.T, c.Tolerance = m.tolerate(tol, c.BaseMedian)
	for i := range pairs {
		if head.ys[i] > base.ys[i] {
			c.Worse++
		}
		if d := head.ys[i] - base.ys[i]; !math.IsNaN(d) && !math.IsInf(d, 0) {
			c.PairD = append(c.PairD, d)
		}
	}
	if base.finite() && head.finite() {
		c.measure(base, head, t)
		return c
	}
	c.Verdict, c.Cause, c.open = unmeasurable(base, head)
	c.withoutNumbers()
	return c
}

// unmeasurable rules on a metric that has no number in some round: among failed requests a percentile does not exist.
func unmeasurable(base, head series) (v Verdict, cause string, open bool) {
	switch {
	case base.missing == len(base.ys):
		return Invalid, MetricAbsent, false
	case base.finite() && head.infinite >= 2:
		return Fail, Unbounded, false
	case base.infinite > 0:
		return Inconclusive, BaseUnbounded, false
	case base.missing > 0 || head.missing > 0:
		return Inconclusive, MetricMissing, false
	default:
		return Inconclusive, Unbounded, true
	}
}

func (c *compared) withoutNumbers() {
	reason := map[string]string{
		MetricAbsent: "no base round has it", BaseUnbounded: "base fails so many requests that it does not exist",
		Unbounded: "head fails so many requests that it does not exist", MetricMissing: "missing in some round",
	}[c.Cause]
	na := record.NA(reason)
	c.R, c.D, c.S, c.L, c.U, c.Resolution, c.MDE80, c.HL = na, na, na, na, na, na, na, na
}

// measure fills in the numbers of a metric that every round has, and decides.
func (c *compared) measure(base, head series, t terms) {
	e := stat.EstimateOf(c.PairD)
	b := e.Bounds(t.level)
	r := stat.Median(head.ys) - stat.Median(base.ys)
	eps := c.T
	if t.margin == MarginHalf {
		eps = c.T / 2
	}
	c.R, c.D, c.L, c.U = record.Of(r), record.Of(e.Mean), bound(b.L), bound(b.U)
	c.S, c.Resolution, c.MDE80 = bound(e.S), bound(math.Expm1(b.H)), bound(stat.MDE(e.S, e.N, t.level, 0.8))
	c.HL = record.NA("as the mean")
	if hl := stat.HodgesLehmann(c.PairD); math.Abs(hl-e.Mean) > e.SE() {
		c.HL = record.Of(hl)
	}
	switch {
	case r >= c.T && e.Mean >= c.T && b.L > eps:
		c.Verdict, c.Cause = Fail, MetricWorse
	case b.U <= c.T && r < c.T:
		c.Verdict = Pass
	default:
		c.Verdict = Inconclusive
		c.explain(e, b, eps, t)
	}
	switch {
	case b.U < 0:
		c.Note = noteImproved
	case b.L > 0 && b.U <= c.T:
		c.Note = noteSlower
	}
	c.futility = stat.Futile(e, t.level, c.T, eps, t.last)
	if t.leaked > c.T/5 {
		c.Verdict, c.Cause, c.Note = Inconclusive, DriftLeaks, ""
	}
	c.Futile = c.Verdict == Inconclusive && c.futility.NoPass && c.futility.NoFail && c.N < t.last
}

// explain names why a metric is undecided, and how many pairs would settle it.
func (c *compared) explain(e stat.Estimate, b stat.Bounds, eps float64, t terms) {
	gap := c.T
	switch {
	case stat.HalfWidth(e.S, t.last, t.level) >= c.T:
		c.Cause = ToleranceTooFine
	case b.L > 0 && b.U > c.T && b.H < c.T/2:
		c.Cause = NearTolerance
		gap = math.Abs(c.T - e.Mean)
		if e.Mean >= c.T {
			gap = max(gap, math.Abs(e.Mean-eps))
		}
	default:
		c.Cause = TooNoisy
	}
	c.PairsNeeded = stat.PairsNeeded(e.S, t.level, gap)
}

// bound keeps an infinite bound out of the record: it is no failure, only ignorance.
func bound(x float64) record.Value {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return record.NA("too few pairs")
	}
	return record.Of(x)
}

// doubt makes a metric undecided whose numbers are not what they seem: too few requests behind a named percentile, streams
// that arrive bunched, tokens counted in two ways.
func (e *evidence) doubt(c *compared) {
	cause := ""
	switch bunchedBase, bunchedHead := e.bunched(record.Base), e.bunched(record.Head); {
	case c.Verdict == Invalid:
	case e.few[c.Key] != "":
		cause = TooFewRequests
	case c.metric.PerGap && (bunchedBase || bunchedHead), bunchable(c.metric) && bunchedBase && bunchedHead:
		cause = BunchedStream
	case c.metric.stem() == "itl" && e.differentCut() != "":
		cause = CutDiffers
	case c.metric.Tokens && e.mixedTokens():
		cause = TokenSourceMixed
	}
	if cause != "" {
		c.Verdict, c.Cause, c.Note, c.PairsNeeded, c.Futile, c.open = Inconclusive, cause, "", 0, false, false
		c.futility = stat.Futility{NoPass: true, NoFail: true}
	}
}

// mixedTokens reports whether tokens were counted in more than one way, or by estimate, in the valid rounds.
func (e *evidence) mixedTokens() bool {
	seen := map[record.TokenSource]bool{}
	for _, p := range e.valid {
		for _, r := range []*record.Round{p.base, p.head} {
			if r.Tokens != "" {
				seen[r.Tokens] = true
			}
		}
	}
	return len(seen) > 1 || seen[record.Estimated]
}
