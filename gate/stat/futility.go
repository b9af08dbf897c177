package stat

import "math"

// Futility says which answers no further pair can bring any more.
type Futility struct {
	// NoPass is true when passing is out of reach, NoFail when failing is.
	NoPass, NoFail bool
}

// Futile projects an estimate to the last look at last pairs: how far the mean may still wander (two standard deviations
// of its change) and how narrow the interval will be. tol is the tolerance and eps the failing margin, both as log ratios;
// a is the level of a look. At the last look nothing is projected and both answers stand as they are now.
func Futile(e Estimate, a, tol, eps float64, last int) Futility {
	if e.N < 2 || last < 2 {
		return Futility{}
	}
	room := 2 * e.S * math.Sqrt(max(0, 1/float64(e.N)-1/float64(last)))
	h := e.HalfWidth(last, a)
	return Futility{
		NoPass: e.Mean-room+h > tol,
		NoFail: e.Mean+room < tol || e.Mean+room-h <= eps,
	}
}

// PairsOver is the answer of [Estimate.PairsNeeded] when a hundred pairs are not enough.
const PairsOver = 101

// Longer is how many times as long rounds would have to be for pairs of this deviation to settle a gap (a log ratio) at level a
// with power 0.8 in n pairs, where sampling is the deviation of one round's value that comes from the sample of its requests
// alone ([BlockJackknife]): only that part shrinks with length. It is 1 when the rounds are long enough as they are, and +Inf
// when no length is.
func (e Estimate) Longer(sampling float64, n int, a, gap float64) float64 {
	if n < 2 || gap <= 0 {
		return math.Inf(1)
	}
	enough := gap / Estimate{S: 1, Prior: e.Prior}.reach(n, a, 0.8)
	if e.S <= enough {
		return 1
	}
	sampled := 2 * sampling * sampling
	room := enough*enough - e.S*e.S + sampled
	if room <= 0 {
		return math.Inf(1)
	}
	return sampled / room
}
