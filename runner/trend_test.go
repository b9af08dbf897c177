package runner

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// A trend inside the interval is noticed, scatter and short intervals are not taken for one.
func TestTrendInsideTheInterval(t *testing.T) {
	const second = record.Instant(time.Second)
	// Answers of 20 tokens, five a second for 60 s; gap gives the time between tokens at a share of the interval.
	answers := func(length record.Instant, stream bool, gap func(at float64) float64) ([]record.Sample, []record.Stream) {
		var samples []record.Sample
		var streams []record.Stream
		for k := range int(5 * length / second) {
			due := second + record.Instant(k)*second/5
			s := record.Sample{Seq: k, Sched: due, Class: record.OK, End: due}
			g := int64(gap(float64(due-second)/float64(length)) * 1e6)
			st := record.Stream{Seq: k}
			for i := range 20 {
				st.T = append(st.T, g*int64(min(i, 1)))
			}
			s.End += record.Instant(19 * g)
			if stream {
				s.First = due
				streams = append(streams, st)
			}
			samples = append(samples, s)
		}
		return samples, streams
	}
	rng := rand.New(rand.NewPCG(1, 2))
	tests := []struct {
		name   string
		length record.Instant
		stream bool
		gap    func(float64) float64
		want   bool
	}{
		{"level", 60 * second, true, func(float64) float64 { return 10 }, false},
		{"slower by 10 %", 60 * second, true, func(at float64) float64 { return 10 + at }, true},
		{"faster by 10 %, whole answers", 60 * second, false, func(at float64) float64 { return 10 - at }, true},
		{"slower by 3 %", 60 * second, true, func(at float64) float64 { return 10 + 0.3*at }, false},
		{"scatter", 60 * second, true, func(float64) float64 { return 10 + 5*rng.Float64() }, false},
		{"too short to tell", 6 * second, true, func(at float64) float64 { return 10 + at }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			samples, streams := answers(tt.length, tt.stream, tt.gap)
			if got := drifted(samples, streams, second, second+tt.length); got != tt.want {
				t.Errorf("drifted %t, want %t", got, tt.want)
			}
		})
	}
}
