package record

import (
	"slices"
	"time"
)

// Interval is the measured interval [M0, M1) of a round, and the limits declared for it.
type Interval struct {
	M0, M1 Instant
	// SLO holds limits by metric key, in the metric's unit.
	SLO map[string]float64
	// Limits are the client's own: what a percentile among timeouts is known to exceed.
	Limits Limits
}

// seconds is the interval's length; 0 for an interval that never was.
func (in Interval) seconds() float64 { return max(0, time.Duration(in.M1-in.M0).Seconds()) }

func (in Interval) holds(t Instant) bool { return t >= in.M0 && t < in.M1 }

// Summary is what one round's requests amount to.
type Summary struct {
	Counts Counts
	// Metrics holds every key of [Keys]; what could not be measured is n/a with its reason.
	Metrics map[string]Metric
	// Beyond counts, per SLO limit of a latency percentile, the samples over it, failures included: of the metric's N.
	Beyond map[string]int
	// Flags say what limits the use of the metrics: bunched_stream, not_streamed, usage_inconsistent.
	Flags []string
	// Blocks holds, for latency percentiles with a value, the same without one tenth of the arrivals each; see [Round].
	Blocks map[string][]float64
	// Answers says what the figures leave out and hide.
	Answers AnswerReport
	// Tokens is the source of token counts; empty when no request succeeded.
	Tokens TokenSource
	// OutTokens sums the tokens of successful requests.
	OutTokens Value
	// FailedIDs are the requests whose answer failed a content check, sorted, at most 100.
	FailedIDs []string
	// Details holds, per class but ok, the detail of the first request in order of schedule that ended so.
	Details map[Outcome]string
	// CachedShare is cached prompt tokens / prompt tokens of successful requests, a fraction.
	CachedShare Value
}

// maxFailedIDs bounds Summary.FailedIDs; more ids add nothing to the finding.
const maxFailedIDs = 100

// Summarise turns the requests of a round into its figures. It counts the samples of phase measure that were due in
// [M0, M1), each followed to its end; streams are matched by Seq. It is pure: the same input gives the same summary, which
// is how [Verify] checks a stored round.
func Summarise(samples []Sample, streams []Stream, in Interval) Summary {
	reqs := measured(samples, streams, in)
	sum := Summary{Counts: count(reqs), Metrics: map[string]Metric{}}
	source := sourceOf(reqs)
	sum.Tokens = source.from
	d := distributions(reqs, source, in.Limits)
	for name, dist := range d {
		for _, q := range quantiles() {
			dist.put(sum.Metrics, name, q)
		}
	}
	sum.Beyond, sum.Blocks = beyond(d, in.SLO), blocks(d)
	rates(&sum, reqs, in, source)
	sum.Metrics["goodput"] = goodput(reqs, in.SLO, source)
	fingerprint(sum.Metrics, reqs)
	pressure(sum.Metrics, reqs, in)
	sum.Answers = answers(reqs, d)
	sum.Flags = flags(reqs)
	sum.FailedIDs, sum.Details = failedIDs(reqs), details(reqs)
	sum.CachedShare = cachedShare(reqs)
	return sum
}

// measured picks the requests that count, with their streams.
func measured(samples []Sample, streams []Stream, in Interval) []request {
	bySeq := make(map[int]Stream, len(streams))
	for _, st := range streams {
		bySeq[st.Seq] = st
	}
	var out []request
	for i := range samples {
		if s := &samples[i]; s.Phase == PhaseMeasure && in.holds(s.Sched) {
			out = append(out, requestOf(s, bySeq[s.Seq]))
		}
	}
	inBlocks(out)
	return out
}

func count(reqs []request) Counts {
	c := Counts{Scheduled: len(reqs), Classes: map[Outcome]int{}}
	for _, r := range reqs {
		c.Classes[r.Class]++
	}
	return c
}

// flags looks at the answers for what limits the use of the round's figures.
func flags(reqs []request) []string {
	streamed, bunched := 0, 0
	var out []string
	for _, r := range reqs {
		if r.Class != OK {
			continue
		}
		if r.flagged(notStreamed) && !slices.Contains(out, notStreamed) {
			out = append(out, notStreamed)
		}
		if r.flagged(usageBad) && !slices.Contains(out, usageBad) {
			out = append(out, usageBad)
		}
		if r.Reloaded() && !slices.Contains(out, reloaded) {
			out = append(out, reloaded)
		}
		if len(r.stream.T) > 0 {
			streamed++
			if r.bunched() {
				bunched++
			}
		}
	}
	// From a fifth of the answers on, what was measured is a proxy's buffer, not the server's pace.
	if bunched > 0 && bunched*5 >= streamed {
		out = append(out, "bunched_stream")
	}
	slices.Sort(out)
	return out
}

// bunched reports whether an answer of eight tokens or more came in one read, or in reads of four events and more.
func (r request) bunched() bool {
	tokens := len(r.stream.T)
	if n := r.outTokens(); n != nil {
		tokens = *n
	}
	reads := len(r.cuts)
	return tokens >= 8 && (reads == 1 || len(r.stream.T) >= 4*reads)
}

func failedIDs(reqs []request) []string {
	var ids []string
	for _, r := range reqs {
		if r.Class == Assertion || r.Class == EmptyOutput {
			ids = append(ids, r.ID)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return ids[:min(len(ids), maxFailedIDs)]
}

// details picks one example per class: the earliest, whatever order the requests ended in.
func details(reqs []request) map[Outcome]string {
	out, first := map[Outcome]string{}, map[Outcome]int{}
	for _, r := range reqs {
		if r.Class == OK {
			continue
		}
		if seq, seen := first[r.Class]; !seen || r.Seq < seq {
			out[r.Class], first[r.Class] = clip(r.Detail), r.Seq
		}
	}
	return out
}

func cachedShare(reqs []request) Value {
	in, cached := 0, 0
	for _, r := range reqs {
		if r.Class == OK && r.NIn != nil && r.NCached != nil {
			in += *r.NIn
			cached += *r.NCached
		}
	}
	if in == 0 {
		return NA("the server reports no cached tokens")
	}
	return Of(float64(cached) / float64(in))
}
