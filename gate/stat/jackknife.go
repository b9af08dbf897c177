package stat

import "math"

// BlockJackknife is the standard deviation of a value that comes from the sample it was taken of, by what the value would be
// without each of some contiguous blocks of the sample: sqrt((g-1)/g · sum of squared deviations). Blocks keep neighbours
// together, so that samples which depend on each other do not pass for many. It is false below two blocks and where a value
// is not finite.
//
// Source: Kuensch, The jackknife and the bootstrap for general stationary observations, Ann. Statist. 17 (1989).
func BlockJackknife(without []float64) (float64, bool) {
	g := float64(len(without))
	if g < 2 {
		return 0, false
	}
	mean, sum := 0.0, 0.0
	for _, x := range without {
		mean += x / g
	}
	for _, x := range without {
		sum += (x - mean) * (x - mean)
	}
	sd := math.Sqrt(sum * (g - 1) / g)
	return sd, !math.IsNaN(sd) && !math.IsInf(sd, 0)
}
