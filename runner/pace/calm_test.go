package pace

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestCalmGivesBackWhatItFound(t *testing.T) {
	percent := debug.SetGCPercent(77)
	defer debug.SetGCPercent(percent)
	limit := debug.SetMemoryLimit(-1)
	restore := Calm()
	during := debug.SetGCPercent(100)
	debug.SetGCPercent(during)
	if during < 100 {
		t.Errorf("the collector runs when the heap has grown by %d %%", during)
	}
	if ours := debug.SetMemoryLimit(-1); ours > limit || ours < leastHeadroom {
		t.Errorf("memory limit %d, before %d", ours, limit)
	}
	restore()
	restore()
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("GOGC is %d afterwards, was 77", got)
	}
	if got := debug.SetMemoryLimit(-1); got != limit {
		t.Errorf("memory limit is %d afterwards, was %d", got, limit)
	}
}

func TestAvailable(t *testing.T) {
	for text, want := range map[string]uint64{
		"MemTotal: 9 kB\nMemAvailable:    2048 kB\n": 2048 << 10,
		"MemAvailable: many kB\n":                    0,
		"MemAvailable:\n":                            0,
		"":                                           0,
	} {
		if got, ok := available(text); got != want || ok != (want > 0) {
			t.Errorf("%q: %d %v, want %d", text, got, ok, want)
		}
	}
}

func TestLeftOfALimit(t *testing.T) {
	for _, tt := range []struct {
		limit, used string
		want        uint64
	}{
		{"max\n", "5\n", math.MaxUint64}, {"100\n", "40\n", 60}, {"100\n", "140\n", 0}, {"100\n", "?", math.MaxUint64},
	} {
		if got := leftOf(tt.limit, tt.used); got != tt.want {
			t.Errorf("%q of %q: %d, want %d", tt.used, tt.limit, got, tt.want)
		}
	}
}
