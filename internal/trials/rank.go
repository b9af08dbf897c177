package trials

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Pooled is the Mann-Whitney test of all requests of one arm against all of the other, as if they were independent.
type Pooled struct {
	// NBase and NHead count requests.
	NBase int `json:"n_base"`
	NHead int `json:"n_head"`
	// P is two-sided, by the normal approximation with ties.
	P float64 `json:"p"`
	// Shift is the Hodges-Lehmann estimate of head - base, ms; Low and High its confidence interval at 98 %, ms.
	Shift float64 `json:"shift_ms"`
	Low   float64 `json:"low_ms"`
	High  float64 `json:"high_ms"`
}

// pooledLevel is the confidence of Pooled.Low and High, that of Kayenta's judge.
const pooledLevel = 0.98

// pool reads the samples of the valid rounds. Failed requests have no latency and are left out, as a peer would.
func pool(f *record.Folder, rounds []Round) (map[string]Pooled, error) {
	values := map[string]map[record.Arm][]float64{"ttft": {}, "e2e": {}, "tpot": {}}
	for _, rd := range rounds {
		if rd.Void != "" {
			continue
		}
		for s, err := range f.Samples(rd.Slot) {
			if err != nil {
				return nil, err
			}
			if s.Phase != record.PhaseMeasure || s.Class != record.OK || s.FirstOut == 0 {
				continue
			}
			add := func(stem string, ns record.Instant) {
				values[stem][rd.Arm] = append(values[stem][rd.Arm], float64(ns)/1e6)
			}
			add("ttft", s.FirstOut-s.Sched)
			add("e2e", s.End-s.Sched)
			if s.NOut != nil && *s.NOut > 1 {
				add("tpot", (s.Last-s.FirstOut)/record.Instant(*s.NOut-1))
			}
		}
	}
	out := map[string]Pooled{}
	for stem, by := range values {
		if base, head := by[record.Base], by[record.Head]; len(base) > 1 && len(head) > 1 {
			out[stem] = Compare(base, head)
		}
	}
	return out, nil
}

// Compare does the test by the normal approximation; both sides must have two values or more.
//
// Source: Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd ed., sections 4.1 to 4.3.
func Compare(base, head []float64) Pooled {
	base, head = slices.Sorted(slices.Values(base)), slices.Sorted(slices.Values(head))
	m, n := float64(len(base)), float64(len(head))
	u := float64(below(base, head, 0)) + float64(upTo(base, head, 0)-below(base, head, 0))/2
	// u counts pairs in which head - base is below 0: few when head is slower.
	sd := math.Sqrt(m * n / 12 * (m + n + 1 - ties(base, head)/((m+n)*(m+n-1))))
	p := Pooled{NBase: len(base), NHead: len(head), P: 1}
	if sd > 0 {
		p.P = min(1, 2*distuv.UnitNormal.CDF(-math.Abs(u-m*n/2)/sd))
	}
	reach := distuv.UnitNormal.Quantile(1-(1-pooledLevel)/2) * math.Sqrt(m*n*(m+n+1)/12)
	p.Shift = figures((difference(base, head, math.Ceil(m*n/2))+difference(base, head, math.Floor(m*n/2)+1))/2, 6)
	p.Low, p.High = figures(difference(base, head, m*n/2-reach), 6), figures(difference(base, head, m*n/2+reach), 6)
	p.P = figures(p.P, 3)
	return p
}

// ties is the correction of the variance: the sum of t^3 - t over groups of equal values.
func ties(a, b []float64) float64 {
	all := slices.Sorted(slices.Values(slices.Concat(a, b)))
	sum, run := 0.0, 1.0
	for i := 1; i <= len(all); i++ {
		if i < len(all) && all[i] == all[i-1] {
			run++
			continue
		}
		sum += run*run*run - run
		run = 1
	}
	return sum
}

// below counts the pairs with head - base < x, upTo those with head - base <= x; both slices are sorted.
func below(base, head []float64, x float64) int {
	return countPairs(base, head, func(h, b float64) bool { return h-b < x })
}

func upTo(base, head []float64, x float64) int {
	return countPairs(base, head, func(h, b float64) bool { return h-b <= x })
}

func countPairs(base, head []float64, in func(h, b float64) bool) int {
	count, j := 0, 0
	for _, b := range base { // as b grows, more of head lies within
		for j < len(head) && in(head[j], b) {
			j++
		}
		count += j
	}
	return count
}

// difference is the pairwise difference of that rank, found by halving the range until it is a nanosecond wide.
func difference(base, head []float64, rank float64) float64 {
	low, high := head[0]-base[len(base)-1], head[len(head)-1]-base[0]
	for range 80 {
		middle := (low + high) / 2
		if float64(upTo(base, head, middle)) >= rank {
			high = middle
		} else {
			low = middle
		}
		if high-low < 1e-6 {
			break
		}
	}
	return (low + high) / 2
}
