package simserver_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/internal/simserver"
)

// Two requests, worked by hand: prefill 1 ms a token, steps of 10 ms. The first is computed at 50 ms and starts the steps; the
// second is computed at 65 ms, waits for the step that ends at 70 ms, and is held back by 20 ms where every second one is.
func TestForetell(t *testing.T) {
	c := simserver.Default()
	c.PrefillPerToken, c.DecodeBase, c.DecodePerSeq = simserver.Duration(time.Millisecond), simserver.Duration(10*time.Millisecond), 0
	load := []simserver.Planned{{At: 0, Prompt: 50, Output: 3}, {At: 5 * time.Millisecond, Prompt: 60, Output: 2}}
	slow := c
	slow.SpeedByStart = []float64{2}
	held := c
	held.Delay = simserver.Delay{Every: 2, For: simserver.Duration(20 * time.Millisecond)}
	for _, tt := range []struct {
		name string
		cfg  simserver.Config
		want [2][]int // milliseconds
	}{
		{"plain", c, [2][]int{{50, 60, 70}, {70, 80}}},
		{"half speed", slow, [2][]int{{100, 120, 140}, {140, 160}}},
		{"held", held, [2][]int{{50, 60, 70}, {85, 95}}},
	} {
		for i, got := range simserver.Foretell(tt.cfg, load) {
			var ms []int
			for _, at := range got {
				ms = append(ms, int(at.Milliseconds()))
			}
			if !slices.Equal(ms, tt.want[i]) {
				t.Errorf("%s: request %d has its tokens at %v ms, want %v", tt.name, i+1, ms, tt.want[i])
			}
		}
	}
}
