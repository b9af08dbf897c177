package stat

import "math"

// Drift is how far the machine moved under both arms from the first slot to the last, as a log ratio. It fits
// y = mu + delta·[head] + beta·slot by least squares, where y is larger when worse, and returns beta·(last - first); the
// arms' difference is left out of it by construction. It is false when no slope can be told: fewer than four rounds, an
// arm with fewer than two, or values that are not finite.
func Drift(slots []int, head []bool, y []float64) (float64, bool) {
	var n, meanX, meanY [2]float64
	for i, slot := range slots {
		if math.IsInf(y[i], 0) || math.IsNaN(y[i]) {
			return 0, false
		}
		arm := index(head[i])
		n[arm]++
		meanX[arm] += float64(slot)
		meanY[arm] += y[i]
	}
	if n[0] < 2 || n[1] < 2 {
		return 0, false
	}
	for arm := range n {
		meanX[arm] /= n[arm]
		meanY[arm] /= n[arm]
	}
	var sxx, sxy float64
	for i, slot := range slots {
		arm := index(head[i])
		dx := float64(slot) - meanX[arm]
		sxx += dx * dx
		sxy += dx * (y[i] - meanY[arm])
	}
	if sxx == 0 {
		return 0, false
	}
	return sxy / sxx * spanOf(slots), true
}

// SlotEffect is how much worse the second round of a pair is than the first, a log ratio: half the difference between the
// pairs that began with base and those that began with head. It is false unless both kinds are there.
func SlotEffect(d []float64, baseFirst []bool) (float64, bool) {
	var sum, n [2]float64
	for i, x := range d {
		kind := index(!baseFirst[i])
		sum[kind] += x
		n[kind]++
	}
	if n[0] == 0 || n[1] == 0 {
		return 0, false
	}
	return (sum[0]/n[0] - sum[1]/n[1]) / 2, true
}
