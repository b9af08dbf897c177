package runner

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// seenLimit bounds the question how many requests the server has received.
	seenLimit = 5 * time.Second
	// floorStreams bounds the streams of a self-test.
	floorStreams = 1000
	// tokenTime and answerTime are how long an answer is taken to last when its peak in flight is planned: a token each
	// 20 ms after 200 ms. They fix how many streams a self-test opens, nothing else, and are the same for both arms.
	tokenTime, answerTime = 20 * time.Millisecond, 200 * time.Millisecond
)

// selfTest measures the load generator itself, just before a round. A failed one is a floor that was not measured; it
// stops nothing.
func (r *round) selfTest(ctx context.Context) {
	if r.rd.Slot < 0 {
		return
	}
	switch {
	case r.plan.Floor == nil && r.s.run.Declared.SelfTest == 0:
		r.rd.Client.Floor = record.NoFloor("self_test is 0s")
	case r.s.run.Declared.Load.HTTP2:
		r.rd.Client.Floor = record.NoFloor("the self-test goes over HTTP/1.1, the load over HTTP/2")
	case r.plan.Floor == nil:
		r.rd.Client.Floor = record.NoFloor("no self-test was set up")
	default:
		r.say("self-test", "")
		floor, err := r.plan.Floor(ctx, plannedPeak(r.s.run, r.s.peak))
		if err != nil {
			floor = record.NoFloor("the self-test failed: " + oneLine(err))
		}
		r.rd.Client.Floor = floor
	}
}

// plannedPeak is how many streams a self-test opens, at least 1 and at most 1,000: as many as the declared load may have in
// flight at once. That is the slots of a closed loop; else what was seen of both arms before the first round, 0 where nothing
// was; else the arrivals of an answer's length with half as many on top for their unevenness; under an explicit cap no more
// than that. It is the same for every round of a session, so that the floors of the arms can be compared.
func plannedPeak(run *record.Run, seen int) int {
	load, w := run.Declared.Load, run.Workload
	peak := 0
	rate, _ := w.Rate.Finite()
	lasts := answerTime + time.Duration(w.OutTokens.P50)*tokenTime
	switch {
	case load.Concurrency > 0:
		peak = load.Concurrency
	case seen > 0:
		peak = seen
	case rate > 0:
		peak = int(min(math.Ceil(1.5*rate*lasts.Seconds()), floorStreams))
	}
	if load.MaxInFlight > 0 {
		peak = min(peak, load.MaxInFlight)
	}
	return max(1, min(peak, floorStreams))
}

// flights are requests in flight: from their last byte written to their end. One goroutine at a time.
type flights struct{ starts, ends []record.Instant }

func (f *flights) add(s record.Sample) {
	if s.Wrote.Reached() && s.End > s.Wrote {
		f.starts, f.ends = append(f.starts, s.Wrote), append(f.ends, s.End)
	}
}

// peak is the largest number in flight at once.
func (f *flights) peak() int {
	slices.Sort(f.starts)
	slices.Sort(f.ends)
	most, over := 0, 0
	for i, start := range f.starts {
		for over < len(f.ends) && f.ends[over] <= start {
			over++
		}
		most = max(most, i+1-over)
	}
	return most
}

// vouchFor begins the account of a measured interval. The returned function closes it.
func (r *round) vouchFor() (end func()) {
	r.rd.Client.Host = clientHost()
	seen := r.seen()
	stop := r.listen()
	r.vouch = voucher{attempts: counter{from: r.client.Attempts(), read: true}}
	r.vouch.meters.begin(r.rd.Client.Host.Count)
	return func() {
		r.vouch.meters.end()
		r.rd.Client.Canary = stop()
		r.vouch.attempts.to = r.client.Attempts()
		r.vouch.seen = seen()
		r.rd.Client.Host.Pacing = pacing()
		if d := r.client.QuickestDial(); d > 0 {
			r.rd.Client.Host.RTT = record.Of(d.Seconds() * 1e3)
		}
	}
}

// listen begins to hear the canary.
func (r *round) listen() (stop func() record.CanaryReport) {
	if r.plan.Canary == nil {
		return func() record.CanaryReport { return record.NoCanary("no canary was set up") }
	}
	stop, err := r.plan.Canary(r.cut)
	if err != nil {
		return func() record.CanaryReport { return record.NoCanary(oneLine(err)) }
	}
	return stop
}

// seen reads the server's own count of requests now, and when the returned function is called.
func (r *round) seen() func() counter {
	if r.plan.Seen == nil {
		return func() counter { return counter{reason: "the server does not tell"} }
	}
	from, err := r.ask()
	return func() counter {
		to, later := r.ask()
		if err := errors.Join(err, later); err != nil {
			return counter{reason: "the server did not tell: " + oneLine(err)}
		}
		return counter{from: from, to: to, read: true}
	}
}

func (r *round) ask() (int64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.cut), seenLimit)
	defer cancel()
	return r.plan.Seen(ctx, r.url)
}

// oneLine makes an error a short reason.
func oneLine(err error) string {
	const most = 200
	text := strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "?")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
