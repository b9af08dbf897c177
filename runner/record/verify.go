package record

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"reflect"
	"slices"
)

// Difference is one place where a stored round contradicts its own samples.
type Difference struct {
	Slot int `json:"slot"`
	// Field names what differs, e.g. "metrics.ttft_p99", or the file that is missing.
	Field string `json:"field"`
	// Recorded is what round.json says, Recomputed what its samples say.
	Recorded   string `json:"recorded"`
	Recomputed string `json:"recomputed"`
}

// Verify recomputes counts, percentiles and rates of every complete round from its samples and streams, and lists where
// they differ from round.json, and where round.json differs from run.json. A round whose samples are gone is a difference.
// The error is for what cannot be read at all.
func Verify(f *Folder) ([]Difference, error) {
	var out []Difference
	for i := range f.run.Rounds {
		listed := &f.run.Rounds[i]
		ds, err := verifyRound(f, listed)
		if err != nil {
			return nil, fmt.Errorf("slot %d: %w", listed.Slot, err)
		}
		out = append(out, ds...)
	}
	return out, nil
}

func verifyRound(f *Folder, listed *Round) ([]Difference, error) {
	c := comparison{slot: listed.Slot}
	rd, err := f.Round(listed.Slot)
	if errors.Is(err, fs.ErrNotExist) {
		c.differ(roundFile, "listed in run.json", "missing")
		return c.out, nil
	}
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(rd, listed) {
		c.differ(roundFile, "as in run.json", "another round")
	}
	if rd.State != RoundComplete || !rd.Phases.M0.Reached() {
		return c.out, nil
	}
	samples, err := collect(f.Samples(rd.Slot))
	if errors.Is(err, fs.ErrNotExist) {
		c.differ(samplesFile, fmt.Sprintf("%d requests", rd.Counts.Scheduled), "missing")
		return c.out, nil
	}
	if err != nil {
		return nil, err
	}
	streams, err := collect(f.Streams(rd.Slot))
	if err != nil {
		return nil, err
	}
	c.duplicates(samples)
	c.summary(rd, Summarise(samples, streams, Interval{M0: rd.Phases.M0, M1: rd.Phases.M1, SLO: f.run.Declared.SLO, Limits: f.run.Declared.Limits}))
	return c.out, nil
}

func collect[T any](rows func(func(T, error) bool)) ([]T, error) {
	var out []T
	for v, err := range rows {
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// comparison gathers the differences of one round.
type comparison struct {
	slot int
	out  []Difference
}

func (c *comparison) differ(field, recorded, recomputed string) {
	c.out = append(c.out, Difference{c.slot, field, recorded, recomputed})
}

func (c *comparison) equal(field string, recorded, recomputed any) {
	if a, b := fmt.Sprint(recorded), fmt.Sprint(recomputed); a != b {
		c.differ(field, a, b)
	}
}

// duplicates looks for a request that was written twice: it would count twice.
func (c *comparison) duplicates(samples []Sample) {
	seen := map[int]bool{}
	for _, s := range samples {
		if seen[s.Seq] {
			c.differ(samplesFile, "each request once", fmt.Sprintf("request %d twice", s.Seq))
			return
		}
		seen[s.Seq] = true
	}
}

func (c *comparison) summary(rd *Round, sum Summary) {
	c.equal("counts.scheduled", rd.Counts.Scheduled, sum.Counts.Scheduled)
	for _, class := range Outcomes() {
		c.equal("counts.classes."+string(class), rd.Counts.Classes[class], sum.Counts.Classes[class])
	}
	for _, key := range union(rd.Metrics, sum.Metrics) {
		recorded, ok := rd.Metrics[key]
		recomputed, mine := sum.Metrics[key]
		if ok != mine || !sameMetric(recorded, recomputed) {
			c.differ("metrics."+key, metricText(recorded, ok), metricText(recomputed, mine))
		}
	}
	for _, key := range union(rd.Beyond, sum.Beyond) {
		c.equal("beyond."+key, rd.Beyond[key], sum.Beyond[key])
	}
	for _, key := range slices.Sorted(maps.Keys(rd.Blocks)) { // runs of earlier versions have none
		c.equal("blocks."+key, rd.Blocks[key], sum.Blocks[key])
	}
	c.equal("failed_ids", rd.FailedIDs, sum.FailedIDs)
	for _, class := range slices.Sorted(maps.Keys(rd.Details)) { // runs of earlier versions have none
		c.equal("details."+string(class), rd.Details[class], sum.Details[class])
	}
	c.equal("answers", rd.Answers, sum.Answers)
	c.equal("tokens_from", rd.Tokens, sum.Tokens)
	c.equal("out_tokens", valueText(rd.OutTokens), valueText(sum.OutTokens))
}

// union lists the keys of both maps, sorted.
func union[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// sameMetric allows for the last digits of a sum taken in another order.
func sameMetric(a, b Metric) bool {
	x, finite := a.Finite()
	y, both := b.Finite()
	if a.IsFailed() && b.IsFailed() {
		// What a failed percentile is known to exceed is a remark, not a measurement.
		return a.N == b.N && a.Unit == b.Unit
	}
	if !finite || !both {
		return a.Equal(b)
	}
	const digits = 1e-9
	return a.N == b.N && a.Unit == b.Unit && math.Abs(x-y) <= digits*math.Max(math.Abs(x), math.Abs(y))
}

func metricText(m Metric, there bool) string {
	if !there {
		return "absent"
	}
	return fmt.Sprintf("%s %s (n=%d)", valueText(m.Value), m.Unit, m.N)
}

func valueText(v Value) string {
	if v.IsFailed() {
		return "failed"
	}
	if x, ok := v.Get(); ok {
		return fmt.Sprintf("%.12g", x)
	}
	return "n/a (" + v.Reason() + ")"
}
