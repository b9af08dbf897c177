package runner

import (
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// voucher gathers the evidence by which the load generator vouches for itself over a measured interval.
type voucher struct {
	began  time.Time
	ended  time.Time
	cpu    time.Duration
	paused time.Duration
}

// begin starts the account; end closes it.
func (v *voucher) begin() { v.began, v.cpu, v.paused = time.Now(), ownCPU(), gcPause() }

func (v *voucher) end() {
	v.ended, v.cpu, v.paused = time.Now(), ownCPU()-v.cpu, gcPause()-v.paused
}

// fill puts the evidence into the round's client report.
func (v *voucher) fill(c *record.ClientReport, samples []record.Sample, measure time.Duration) {
	c.CPU, c.GCPause = record.NA(""), record.NA("")
	if wall := v.ended.Sub(v.began); wall > 0 {
		c.CPU = record.Of(v.cpu.Seconds() / wall.Seconds() / float64(runtime.NumCPU()))
		c.GCPause = record.Of(v.paused.Seconds() * 1e3)
	}
	var lags []float64
	for _, s := range samples {
		if s.Wrote.Reached() {
			c.Written++
		}
		if !s.Pick.Reached() {
			continue
		}
		lag := time.Duration(s.Pick - s.Sched)
		lags = append(lags, lag.Seconds()*1e3)
		if lag > 100*time.Millisecond {
			c.Late100++
		}
	}
	c.PacerLagP50, c.PacerLagP99, c.PacerLagMax = record.NA("no request"), record.NA("no request"), record.NA("no request")
	if len(lags) > 0 {
		slices.Sort(lags)
		c.PacerLagP50 = record.Of(record.Percentile(lags, 0.5))
		c.PacerLagP99 = record.Of(record.Percentile(lags, 0.99))
		c.PacerLagMax = record.Of(lags[len(lags)-1])
	}
	c.Span = record.Of(span(samples, measure))
}

// span is the time between the first and the last released request as a share of what was planned; 1 when that cannot be
// told (fewer than two requests).
func span(samples []record.Sample, measure time.Duration) float64 {
	first, last := record.Instant(math.MaxInt64), record.Instant(0)
	firstDue, lastDue := first, last
	for _, s := range samples {
		if s.Pick.Reached() {
			first, last = min(first, s.Pick), max(last, s.Pick)
			firstDue, lastDue = min(firstDue, s.Sched), max(lastDue, s.Sched)
		}
	}
	if lastDue <= firstDue || measure <= 0 {
		return 1
	}
	return float64(last-first) / float64(lastDue-firstDue)
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func gcPause() time.Duration {
	var s debug.GCStats
	debug.ReadGCStats(&s)
	return s.PauseTotal
}
