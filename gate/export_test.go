package gate

import "math/rand/v2"

// A made-up session for tests from outside, and how the simulation judges it.
type Drawn struct {
	// Base and Head are badnesses by metric and pair.
	Base, Head [][]float64
	Verdict    Verdict
	Pairs      int
}

// EightTolerances are those of the simulated metrics.
func EightTolerances() []float64 { return eightTolerances }

// DrawEight draws a session of eight metrics whose first is worse by effect, and judges it as the simulation does.
func DrawEight(rng *rand.Rand, sd, effect float64) Drawn {
	p := planOf(4, 8, MarginHalf)
	metrics := eightArms(rng, sd, p.last)
	metrics[0] = metrics[0].slower(effect)
	var d Drawn
	for _, a := range metrics {
		d.Base, d.Head = append(d.Base, a.base), append(d.Head, a.head)
	}
	d.Verdict, d.Pairs = p.judge(metrics, eightTolerances)
	return d
}
