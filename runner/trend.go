package runner

import (
	"math"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/steady"
)

const (
	// trendWindows cuts the measured interval for its own trend; each window must last a second at least.
	trendWindows = 10
	// trendLimit is the change over the interval that flags a round, a fraction.
	trendLimit = 0.05
	// trendDoubt is how many of its standard errors the slope must have: Student's t with 8 degrees of freedom, two-sided
	// 0.2 %. Without it one round in twenty would be flagged for noise that the warm-up rule allows.
	trendDoubt = 4.5
)

// drifted reports whether the service's latency had a trend inside [m0, m1): the warm-up's latency signal, which is the mean
// time between tokens, or of whole answers where nothing streams, changed by more than 5 % along a straight line through
// ten windows, and the line stands out of their scatter. It is information: the round counts all the same.
func drifted(samples []record.Sample, streams []record.Stream, m0, m1 record.Instant) bool {
	length := time.Duration(m1-m0) / trendWindows
	if length < time.Second {
		return false
	}
	meters := map[bool]*meter{}
	for _, stream := range []bool{true, false} {
		meters[stream] = newMeter(m0, length, stream)
	}
	streamed := false
	first := make(map[int]record.Instant, len(samples))
	for _, s := range samples {
		if s.Class != record.OK {
			continue
		}
		first[s.Seq] = s.First
		if s.End < m1 {
			meters[false].ended(s, s.End)
		}
	}
	for _, st := range streams {
		at, ok := first[st.Seq]
		if !ok || !at.Reached() {
			continue
		}
		for i, gap := range st.T {
			prev := at
			if at += record.Instant(gap); i > 0 && at < m1 {
				streamed = true
				meters[true].event(prev, at)
			}
		}
	}
	var xs []float64
	for k := range trendWindows {
		x, ok := meters[streamed].read(k).Latency.Finite()
		if !ok {
			return false
		}
		xs = append(xs, x)
	}
	return steady.Trend(xs) > trendLimit && slopeErrors(xs) > trendDoubt
}

// slopeErrors is the slope of a least-squares line through xs, as a multiple of its standard error; +Inf for a perfect line.
func slopeErrors(xs []float64) float64 {
	n := float64(len(xs))
	mid, mean := (n-1)/2, 0.0
	for _, x := range xs {
		mean += x / n
	}
	var sxx, sxy, rest float64
	for i, x := range xs {
		sxx += (float64(i) - mid) * (float64(i) - mid)
		sxy += (float64(i) - mid) * (x - mean)
	}
	slope := sxy / sxx
	for i, x := range xs {
		d := x - mean - slope*(float64(i)-mid)
		rest += d * d
	}
	if rest == 0 {
		return math.Inf(1)
	}
	return math.Abs(slope) / math.Sqrt(rest/(n-2)/sxx)
}
