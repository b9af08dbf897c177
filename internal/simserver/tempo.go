package simserver

import (
	"math"
	"time"
)

// tempo turns work into time: how long an amount of work takes depends on when it begins. Instants are nanoseconds of
// the monotonic clock.
type tempo struct {
	origin int64   // when the server can infer
	factor float64 // of this start, see SpeedByStart
	cold   Cold
	drift  float64 // percent per minute
	stall  Stall
}

// slowness is the factor on durations at an instant.
func (t tempo) slowness(at int64) float64 {
	f := t.factor
	since := time.Duration(max(at-t.origin, 0))
	if t.cold.Factor > 0 {
		f *= 1 + (t.cold.Factor-1)*math.Exp(-float64(since)/float64(t.cold.Decay))
	}
	if t.drift != 0 {
		f *= max(1+t.drift/100*since.Minutes(), 0.01)
	}
	return f
}

// end is when work begun at start is done. The slowness is that of its beginning: a piece of work is short beside
// drift and decay. Freezes inside are added in full.
func (t tempo) end(start int64, work time.Duration) int64 {
	left := int64(math.Round(float64(work) * t.slowness(start)))
	if t.stall.Every == 0 || t.stall.For == 0 {
		return start + left
	}
	every, length := int64(t.stall.Every), int64(t.stall.For)
	k := max((start-t.origin)/every, 1) // the last freeze that may already have begun
	if t.stall.Times == 1 {
		k = 1 // the only one may outlast its period
	}
	for t.stall.Times == 0 || k <= int64(t.stall.Times) {
		from := t.origin + k*every
		if start < from {
			if start+left <= from {
				break
			}
			left -= from - start
			start = from
		}
		start = max(start, from+length)
		k++
	}
	return start + left
}
