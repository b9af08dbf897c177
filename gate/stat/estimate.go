package stat

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Floor is the smallest standard deviation of pair differences that is believed: quantised, equal values must not give an
// interval without width. It is a log ratio, about 0.3 %.
const Floor = 0.003

// Pairs returns the differences head - base, pair by pair, of values that are larger when worse. The longer slice is cut.
// A difference of infinities is NaN; callers decide such pairs by rules of their own.
func Pairs(base, head []float64) []float64 {
	n := min(len(base), len(head))
	d := make([]float64, n)
	for i := range d {
		d[i] = head[i] - base[i]
	}
	return d
}

// Estimate is what n pair differences say of the true one.
type Estimate struct {
	// N counts the pairs.
	N int
	// Mean is their average, 0 without pairs.
	Mean float64
	// S is their standard deviation (n-1), never under [Floor]; it is +Inf below two pairs, which have no spread.
	S float64
	// Floored is true when the measured deviation lay under the floor.
	Floored bool
	// Prior counts the degrees of freedom that a calibration adds to the N-1 of the pairs; 0 without one. See [Moderate].
	Prior int
}

// EstimateOf summarises finite differences.
func EstimateOf(d []float64) Estimate {
	e := Estimate{N: len(d), S: math.Inf(1)}
	if e.N > 0 {
		e.Mean = stat.Mean(d, nil)
	}
	if e.N > 1 {
		_, sd := stat.MeanStdDev(d, nil)
		e.S, e.Floored = max(sd, Floor), sd < Floor
	}
	return e
}

// SE is the standard error of the mean; +Inf below two pairs.
func (e Estimate) SE() float64 {
	if e.N < 2 {
		return math.Inf(1)
	}
	return e.S / math.Sqrt(float64(e.N))
}

// Bounds is a pair of one-sided bounds around an estimate, each at its own level: between them the truth lies with
// confidence 1-2a.
type Bounds struct {
	// L and U are the lower and the upper bound, H the distance of each from the mean.
	L, U, H float64
}

// Bounds returns the one-sided bounds at level a by Student's t with n-1 degrees of freedom and those of the prior; infinite
// below two pairs.
func (e Estimate) Bounds(a float64) Bounds {
	if e.N < 2 {
		return Bounds{L: math.Inf(-1), U: math.Inf(1), H: math.Inf(1)}
	}
	h := quantileT(1-a, e.df(e.N)) * e.SE()
	return Bounds{L: e.Mean - h, U: e.Mean + h, H: h}
}

// Excess is the chance of a mean at least so far over margin if the true difference were margin itself, by Student's t: the
// smaller, the surer that head is worse by more than it. 1 below two pairs.
func (e Estimate) Excess(margin float64) float64 {
	if e.N < 2 {
		return 1
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(e.df(e.N))}.CDF((margin - e.Mean) / e.SE())
}

// quantiles keeps what [quantileT] has worked out: a session asks for the same few again and again, and each is the end
// of a search.
var quantiles sync.Map

// quantileT is Student's quantile; df is at least 1.
func quantileT(p float64, df int) float64 {
	type question struct {
		p  float64
		df int
	}
	q := question{p, df}
	if x, known := quantiles.Load(q); known {
		return x.(float64) //nolint:forcetypeassert // only floats are stored, below
	}
	x := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(df)}.Quantile(p)
	quantiles.Store(q, x)
	return x
}

// Median is the middle value, or the mean of the two middle ones. The argument is left as it is. Infinite values sort as
// they should; between -Inf and +Inf, or without values, the median is NaN.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(xs))
	lo, hi := sorted[(len(sorted)-1)/2], sorted[len(sorted)/2]
	if lo == hi {
		return lo
	}
	return lo + (hi-lo)/2
}

// HodgesLehmann is the median of the averages of all pairs (d_j + d_k)/2 with j <= k: a centre that one wild round cannot
// move. It is for information; NaN without differences.
//
// Source: Hodges and Lehmann, Estimates of location based on rank tests, Ann. Math. Statist. 34 (1963).
func HodgesLehmann(d []float64) float64 {
	var averages []float64
	for j := range d {
		for k := j; k < len(d); k++ {
			averages = append(averages, (d[j]+d[k])/2)
		}
	}
	return Median(averages)
}
