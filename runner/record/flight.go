package record

import "slices"

// flights sweeps over the instants at which the number of requests in flight changes.
type flights struct {
	steps []step
	// next is the first step not taken, flying the number in flight before it.
	next, flying int
}

type step struct {
	at    Instant
	delta int
}

// flightsOf lists the changes: a request is in flight from its last byte written to its end.
func flightsOf(reqs []request) *flights {
	var steps []step
	for _, r := range reqs {
		if r.Wrote.Reached() && r.over() > r.Wrote {
			steps = append(steps, step{r.Wrote, 1}, step{r.over(), -1})
		}
	}
	// Ends sort before starts of the same instant: a request that replaces another does not overlap it.
	slices.SortFunc(steps, func(a, b step) int {
		if a.at != b.at {
			return int(min(1, max(-1, a.at-b.at)))
		}
		return a.delta - b.delta
	})
	return &flights{steps: steps}
}

// over gives the mean over time and the largest number in flight in [from, to), which must not begin before the one of the
// call before.
func (f *flights) over(from, to Instant) (mean float64, most int) {
	for f.next < len(f.steps) && f.steps[f.next].at <= from {
		f.take()
	}
	at, area := from, 0.0
	most = f.flying
	for f.next < len(f.steps) && f.steps[f.next].at < to {
		area += float64(f.flying) * float64(f.steps[f.next].at-at)
		at = f.steps[f.next].at
		f.take()
		most = max(most, f.flying)
	}
	return (area + float64(f.flying)*float64(to-at)) / float64(to-from), most
}

func (f *flights) take() {
	f.flying += f.steps[f.next].delta
	f.next++
}

// pressure fills in how hard the service was asked: requests planned, written and finished a second, and how many were in
// flight. Finished ones include failures; each counts at its own instant, within the interval.
func pressure(into map[string]Metric, reqs []request, in Interval) {
	sent, ended := 0, 0
	for _, r := range reqs {
		if r.Wrote.Reached() && in.holds(r.Wrote) {
			sent++
		}
		if r.Wrote.Reached() && in.holds(r.over()) {
			ended++
		}
	}
	seconds := in.seconds()
	put := func(key, unit string, v float64) {
		m := Metric{Of(v), unit, len(reqs)}
		if seconds == 0 || len(reqs) == 0 {
			m.Value = NA("no request was due in the interval")
		}
		into[key] = m
	}
	mean, most := flightsOf(reqs).over(in.M0, max(in.M1, in.M0+1))
	put("offered_rps", "req/s", float64(len(reqs))/seconds)
	put("sent_rps", "req/s", float64(sent)/seconds)
	put("achieved_rps", "req/s", float64(ended)/seconds)
	put("in_flight_mean", "requests", mean)
	put("in_flight_max", "requests", float64(most))
}
