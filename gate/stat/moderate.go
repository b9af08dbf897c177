package stat

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// The weight of a calibration beside a session's own pairs: its deviation is taken a fifth larger than it was measured, and
// counts as so many degrees of freedom, though it may rest on more.
const (
	PriorMargin = 1.2
	PriorDF     = 8
)

// noisier is how many times larger than the prior's a variance may be before the prior is not believed.
const noisier = 4

// Moderate draws the variance of pair differences, known from df degrees of freedom, towards that of a prior s0 worth d0 of
// them: s² becomes (d0·s0² + df·s²)/(d0 + df). It is false, and s and df stay as they are, where s² is over four times s0²:
// such a session is noisier than whatever the prior was taken from; and where s, s0 or a df is no positive number.
//
// Source: the moderated variance of Smyth, Linear models and empirical Bayes methods, Stat. Appl. Genet. Mol. Biol. 3 (2004),
// with s0 and d0 given instead of estimated.
func Moderate(s float64, df int, s0 float64, d0 int) (float64, int, bool) {
	if !(s > 0 && s0 > 0) || math.IsInf(s, 1) || math.IsInf(s0, 1) || df < 1 || d0 < 1 || s*s > noisier*s0*s0 {
		return s, df, false
	}
	own, prior := float64(df), float64(d0)
	return math.Sqrt((prior*s0*s0 + own*s*s) / (prior + own)), df + d0, true
}

// Moderate is [Moderate] for an estimate: its deviation is drawn towards s0, and d0 degrees of freedom join its own in
// every bound and projection made from it. False leaves it as it was.
func (e Estimate) Moderate(s0 float64, d0 int) (Estimate, bool) {
	s, df, ok := Moderate(e.S, e.N-1, s0, d0)
	if ok {
		e.S, e.Prior = s, df-(e.N-1)
	}
	return e, ok
}

// df is the degrees of freedom that n pairs would have beside the prior.
func (e Estimate) df(n int) int { return n - 1 + e.Prior }

// HalfWidth is the distance between the mean and its bound at level a after n pairs with this deviation; +Inf below two.
func (e Estimate) HalfWidth(n int, a float64) float64 { return e.reach(n, a, 0.5) }

// MDE is the smallest slowdown, as a fraction, that these pairs show to be over zero at level a with that power. See the
// function of the same name.
func (e Estimate) MDE(a, power float64) float64 { return math.Expm1(e.reach(e.N, a, power)) }

// PairsNeeded is the smallest even number of pairs, at least 4, with which a gap (a log ratio) can be told from zero at
// level a with power 0.8, or [PairsOver].
func (e Estimate) PairsNeeded(a, gap float64) int {
	for n := 4; n < PairsOver; n += 2 {
		if e.reach(n, a, 0.8) <= gap {
			return n
		}
	}
	return PairsOver
}

// reach is (t(1-a) + t(power))·s/sqrt(n); t(0.5) is 0.
func (e Estimate) reach(n int, a, power float64) float64 {
	if n < 2 {
		return math.Inf(1)
	}
	return (quantileT(1-a, e.df(n)) + quantileT(power, e.df(n))) * e.S / math.Sqrt(float64(n))
}

// Supported is the smallest tolerance, a log ratio, that pairs of deviation s can hold in at most last pairs at level a: an
// unchanged build passes with probability 0.99.
func Supported(s float64, last int, a float64) float64 {
	return Estimate{N: last, S: s}.reach(last, a, 0.99)
}

// Lag1 is the correlation of each difference with the next, in time order: near 0 when rounds do not remember each other. It
// is false below three differences, and where all are equal.
func Lag1(d []float64) (float64, bool) {
	if len(d) < 3 {
		return 0, false
	}
	mean := stat.Mean(d, nil)
	var with, own float64
	for i, x := range d {
		own += (x - mean) * (x - mean)
		if i > 0 {
			with += (x - mean) * (d[i-1] - mean)
		}
	}
	if own == 0 || math.IsInf(own, 0) || math.IsNaN(own) {
		return 0, false
	}
	return with / own, true
}
