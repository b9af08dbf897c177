package workload

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// FidelityError says that a build differs too much from its source. Options.AcceptFidelity lets named measures pass.
type FidelityError struct {
	// Rows are the measures beyond what a build refuses.
	Rows []record.Fidelity
}

// Error lists the refused measures with their directions.
func (e *FidelityError) Error() string {
	var parts []string
	for _, r := range e.Rows {
		parts = append(parts, fmt.Sprintf("%s (%s: %s)", r.Measure, r.Direction, r.Reason))
	}
	return "the workload is not faithful to its source: " + strings.Join(parts, "; ") +
		". Choose rows otherwise, or accept the measures by name"
}

// fidelity collects rows and those that stop the build.
type fidelity struct {
	rows    []record.Fidelity
	refused []record.Fidelity
}

func (f *fidelity) add(r record.Fidelity, refuse bool) {
	f.rows = append(f.rows, r)
	if refuse {
		f.refused = append(f.refused, r)
	}
}

// judge compares the built workload with its source, puts the result in the manifest, and refuses what differs too much.
func (b *build) judge(w *Workload) (*Workload, error) {
	f := &fidelity{}
	b.judgeLengths(f)
	b.judgeArrivals(f)
	b.judgePrefix(f)
	b.judgeChanges(f)
	f.add(record.Fidelity{
		Measure: "lengths in words", Direction: record.Unknown,
		Reason: "prompts were not checked against a server's tokenizer: a planned token is a word of the prompt",
	}, false)
	f.add(record.Fidelity{
		Measure: "not represented", Direction: record.Unknown,
		Reason: "text content, speculative acceptance, expert routing, tokenizer change, images and audio",
	}, false)
	w.Manifest.Fidelity = f.rows
	left := slices.DeleteFunc(f.refused, func(r record.Fidelity) bool {
		return slices.Contains(b.o.AcceptFidelity, r.Measure) || slices.Contains(b.o.AcceptFidelity, "all")
	})
	if len(left) > 0 {
		return nil, &FidelityError{Rows: left}
	}
	return w, nil
}

// by is the direction of a measure for which less is optimistic.
func by(ratio, warn float64) record.Direction {
	switch {
	case math.Abs(ratio-1) <= warn:
		return record.Neutral
	case ratio < 1:
		return record.Optimistic
	default:
		return record.Pessimistic
	}
}

// judgeLengths compares quantiles, distributions and mass of input and output lengths.
func (b *build) judgeLengths(f *fidelity) {
	for _, side := range []struct {
		name string
		of   func(*row) int
	}{
		{"input", func(r *row) int { return r.in }},
		{"output", func(r *row) int { return r.out }},
	} {
		source, replay := lengthsOf(b.source, side.of), lengthsOf(b.rows, side.of)
		from, to := quantiles(source), quantiles(replay)
		for _, q := range []struct {
			name         string
			from, to     int
			warn, refuse float64
		}{
			{"p50", from.P50, to.P50, 0.05, 0.15},
			{"p90", from.P90, to.P90, 0.05, 0.15},
			{"p95", from.P95, to.P95, 0.05, 0.15},
			{"p99", from.P99, to.P99, 0.10, 0.25},
		} {
			f.ratio(side.name+" "+q.name, "tokens", float64(q.from), float64(q.to), q.warn, q.refuse)
		}
		b.judgeDistance(f, side.name, source, replay)
	}
	mean := func(rows []row) float64 {
		return float64(sum(lengthsOf(rows, func(r *row) int { return r.in }))) / float64(len(rows))
	}
	f.ratio("input tokens per request", "tokens", mean(b.source), mean(b.rows), 0.03, 0.10)
}

// ratio adds a measure judged by replay / source.
func (f *fidelity) ratio(name, unit string, source, replay, warn, refuse float64) {
	ratio := replay / source
	f.add(record.Fidelity{
		Measure: name, Source: record.Of(source), Replay: record.Of(replay), Ratio: record.Of(ratio),
		Limit: fmt.Sprintf("±%.0f %%", 100*warn), Direction: by(ratio, warn),
		Reason: fmt.Sprintf("%.0f %s against %.0f", replay, unit, source),
	}, math.Abs(ratio-1) > refuse)
}

// judgeDistance compares whole distributions; the sign comes from the means.
func (b *build) judgeDistance(f *fidelity, name string, source, replay []int) {
	d := distance(source, replay)
	limit := 1.36 / math.Sqrt(float64(len(replay)))
	direction := record.Neutral
	if d > limit {
		ratio := float64(sum(replay)) * float64(len(source)) / (float64(sum(source)) * float64(len(replay)))
		direction = by(ratio, 0)
	}
	f.add(record.Fidelity{
		Measure: name + " KS distance", Source: record.Of(0), Replay: record.Of(d), Ratio: record.NA("a distance"),
		Limit: fmt.Sprintf("%.3f", limit), Direction: direction, Reason: "largest gap between the two distributions",
	}, d > 2*limit)
}

// judgeArrivals compares rate and burst, and tells what was done to time stamps.
func (b *build) judgeArrivals(f *fidelity) {
	source, replay := arrivalsOf(b.source), arrivalsOf(b.rows)
	from, to := perSecond(source), perSecond(replay)
	f.add(record.Fidelity{
		Measure: "arrival rate", Source: record.Of(from), Replay: record.Of(to), Ratio: record.Of(to / from), Limit: "shown",
		Direction: record.Neutral, Reason: "requests per second; the load is chosen, not copied",
	}, false)
	for _, w := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		name := fmt.Sprintf("burst at %.0f s", w.Seconds())
		f.add(burstRow(name, source.burst(w), replay.burst(w)))
	}
	b.judgeTicks(f)
	switch {
	case b.o.Stretch != "":
		f.add(note("arrivals stretched", record.Unknown, "offsets / "+b.o.Stretch+
			": the source's burst shape moves to another time scale, think times stay"))
	case b.o.Poisson != "":
		f.add(note("arrivals replaced", record.Optimistic, "a Poisson process of "+b.o.Poisson+
			" requests per second replaces the source's arrivals, which come in waves"))
	}
}

// burstRow judges B = (IoD - 1) / mean. Where the source has almost none, a ratio would be noise.
func burstRow(name string, source, replay record.Value) (record.Fidelity, bool) {
	r := record.Fidelity{Measure: name, Source: source, Replay: replay, Limit: "ratio 0.7 to 1.4", Direction: record.Neutral}
	from, ok := source.Get()
	to, ok2 := replay.Get()
	if !ok || !ok2 {
		r.Ratio, r.Direction = record.NA("fewer than two complete windows"), record.Unknown
		r.Reason = "too short to compare"
		return r, false
	}
	r.Reason = "(index of dispersion − 1) / mean of counts"
	if math.Abs(from) < 0.1 {
		r.Ratio, r.Limit = record.NA("the source has hardly any burst"), "difference 0.1"
		switch {
		case to-from > 0.1:
			r.Direction = record.Pessimistic
		case to-from < -0.1:
			r.Direction = record.Optimistic
		}
		return r, false
	}
	ratio := to / from
	r.Ratio = record.Of(ratio)
	switch {
	case ratio < 0.7 && from > 0, ratio > 1.4 && from < 0:
		r.Direction = record.Optimistic
	case ratio < 0.7, ratio > 1.4:
		r.Direction = record.Pessimistic
	}
	return r, ratio < 0
}

func (b *build) judgeTicks(f *fidelity) {
	if !b.ticks.quantised() {
		return
	}
	r := record.Fidelity{
		Measure: "time-stamp quantum", Source: record.Of(b.ticks.quantum.Seconds()), Replay: record.Of(b.ticks.quantum.Seconds()),
		Ratio: record.Of(1), Limit: "flagged", Direction: record.Pessimistic,
		Reason: fmt.Sprintf("the source's stamps lie on ticks (%.0f %% ties): replayed as they stand they arrive in clumps",
			100*b.ticks.ties),
	}
	if b.o.Dequantise != "" {
		r.Replay, r.Ratio, r.Direction = record.Of(0), record.Of(0), record.Unknown
		r.Reason = fmt.Sprintf("the source's stamps lie on ticks (%.0f %% ties); arrivals were spread evenly inside each tick",
			100*b.ticks.ties)
	}
	f.add(r, false)
}

// judgePrefix compares what an unbounded prefix cache could serve.
func (b *build) judgePrefix(f *fidelity) {
	if !b.importer.reuse {
		f.add(note("prefix reuse unknown", record.Pessimistic,
			"the source does not record shared prefixes: every prompt is new text and no cache can help"))
		return
	}
	hit := func(rows []row) float64 {
		return prefixHits(promptsOf(rows), b.importer.scope, b.importer.blockSize, 0).token
	}
	from, to := hit(b.source), hit(b.rows)
	r := record.Fidelity{
		Measure: "token prefix hit", Source: record.Of(from), Replay: record.Of(to), Limit: "±3 points",
		Ratio: record.Of(to / from), Direction: record.Neutral,
		Reason: fmt.Sprintf("prefix hit %+.0f points", 100*(to-from)),
	}
	if from == 0 {
		r.Ratio = record.NA("the source has no hit")
	}
	switch {
	case to-from > 0.03:
		r.Direction = record.Optimistic
	case from-to > 0.03:
		r.Direction = record.Pessimistic
	}
	f.add(r, math.Abs(to-from) > 0.10)
}

// judgeChanges lists what was left out, cut and moved.
func (b *build) judgeChanges(f *fidelity) {
	total := len(b.source) + b.excluded[excludedBad]
	for _, reason := range []string{excludedBad, excludedWindow, excludedSample, excludedInput, excludedTurns} {
		n := b.excluded[reason]
		if n == 0 {
			continue
		}
		direction, why := record.Unknown, fmt.Sprintf("%d of %d rows left out", n, total)
		if reason == excludedInput {
			direction = record.Optimistic
			why += fmt.Sprintf(", %.1f %% of the input tokens; the first over the limit of %d: lines %s",
				100*float64(b.lost)/float64(sum(lengthsOf(b.source, func(r *row) int { return r.in }))), b.o.MaxInput,
				strings.Join(b.overlong, ", "))
		}
		f.add(record.Fidelity{
			Measure: "excluded: " + reason, Source: record.Of(float64(total)), Replay: record.Of(float64(total - n)),
			Ratio: record.Of(float64(total-n) / float64(total)), Limit: "any", Direction: direction, Reason: why,
		}, false)
	}
	if b.clipped > 0 {
		f.add(note("output cap", record.Optimistic,
			fmt.Sprintf("%d of %d answers shortened to %d tokens", b.clipped, len(b.rows), b.o.MaxOutput)))
	}
	if b.moved > 0 {
		f.add(note("rows out of order", record.Neutral, fmt.Sprintf("%d rows were sorted by time", b.moved)))
	}
}

func note(measure string, d record.Direction, reason string) (record.Fidelity, bool) {
	none := record.NA("a statement")
	return record.Fidelity{Measure: measure, Source: none, Replay: none, Ratio: none, Direction: d, Reason: reason}, false
}

func perSecond(a arrivals) float64 {
	if a.last() == 0 {
		return float64(len(a))
	}
	return float64(len(a)) / a.last().Seconds()
}

func lengthsOf(rows []row, of func(*row) int) []int {
	out := make([]int, len(rows))
	for i := range rows {
		out[i] = of(&rows[i])
	}
	return out
}

func promptsOf(rows []row) []prompt {
	out := make([]prompt, len(rows))
	for i := range rows {
		out[i] = prompt{conv: rows[i].conversation(), ids: rows[i].ids, tokens: rows[i].in}
	}
	return out
}
