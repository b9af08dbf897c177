package export

import (
	"math"
	"slices"
	"sort"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// values are numbers that each count N times.
type values []record.Weighted

// add appends a value that is present; one that is missing or infinite has no place in these formats.
func (v *values) add(x record.Value) {
	if ms, ok := x.Finite(); ok {
		*v = append(*v, record.Weighted{MS: ms, N: 1})
	}
}

// list appends plain numbers.
func (v *values) list(xs []float64) {
	for _, x := range xs {
		*v = append(*v, record.Weighted{MS: x, N: 1})
	}
}

// summary are the statistics of values, scaled; sorted is their order.
type summary struct {
	n         int
	mean, std float64
	sorted    values
	// upTo holds, per sorted value, how many there are up to it.
	upTo []int
}

// summarise takes the mean, the population's standard deviation and the order of values times scale; nil without a value.
func (v values) summarise(scale float64) *summary {
	s := &summary{sorted: slices.Clone(v)}
	for i := range s.sorted {
		s.sorted[i].MS *= scale
		s.n += s.sorted[i].N
	}
	if s.n == 0 {
		return nil
	}
	slices.SortFunc(s.sorted, func(a, b record.Weighted) int {
		switch {
		case a.MS < b.MS:
			return -1
		case a.MS > b.MS:
			return 1
		default:
			return 0
		}
	})
	total := 0
	for _, x := range s.sorted {
		total += x.N
		s.upTo = append(s.upTo, total)
		s.mean += x.MS * float64(x.N) / float64(s.n)
	}
	for _, x := range s.sorted {
		s.std += (x.MS - s.mean) * (x.MS - s.mean) * float64(x.N) / float64(s.n)
	}
	s.std = math.Sqrt(s.std)
	return s
}

// nth is the k-th smallest value, k from 1.
func (s *summary) nth(k int) float64 {
	return s.sorted[sort.SearchInts(s.upTo, min(max(k, 1), s.n))].MS
}

// nearest is percentile q (a fraction) by nearest rank, as the run itself has it.
func (s *summary) nearest(q float64) float64 { return s.nth(int(math.Ceil(q*float64(s.n) - 1e-9))) }

// linear is percentile q (a fraction), interpolated between the two nearest ranks: what numpy computes by default.
func (s *summary) linear(q float64) float64 {
	at := q * float64(s.n-1)
	low := math.Floor(at)
	a, b := s.nth(int(low)+1), s.nth(int(low)+2)
	return a + (b-a)*(at-low)
}

// enough reports whether n samples are enough to print percentile q, on either side of the middle.
func enough(q float64, n int) bool { return n >= record.MinSamples(max(q, 1-q)) }
