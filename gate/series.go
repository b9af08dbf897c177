package gate

import (
	"math"

	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// series is one metric over the judged rounds of one arm, as logarithms that are larger when worse; NaN where missing.
type series struct {
	ys                []float64
	missing, infinite int
	// reason is why the first missing value is missing.
	reason string
	// floor is what every infinite value is known to exceed, in the metric's unit; 0 when one of them promises nothing.
	floor float64
}

func (m Metric) series(list []*record.Round) series {
	s := series{ys: make([]float64, len(list))}
	for i, r := range list {
		y, reason, ok := m.badness(r)
		switch {
		case !ok:
			s.missing++
			s.reason = orElse(s.reason, reason)
			y = math.NaN()
		case math.IsInf(y, 1):
			floor, _ := r.Metrics[m.Key].AtLeast()
			if s.infinite == 0 || floor < s.floor {
				s.floor = floor
			}
			s.infinite++
		}
		s.ys[i] = y
	}
	return s
}

// finite reports whether every round has a finite value.
func (s series) finite() bool { return s.missing == 0 && s.infinite == 0 }

// present lists the values that are there, infinite ones included.
func (s series) present() []float64 {
	var list []float64
	for _, y := range s.ys {
		if !math.IsNaN(y) {
			list = append(list, y)
		}
	}
	return list
}

// median is the middle of the rounds in the metric's unit.
func (s series) median(m Metric) record.Value {
	ys := s.present()
	if len(ys) == 0 {
		return record.NA(s.reason)
	}
	if v := m.natural(stat.Median(ys)); !v.IsFailed() {
		return v
	}
	return record.FailedBeyond(s.floor)
}

// tolerate turns a tolerance into a log ratio and a fraction. A change must exceed the relative and the absolute part, so
// the larger of both counts; the absolute one is measured by the base rounds' median.
func (m Metric) tolerate(tol Tolerance, base record.Value) (ratio, fraction float64) {
	fraction = tol.Relative
	if x, ok := base.Finite(); ok && x > 0 && tol.Absolute > 0 {
		fraction = max(fraction, tol.Absolute/x)
	}
	if !m.HigherIsBetter {
		fraction = min(fraction, 1e6)
		return math.Log1p(fraction), fraction
	}
	// A throughput cannot fall by more than all of it.
	fraction = min(fraction, 1-1e-9)
	return -math.Log1p(-fraction), fraction
}
