package record

import (
	"fmt"
	"testing"
)

// BenchmarkWindows cuts a round of 400 s into seconds: what a round costs between its end and the next one's start.
func BenchmarkWindows(b *testing.B) {
	for _, f := range []fabric{
		{requests: 2000, rate: 5, m0: 1, ttft: 200, gap: 30, tokens: 50},
		{requests: 40_000, rate: 100, m0: 1, ttft: 200, gap: 10, tokens: 50},
	} {
		samples, streams := f.make()
		in := f.interval(nil)
		b.Run(fmt.Sprintf("rate=%g", f.rate), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if len(Windows(samples, streams, in.M0, in.M1)) != 400 {
					b.Fatal("not 400 seconds")
				}
			}
		})
	}
}
