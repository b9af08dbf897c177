package client

import "github.com/tailgate-ci/tailgate/runner/record"

// Where the tokens of each event come from.
const (
	perEventNone     = "none"
	perEventUsage    = "usage"
	perEventLogprobs = "logprobs"
)

// Flags of a sample.
const (
	// FlagNoDoneMarker: a finish reason came, the end marker did not. FlagNoFinishReason: the other way round.
	FlagNoDoneMarker   = "no_done_marker"
	FlagNoFinishReason = "no_finish_reason"
	// FlagUsageInconsistent: the server gave a count that cannot be true; output tokens are then n/a.
	FlagUsageInconsistent = "usage_inconsistent"
	// FlagReasoningOnly: all output was reasoning.
	FlagReasoningOnly = "reasoning_only"
	// FlagNotStreamed: a stream was asked for and a single value came; there is no TTFT.
	FlagNotStreamed = "not_streamed"
	// FlagTextCut: more output came than is kept; digests and text checks saw its beginning.
	FlagTextCut = "text_cut"
	// FlagContextCut: the server says that it shortened the prompt or the context.
	FlagContextCut = "context_truncated"
	// FlagModelReloaded: the server loaded the model for this request, in more than 100 ms. It is a flag of the round.
	FlagModelReloaded = "model_reloaded"
)

// tally is the tokens of one answer. Nil means the server did not say.
type tally struct {
	in, cached, out, reasoning *int
	from                       record.TokenSource
	inconsistent               bool
	// perEvent is nil unless every payload event had a count and they fit into out.
	perEvent []int
}

// counted is what the events of a stream said of their tokens.
type counted struct {
	counts counting
	// tokens has, for each payload event, its own count or the running one; nil once an event lacked it.
	tokens []int64
	// each is the sum over all events that count their own tokens, also those without payload.
	each int
}

// countedAs says how an answer's tokens are counted event by event.
func countedAs(want expectation) counted {
	switch want.perEvent {
	case perEventUsage:
		return counted{counts: countsRunning}
	case perEventLogprobs:
		return counted{counts: countsEach}
	default:
		return counted{counts: want.speaks.counts}
	}
}

// countEvent notes the tokens of an event; payload says that it carried output.
func (a *answer) countEvent(e *event, payload bool) {
	logprobs := 0
	for i := range e.parts {
		logprobs += e.parts[i].tokens
	}
	a.logprobs += logprobs
	n := e.tokens
	if a.want.perEvent == perEventLogprobs {
		n = count{n: logprobs, set: logprobs > 0}
	}
	if a.counts == countsEach && n.set && !n.bad {
		a.each += n.n
	}
	switch {
	case !payload || a.counts == countsNothing:
	case n.set && !n.bad:
		a.tokens = append(a.tokens, int64(n.n))
	default:
		a.counts, a.tokens = countsNothing, nil
	}
}

// tally takes the best source there is: usage of the answer, usage of its events, logprobs, none. It never counts
// events as tokens, except in a dialect whose events are tokens.
func (a *answer) tally() tally {
	var t tally
	if a.hasUsage {
		t = a.fromUsage(&a.usage)
	}
	switch {
	case t.inconsistent:
		t.out, t.reasoning, t.from = nil, nil, ""
	case t.out != nil:
		t.from = record.FromUsage
		if a.want.perEvent == perEventUsage && !a.usageLate {
			t.from = record.FromEventUsage
		}
	case a.logprobs > 0:
		t.out, t.from = new(a.logprobs), record.FromLogprobs
	case a.want.speaks.counts == countsEach && a.each > 0:
		t.out, t.from = new(a.each), record.FromEventUsage
	case !a.empty():
		t.from = record.Estimated
	}
	t.perEvent = a.perEvent(t.out)
	return t
}

func (a *answer) fromUsage(u *usage) tally {
	var t tally
	read := func(c count, limit *int) *int {
		if c.bad || c.set && limit != nil && c.n > *limit {
			t.inconsistent = true
			return nil
		}
		if !c.set {
			return nil
		}
		return new(c.n)
	}
	t.in, t.out = read(u.prompt, nil), read(u.completion, a.outputCap())
	t.cached, t.reasoning = read(u.cached, t.in), read(u.reasoning, t.out)
	if t.out != nil && *t.out == 0 && !a.empty() {
		t.inconsistent = true
	}
	return t
}

// outputCap is the most tokens that the request allows over all choices, nil when it sets no cap.
func (a *answer) outputCap() *int {
	if a.want.maxTokens == 0 {
		return nil
	}
	return new(a.want.maxTokens * max(a.want.choices, 1))
}

// perEvent gives the tokens of each payload event. They may add up to less than out: an end-of-sequence token, or another
// special one, is generated and counted but shown in no event.
func (a *answer) perEvent(out *int) []int {
	if a.counts == countsNothing || out == nil || len(a.tokens) == 0 {
		return nil
	}
	counts, sum := make([]int, len(a.tokens)), 0
	for i, n := range a.tokens {
		if a.counts == countsRunning && i > 0 {
			n -= a.tokens[i-1]
		}
		if n < 0 {
			return nil
		}
		counts[i] = int(n)
		sum += counts[i]
	}
	if sum == 0 || sum > *out {
		return nil
	}
	return counts
}

// stream is the timeline of the payload events.
func (a *answer) stream(seq int, perEvent []int) record.Stream {
	s := record.Stream{Seq: seq, N: perEvent}
	if a.payloads == 0 {
		return record.Stream{Seq: seq}
	}
	s.T = a.gaps
	shared := false
	r := make([]int, len(a.reads))
	for i, d := range a.reads {
		r[i] = int(d)
		shared = shared || d == 0
	}
	if shared {
		s.R = r
	}
	return s
}
