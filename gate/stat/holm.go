package stat

import (
	"cmp"
	"slices"
)

// Holm says of each chance p[i] whether it is small enough to be believed although so many were looked at, so that at level
// a all believed ones together are right: the smallest must lie under a/m, the next under a/(m-1), and so on until one does
// not.
//
// Source: Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979).
func Holm(p []float64, a float64) []bool {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	believed := make([]bool, len(p))
	for step, i := range order {
		if !(p[i] < a/float64(len(p)-step)) { // so that NaN stops it too
			break
		}
		believed[i] = true
	}
	return believed
}
