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
	h := quantileT(1-a, last-1) * e.S / math.Sqrt(float64(last))
	return Futility{
		NoPass: e.Mean-room+h > tol,
		NoFail: e.Mean+room < tol || e.Mean+room-h <= eps,
	}
}

// HalfWidth is the distance between the mean and its bound at level a that n pairs of deviation s would have.
func HalfWidth(s float64, n int, a float64) float64 {
	if n < 2 {
		return math.Inf(1)
	}
	return quantileT(1-a, n-1) * s / math.Sqrt(float64(n))
}

// MDE is the smallest slowdown, as a fraction, that n pairs of deviation s show to be over zero at level a with that
// power: exp((t(1-a) + t(power))·s/sqrt(n)) - 1. +Inf below two pairs.
func MDE(s float64, n int, a, power float64) float64 {
	if n < 2 {
		return math.Inf(1)
	}
	return math.Expm1(reach(s, n, a, power))
}

// PairsOver is the answer of [PairsNeeded] when a hundred pairs are not enough.
const PairsOver = 101

// PairsNeeded is the smallest even number of pairs, at least 4, with which a gap (a log ratio) can be told from zero at
// level a with power 0.8, or [PairsOver].
func PairsNeeded(s, a, gap float64) int {
	for n := 4; n < PairsOver; n += 2 {
		if reach(s, n, a, 0.8) <= gap {
			return n
		}
	}
	return PairsOver
}

func reach(s float64, n int, a, power float64) float64 {
	return (quantileT(1-a, n-1) + quantileT(power, n-1)) * s / math.Sqrt(float64(n))
}

// Longer is how many times as long rounds would have to be for pairs of deviation s to settle a gap (a log ratio) at level a
// with power 0.8 in n pairs, where sampling is the deviation of one round's value that comes from the sample of its requests
// alone ([BlockJackknife]): only that part shrinks with length. It is 1 when the rounds are long enough as they are, and +Inf
// when no length is.
func Longer(s, sampling float64, n int, a, gap float64) float64 {
	if n < 2 || gap <= 0 {
		return math.Inf(1)
	}
	enough := gap / reach(1, n, a, 0.8)
	if s <= enough {
		return 1
	}
	sampled := 2 * sampling * sampling
	room := enough*enough - s*s + sampled
	if room <= 0 {
		return math.Inf(1)
	}
	return sampled / room
}
