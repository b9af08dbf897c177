package selftest

import (
	"fmt"
	"time"
)

// Row is one run of the self-test with what it must reach.
type Row struct {
	// Key names the row in JSON: "streams-100".
	Key string
	// Text says what is offered.
	Text    string
	Options Options
	Targets []Target
}

// Target is a limit on one figure of a result.
type Target struct {
	// Name says which figure in a table: "TTFT error, mean".
	Name string
	// Unit is "ms", "/s", "KiB", "MB" or empty.
	Unit   string
	Figure func(Result) Figure
	// Limit is the largest figure allowed, or with AtLeast the smallest.
	Limit   float64
	AtLeast bool
	// Cores is from how many cores on, for client and server together, the target must be reached. With fewer the figure
	// is shown beside it.
	Cores int
}

// Met reports whether a figure keeps to the target; known is false for a missing one.
func (t Target) Met(f Figure) (met, known bool) {
	x, known := f.Finite()
	if t.AtLeast {
		return known && x >= t.Limit, known
	}
	return known && x <= t.Limit, known
}

// cores of the two sets of targets: what two cores must give, and what the specification's rig of four gives.
const (
	small = 2
	rig   = 4
)

// StreamsRow offers so many streams of so many events a second.
func StreamsRow(key string, streams int, events float64, length time.Duration) Row {
	text := fmt.Sprintf("%s streams x %s events/s", count(streams), number(events))
	r := Row{Key: key, Text: text, Options: Options{Streams: streams, EventsPerS: events, Length: length, Warmup: time.Second}}
	limits := map[[2]int][2]float64{{100, 100}: {0.5, 2}, {500, 50}: {2, 6}, {1000, 100}: {3, 8}}
	if limit, known := limits[[2]int{streams, int(events)}]; known {
		cores := small
		if streams >= 1000 {
			cores = rig
		}
		r.Targets = append(r.Targets,
			Target{Name: "TTFT error, mean", Unit: "ms", Figure: func(r Result) Figure { return r.TTFTError.Mean }, Limit: limit[0], Cores: cores},
			Target{Name: "TTFT error, p99", Unit: "ms", Figure: func(r Result) Figure { return r.TTFTError.P99 }, Limit: limit[1], Cores: cores})
	}
	if streams == 1000 && events == 100 {
		r.Targets = append(r.Targets,
			Target{Name: "gaps of 10 ms, p99", Unit: "ms", Figure: func(r Result) Figure { return r.Gaps.P99 }, Limit: 10.6, Cores: rig},
			Target{Name: "gaps of 10 ms, max", Unit: "ms", Figure: func(r Result) Figure { return r.Gaps.Max }, Limit: 14, Cores: rig},
			Target{Name: "gaps of 10 ms, σ", Unit: "ms", Figure: func(r Result) Figure { return r.Gaps.Sigma }, Limit: 0.4, Cores: rig},
			Target{Name: "events per client core", Unit: "/s", Figure: func(r Result) Figure { return r.EventsPerCPUS }, Limit: 60_000, AtLeast: true, Cores: small})
	}
	return r
}

// CeilingRow has streams written as fast as the server can.
func CeilingRow(streams int, length time.Duration) Row {
	return Row{
		Key: "events", Text: count(streams) + " streams as fast as the server writes",
		Options: Options{Streams: streams, Length: length, Warmup: time.Second},
		Targets: []Target{{Name: "events, stamped and kept", Unit: "/s", Figure: func(r Result) Figure { return r.EventsPerS }, Limit: 250_000, AtLeast: true, Cores: rig}},
	}
}

// RateRow is an open loop of small answers.
func RateRow(key string, rps float64, length time.Duration) Row {
	text := number(rps) + " small requests/s"
	r := Row{Key: key, Text: text, Options: Options{RPS: rps, Length: length, Warmup: time.Second}}
	limits := map[float64]float64{1000: 0.5, 5000: 1}
	if limit, known := limits[rps]; known {
		r.Targets = append(r.Targets, Target{Name: "pacer lag, p99", Unit: "ms", Figure: func(r Result) Figure { return r.PacerLag.P99 }, Limit: limit, Cores: small})
	}
	r.Targets = append(r.Targets,
		Target{Name: "rate off the plan by", Unit: "%", Figure: func(r Result) Figure { return r.Arrivals.ratePercent() }, Limit: 0.2, Cores: small},
		Target{Name: "seconds with another count", Unit: "", Figure: func(r Result) Figure { return r.Arrivals.SecondsOff }, Limit: 0, Cores: rig},
		Target{Name: "constant gaps, CV", Unit: "%", Figure: func(r Result) Figure { return r.Arrivals.cvPercent() }, Limit: 1, Cores: rig})
	return r
}

// ConnectionsRow is a closed loop of small answers.
func ConnectionsRow(connections int, length time.Duration) Row {
	return Row{
		Key: "requests", Text: "small answers, closed loop of " + count(connections),
		Options: Options{Connections: connections, Length: length, Warmup: time.Second},
		Targets: []Target{
			{Name: "requests", Unit: "/s", Figure: func(r Result) Figure { return r.RequestsPerS }, Limit: 10_000, AtLeast: true, Cores: rig},
			{Name: "requests", Unit: "/s", Figure: func(r Result) Figure { return r.RequestsPerS }, Limit: 40_000, AtLeast: true, Cores: 2 * rig},
		},
	}
}

// LiveRow opens streams and holds them all.
func LiveRow(streams int, length time.Duration) Row {
	return Row{
		Key: "live", Text: count(streams) + " streams open at once",
		Options: Options{Streams: streams, EventsPerS: 1, Length: length, StreamFor: length + 3*time.Second},
		Targets: []Target{{Name: "memory per live stream", Unit: "KiB", Figure: func(r Result) Figure { return r.RSSPerStream }, Limit: 60, Cores: small}},
	}
}

// Standard is the set of rows that `tailgate selftest` runs when it is told nothing else. length replaces that of each row;
// 0 leaves them as they are, about a minute in all.
func Standard(length time.Duration) []Row {
	long := func(otherwise time.Duration) time.Duration {
		if length > 0 {
			return length
		}
		return otherwise
	}
	return []Row{
		StreamsRow("streams-100", 100, 100, long(5*time.Second)),
		StreamsRow("streams-500", 500, 50, long(5*time.Second)),
		StreamsRow("streams-1000", 1000, 100, long(4*time.Second)),
		RateRow("rate-1000", 1000, long(4*time.Second)),
		RateRow("rate-5000", 5000, long(4*time.Second)),
		CeilingRow(32, long(3*time.Second)),
		ConnectionsRow(32, long(4*time.Second)),
		LiveRow(10_000, max(long(6*time.Second), 5*time.Second)),
	}
}
