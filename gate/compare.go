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

// LongerUseless is the reason why no length of rounds is given: what rounds differ by is not the sample of their requests.
const LongerUseless = "longer rounds do not help"

// longest is how many times as long rounds are ever advised to be.
const longest = 4

// terms are what a session's metrics are compared under.
type terms struct {
	level  float64
	last   int
	margin Margin
	// priors are the calibrated deviations of pair differences by metric, log ratios; nil without a calibration.
	priors map[string]float64
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
	// excess is the chance of such a change if head were only as much worse as the failing margin says; 1 without numbers.
	excess float64
	// sampling is the part of a round's noise that longer rounds would lessen, a log ratio; sampled when it is known.
	sampling float64
	sampled  bool
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
	if e.policy.Multiplicity == MultiplicityHolm {
		correct(list, t)
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
	c := compared{metric: m, excess: 1, Comparison: Comparison{
		Key: m.Key, Unit: m.Unit, HigherIsBetter: m.HigherIsBetter, N: len(pairs), PairD: []float64{},
		BaseMedian: base.median(m), HeadMedian: head.median(m),
		Longer: record.NA(record.NotMeasured),
	}}
	c.sampling, c.sampled = m.sampling(append(rounds(pairs, record.Base), rounds(pairs, record.Head)...))
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

// rule decides on a metric that every round has: r is the log ratio of the arms' medians, tol the tolerance as a log ratio.
// Nothing else decides, whatever else is shown.
func (t terms) rule(e stat.Estimate, r, tol float64) (Verdict, stat.Futility) {
	b, eps := e.Bounds(t.level), t.eps(tol)
	v := Inconclusive
	switch {
	case t.leaked > tol/5:
	case r >= tol && e.Mean >= tol && b.L > eps:
		v = Fail
	case b.U <= tol && r < tol:
		v = Pass
	}
	return v, stat.Futile(e, t.level, tol, eps, t.last)
}

// eps is what the lower bound must exceed for a metric to fail, a log ratio.
func (t terms) eps(tol float64) float64 {
	if t.margin == MarginHalf {
		return tol / 2
	}
	return tol
}

// measure fills in the numbers of a metric that every round has, and decides.
func (c *compared) measure(base, head series, t terms) {
	e := c.moderate(stat.EstimateOf(c.PairD), t.priors)
	b := e.Bounds(t.level)
	r := stat.Median(head.ys) - stat.Median(base.ys)
	c.R, c.D, c.L, c.U = record.Of(r), record.Of(e.Mean), bound(b.L), bound(b.U)
	c.S, c.Resolution, c.MDE80 = bound(e.S), bound(math.Expm1(b.H)), bound(e.MDE(t.level, 0.8))
	c.HL = record.NA("as the mean")
	if hl := stat.HodgesLehmann(c.PairD); math.Abs(hl-e.Mean) > e.SE() {
		c.HL = record.Of(hl)
	}
	c.Verdict, c.futility = t.rule(e, r, c.T)
	switch {
	case c.Verdict == Fail:
		c.Cause = MetricWorse
	case t.leaked > c.T/5:
		c.Cause = DriftLeaks
	case c.Verdict == Inconclusive:
		c.explain(e, b, t)
	}
	switch {
	case t.leaked > c.T/5:
	case b.U < 0:
		c.Note = noteImproved
	case b.L > 0 && b.U <= c.T:
		c.Note = noteSlower
	}
	c.Futile = c.Verdict == Inconclusive && c.futility.NoPass && c.futility.NoFail && c.N < t.last
	c.excess = e.Excess(t.eps(c.T))
}

// explain names why a metric is undecided, and what would settle it.
func (c *compared) explain(e stat.Estimate, b stat.Bounds, t terms) {
	gap := c.T
	switch {
	case e.HalfWidth(t.last, t.level) >= c.T:
		c.Cause = ToleranceTooFine
	case b.L > 0 && b.U > c.T && b.H < c.T/2:
		c.Cause = NearTolerance
		gap = math.Abs(c.T - e.Mean)
		if e.Mean >= c.T {
			gap = max(gap, math.Abs(e.Mean-t.eps(c.T)))
		}
	default:
		c.Cause = TooNoisy
	}
	c.settle(e, gap, t)
}

// settle says how many pairs, or how much longer rounds, would tell a gap.
func (c *compared) settle(e stat.Estimate, gap float64, t terms) {
	c.PairsNeeded = e.PairsNeeded(t.level, gap)
	if !c.sampled || e.N < 2 {
		return
	}
	switch k := e.Longer(c.sampling, t.last, t.level, gap); {
	case k <= 1:
		c.Longer = record.NA("rounds are long enough")
	case k <= longest:
		c.Longer = record.Of(k)
	default:
		c.Longer = record.NA(LongerUseless)
	}
}

// sampling is the standard deviation of a round's value that comes from the sample of its requests, root mean square over
// some rounds, a log ratio; false when a round cannot tell.
func (m Metric) sampling(list []*record.Round) (float64, bool) {
	sum := 0.0
	for _, r := range list {
		blocks := r.Blocks[m.Key]
		ys := make([]float64, len(blocks))
		for i, x := range blocks {
			ys[i] = math.Log(x)
		}
		sd, ok := stat.BlockJackknife(ys)
		if !ok {
			return 0, false
		}
		sum += sd * sd
	}
	return math.Sqrt(sum / float64(len(list))), len(list) > 0
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
		c.undecide(cause)
		c.futility = stat.Futility{NoPass: true, NoFail: true}
	}
}

// undecide takes a verdict back for a reason that numbers cannot mend.
func (c *compared) undecide(cause string) {
	c.Verdict, c.Cause, c.Note, c.PairsNeeded, c.Futile, c.open, c.excess = Inconclusive, cause, "", 0, false, false, 1
	c.Longer = record.NA(record.NotMeasured)
}

// correct takes back failures that Holm's steps over all gated metrics do not carry: among many, one looks bad by chance.
func correct(list []compared, t terms) {
	p := make([]float64, len(list))
	for i, c := range list {
		p[i] = c.excess
	}
	believed := stat.Holm(p, t.level)
	for i := range list {
		c := &list[i]
		if c.Verdict != Fail || c.Cause != MetricWorse || believed[i] {
			continue
		}
		c.Verdict, c.Cause = Inconclusive, Multiple
		c.Futile = c.futility.NoPass && c.futility.NoFail && c.N < t.last
		strict := t
		strict.level /= float64(len(list))
		e := c.moderate(stat.EstimateOf(c.PairD), t.priors)
		c.settle(e, e.Mean-t.eps(c.T), strict)
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
