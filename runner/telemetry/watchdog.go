package telemetry

import (
	"fmt"
	"strconv"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// How long a sensor may be silent, or sit in one driver call, before it is killed. Opening a driver without persistence
// mode takes seconds per device, so that a sensor gets longer until it announced its first one.
const (
	silenceLimit = 10 * time.Second
	busyLimit    = 10 * time.Second
	openingLimit = 30 * time.Second
)

// Restarts a sensor gets before it counts as lost.
const (
	restartsPerRound   = 2
	restartsPerSession = 5
)

// watchdog decides when a sensor hangs. Its times are CLOCK_MONOTONIC ns; it reads no clock.
type watchdog struct {
	last   int64
	busy   time.Duration
	opened bool
}

// heard notes that a line arrived.
func (w *watchdog) heard(now int64) { w.last = now }

// verdict says why the sensor must be killed; empty while it may live.
func (w *watchdog) verdict(now int64) string {
	silence, busy := silenceLimit, busyLimit
	if !w.opened {
		silence, busy = openingLimit, openingLimit
	}
	switch quiet := time.Duration(now - w.last); {
	case w.busy > busy:
		return fmt.Sprintf("a driver call hung for %v", w.busy.Round(time.Second))
	case quiet >= silence:
		return fmt.Sprintf("silent for %v", quiet.Round(time.Second))
	default:
		return ""
	}
}

// tally counts what a sensor sent, to tell a slip from a sensor that cannot be trusted.
type tally struct {
	lines, bad, ignored int
}

// faulty is true above 10 bad lines or, once there are enough lines to speak of a share, above 1 %.
func (t tally) faulty() bool {
	return t.bad > 10 || t.lines >= 200 && t.bad*100 > t.lines
}

// gapAfter is how long a source may be silent before that counts as a gap.
func gapAfter(interval time.Duration) time.Duration { return max(5*time.Second, 5*interval) }
