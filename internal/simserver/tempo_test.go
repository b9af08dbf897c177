package simserver

import (
	"math"
	"testing"
	"time"
)

func TestTempo(t *testing.T) {
	msec := func(n float64) Duration { return Duration(n * float64(time.Millisecond)) }
	tests := []struct {
		name        string
		tempo       tempo
		start, work float64 // ms
		want        float64 // end, ms
	}{
		{"plain", tempo{factor: 1}, 100, 10, 110},
		{"slow start", tempo{factor: 1.4}, 100, 10, 114},
		{"cold at the origin", tempo{factor: 1, origin: 50 * ms, cold: Cold{Factor: 3, Decay: msec(100)}}, 50, 10, 80},
		{"cold before the origin is as cold", tempo{factor: 1, origin: 50 * ms, cold: Cold{3, msec(100)}}, 10, 10, 40},
		{"cold after one decay", tempo{factor: 1, cold: Cold{3, msec(100)}}, 100, 10, 100 + 10*(1+2/math.E)},
		{"cold is over", tempo{factor: 1, cold: Cold{3, msec(100)}}, 1e5, 10, 1e5 + 10},
		{"drift after two minutes", tempo{factor: 1, drift: 5}, 120e3, 10, 120e3 + 11},
		{"drift multiplies the start's factor", tempo{factor: 2, drift: 5}, 120e3, 10, 120e3 + 22},
		{"drift to nothing stops at a hundredth", tempo{factor: 1, drift: -100}, 180e3, 100, 180e3 + 1},
		{"before the first freeze", tempo{factor: 1, stall: Stall{msec(100), msec(30), 0}}, 10, 90, 100},
		{"across the first", tempo{factor: 1, stall: Stall{msec(100), msec(30), 0}}, 95, 10, 135},
		{"begun within", tempo{factor: 1, stall: Stall{msec(100), msec(30), 0}}, 110, 10, 140},
		{"begun at its end", tempo{factor: 1, stall: Stall{msec(100), msec(30), 0}}, 130, 10, 140},
		{"across three", tempo{factor: 1, stall: Stall{msec(100), msec(30), 0}}, 90, 160, 340},
		{"only two happen", tempo{factor: 1, stall: Stall{msec(100), msec(30), 2}}, 290, 50, 340},
		{"one that outlasts its period", tempo{factor: 1, stall: Stall{msec(100), msec(1000), 1}}, 850, 10, 1110},
		{"counted from the origin", tempo{factor: 1, origin: 50 * ms, stall: Stall{msec(100), msec(30), 0}}, 140, 20, 190},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := int64(tt.start * float64(ms))
			got := float64(tt.tempo.end(start, time.Duration(tt.work*float64(ms)))) / float64(ms)
			if math.Abs(got-tt.want) > 1e-5 {
				t.Errorf("work of %v ms at %v ends at %v, want %v", tt.work, tt.start, got, tt.want)
			}
		})
	}
}
