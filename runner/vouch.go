package runner

import (
	"math"
	"slices"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// voucher gathers the evidence by which the load generator vouches for itself over a measured interval. It is filled into
// the round before anything of the server's latency is summarised.
type voucher struct {
	meters meters
	// attempts is the client's own count of what it began to write; seen what the server says it received.
	attempts counter
	seen     counter
}

// counter is the growth of a count over the interval. Its zero value was not measured.
type counter struct {
	from, to int64
	// reason says why there is none; empty with both ends read.
	reason string
	read   bool
}

func (c counter) value() record.Value {
	if !c.read {
		return record.NA(c.reason)
	}
	return record.Of(float64(c.to - c.from))
}

// fill puts the evidence into the round's client report. sent is what the samples of the interval and its tail say.
func (v *voucher) fill(c *record.ClientReport, samples []record.Sample, sent sentTally, measure time.Duration) {
	v.meters.fill(c)
	c.Written = 0
	for _, s := range samples {
		if s.Wrote.Reached() {
			c.Written++
		}
	}
	c.Sent = sent.report()
	c.Sent.Attempts, c.Sent.Seen = v.attempts.value(), v.seen.value()
	fillLag(c, samples)
	c.Span = record.Of(span(samples, measure))
	c.SendRate = sendRate(samples)
}

// fillLag says how late requests were released, by the pacer's own stamps: no socket was touched by then.
func fillLag(c *record.ClientReport, samples []record.Sample) {
	var lags []float64
	c.Late100 = 0
	for _, s := range samples {
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

// rateStretch is the time over which an achieved send rate is held against the plan.
const rateStretch = 10 * time.Second

// sendRate is the largest deviation of the achieved from the planned send rate over any 10 s, a fraction. The rate of a
// stretch is its requests by the time they took to release, so that a request released just after the stretch it was due
// in does not count as a missing one. Only requests with a fixed due time count: a later turn of a conversation is due
// when the server has ended the one before, and first turns are those.
func sendRate(samples []record.Sample) record.Value {
	var list []record.Sample
	for _, s := range samples {
		if s.Turn <= 1 && s.Pick.Reached() {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b record.Sample) int { return a.Seq - b.Seq })
	worst, seen := 0.0, false
	for i, j := 0, 0; i < len(list); i++ {
		for j < len(list) && list[j].Sched-list[i].Sched < record.Instant(rateStretch) {
			j++
		}
		if j == len(list) {
			break
		}
		planned, took := list[j].Sched-list[i].Sched, list[j].Pick-list[i].Pick
		seen = true
		if took <= 0 {
			worst = 1
			continue
		}
		worst = max(worst, math.Abs(float64(planned)/float64(took)-1))
	}
	if !seen {
		return record.NA("no 10 s of requests with a fixed due time")
	}
	return record.Of(worst)
}

// sentTally counts by the samples what was written, the tail of the interval included.
type sentTally struct{ attempts, written, broken int }

func (t *sentTally) add(s record.Sample) {
	t.attempts += s.Attempts
	if s.Wrote.Reached() {
		t.written++
	}
	// Without an answer's head nobody knows whether the server read the request.
	if s.Attempts > 0 && !s.Header.Reached() {
		t.broken++
	}
}

func (t sentTally) report() record.SentCount {
	return record.SentCount{
		Sampled: record.Of(float64(t.attempts)), Written: record.Of(float64(t.written)), Broken: record.Of(float64(t.broken)),
	}
}
