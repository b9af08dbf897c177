package selftest

import (
	"math"
	"slices"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// summarise joins what we saw with what the server knows.
func summarise(o Options, d *drive, kept []answer, truths []Truth) Result {
	r := Result{Cores: cores(), SeenByServer: -1}
	slices.SortFunc(kept, func(a, b answer) int { return int(a.sched - b.sched) })
	for _, a := range kept {
		if a.wrote {
			r.Sent++
		}
		if a.measured {
			r.count(a)
		}
	}
	r.errors(o, kept, truths)
	r.lag(o, kept, d.start)
	r.speeds(o, &d.usage, kept)
	r.RSSPerStream = rssPerStream(o, &d.usage)
	if o.Truth != nil {
		r.SeenByServer = len(truths)
	}
	r.fillMissing()
	return r
}

func (r *Result) count(a answer) {
	r.Measured++
	if a.class == record.OK {
		r.OK++
		return
	}
	if r.Failed == nil {
		r.Failed = map[record.Outcome]int{}
		r.FirstFailure = string(a.class) + ": " + a.detail
	}
	r.Failed[a.class]++
}

const noTruth = "the server's stamps were not asked for"

// errors compares our instants with the server's.
func (r *Result) errors(o Options, kept []answer, truths []Truth) {
	reason := "no request with known truth succeeded"
	switch {
	case o.Truth == nil:
		reason = noTruth
	case o.Streams == 0:
		reason = "answers are not streamed"
	}
	known := make(map[string]*Truth, len(truths))
	for i := range truths {
		known[truths[i].ID] = &truths[i]
	}
	var ttft, gap, ours, theirs []float64
	for _, a := range kept {
		if !a.measured || a.class != record.OK || o.Streams == 0 {
			continue
		}
		for _, g := range a.gaps[min(1, len(a.gaps)):] {
			ours = append(ours, ms(g))
		}
		t := known[a.id]
		if t == nil || !t.OK || len(t.Wrote) != len(a.gaps) {
			continue
		}
		ttft = append(ttft, ms(int64(a.first-a.sched)-(t.Wrote[0]-t.Arrived)))
		for i := 1; i < len(t.Wrote); i++ {
			stamp := t.Wrote[i] - t.Wrote[i-1]
			theirs = append(theirs, ms(stamp))
			gap = append(gap, math.Abs(ms(a.gaps[i]-stamp)))
		}
	}
	if o.rate() == 0 && o.Streams > 0 {
		// The schedule of an unpaced stream is our own readiness; its server never waits, so no gap is due.
		r.TTFTError, r.GapError = allNA("the streams were not paced"), allNA("the streams were not paced")
	} else {
		r.TTFTError, r.GapError = spread(ttft, reason), spread(gap, reason)
	}
	r.Gaps, r.TruthGaps = gaps(ours, reason), gaps(theirs, reason)
}

// lag says how well the pacer kept to the plan.
func (r *Result) lag(o Options, kept []answer, start record.Instant) {
	if o.rate() == 0 {
		const closed = "a closed loop has no schedule"
		r.PacerLag = Lag{na(closed), na(closed), na(closed)}
		r.Arrivals = Arrivals{na(closed), na(closed), na(closed)}
		return
	}
	var lags, between []float64
	var picks []record.Instant
	planned, released := map[int64]int{}, map[int64]int{}
	for _, a := range kept {
		if !a.measured || !a.pick.Reached() {
			continue
		}
		lags = append(lags, ms(int64(a.pick-a.sched)))
		if n := len(picks); n > 0 {
			between = append(between, ms(int64(a.pick-picks[n-1])))
		}
		picks = append(picks, a.pick)
		planned[int64(a.sched-start)/1e9]++
		released[int64(a.pick-start)/1e9]++
	}
	const none = "no request was released"
	s := spread(lags, none)
	r.PacerLag = Lag{s.P50, s.P99, s.Max}
	if len(picks) < 3 {
		r.Arrivals = Arrivals{na(none), na(none), na(none)}
		return
	}
	mean, sigma := meanSigma(between)
	off := 0
	for second, n := range planned {
		if released[second] != n {
			off++
		}
	}
	r.Arrivals = Arrivals{of(1e3/mean/o.rate() - 1), of(sigma / mean), of(float64(off))}
}

// speeds counts what arrived inside the measured interval, and what that cost.
func (r *Result) speeds(o Options, u *usage, kept []answer) {
	events, requests, payloads, reads := 0, 0, 0, 0
	for _, a := range kept {
		if a.class != record.OK {
			continue
		}
		if u.within(a.end) {
			requests++
		}
		at := a.first
		for _, g := range a.gaps {
			if at += record.Instant(g); u.within(at) {
				events++
			}
		}
		payloads += len(a.gaps)
		reads += a.reads
	}
	per := func(n int, seconds float64, why string) Figure {
		if seconds <= 0 {
			return na(why)
		}
		return of(float64(n) / seconds)
	}
	const short = "the measured interval was never reached"
	cpu := u.own.Seconds()
	r.Seconds, r.ClientCPU, r.ServerCPU, r.OtherCPU = na(short), na(short), na(short), na(short)
	if u.seconds() > 0 {
		r.Seconds, r.ClientCPU = of(u.seconds()), of(cpu/u.seconds())
		r.ServerCPU = of(u.server.Seconds() / u.seconds())
	}
	if u.serverErr != nil {
		r.ServerCPU = na(u.serverErr.Error())
	}
	if others, err := u.others(); err != nil {
		r.OtherCPU = na(err.Error())
	} else if u.seconds() > 0 {
		r.OtherCPU = of(others.Seconds() / u.seconds())
	}
	r.RequestsPerS, r.RequestsPerCPUS = per(requests, u.seconds(), short), per(requests, cpu, short)
	if o.Streams == 0 {
		const whole = "answers are not streamed"
		r.EventsPerS, r.EventsPerCPUS, r.EventsPerRead = na(whole), na(whole), na(whole)
		return
	}
	r.EventsPerS, r.EventsPerCPUS = per(events, u.seconds(), short), per(events, cpu, short)
	r.EventsPerRead = per(payloads, float64(reads), "nothing was read")
}

// enoughStreams is from how many streams on their memory can be told from the process's own.
const enoughStreams = 1000

func rssPerStream(o Options, u *usage) Figure {
	switch {
	case o.Streams < enoughStreams:
		return na("fewer than 1,000 streams: the process itself weighs more")
	case u.rssBefore == 0:
		return na("this system does not tell our memory")
	default:
		return of(float64(u.rssPeak-u.rssBefore) / 1024 / float64(o.Streams))
	}
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// spread sorts xs.
func spread(xs []float64, reason string) Spread {
	if len(xs) == 0 {
		return allNA(reason)
	}
	slices.Sort(xs)
	mean, _ := meanSigma(xs)
	return Spread{of(mean), of(record.Percentile(xs, 0.5)), of(record.Percentile(xs, 0.99)), of(xs[len(xs)-1])}
}

func gaps(xs []float64, reason string) Gaps {
	s := spread(xs, reason)
	if len(xs) == 0 {
		return Gaps{s.P50, s.P99, s.Max, na(reason)}
	}
	_, sigma := meanSigma(xs)
	return Gaps{s.P50, s.P99, s.Max, of(sigma)}
}

// meanSigma is the mean and the standard deviation of the population.
func meanSigma(xs []float64) (mean, sigma float64) {
	for _, x := range xs {
		mean += x
	}
	mean /= float64(len(xs))
	for _, x := range xs {
		sigma += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(sigma / float64(len(xs)))
}
