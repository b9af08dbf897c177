package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// preflightSalt makes the text of the probing requests differ from that of any round, so that they warm no cache for it.
const preflightSalt = "preflight"

// Preflight sends four requests of the workload, one after the other, and reports what the service made of them: whether
// they were answered, streamed as configured, counted, no longer than their cap, as long as a forced length says, and by one
// model. It takes the workload's shortest turns, those with a forced length and those without in equal parts, as a round
// would send them but for the salt of their text.
//
// It is meant to be called once for each arm, on a server that is ready and before the first round is measured, with the
// options of the rounds. The caller decides by the report: [record.ProbeReport.Wrong] names the check that failed, Failed
// tells failed requests from odd answers, and the models and token sources of both arms are to be compared. The report is
// complete also when requests fail. An error is one of the workload (a turn cannot be encoded) or that of ctx.
func (c *Client) Preflight(ctx context.Context, w *workload.Workload) (record.ProbeReport, error) {
	picks, err := preflightTurns(w)
	if err != nil {
		return record.ProbeReport{}, err
	}
	var seen []sighting
	for i, p := range picks {
		p.Salt = fmt.Sprintf("%s%d", preflightSalt, i)
		r, err := c.Encode(i, w, p)
		if err != nil {
			return record.ProbeReport{}, err
		}
		r.Phase = record.PhaseProbe
		s, x := c.aside(ctx, r)
		if ctx.Err() != nil {
			return record.ProbeReport{}, context.Cause(ctx)
		}
		seen = append(seen, sighting{
			Sample: s, stream: r.want.stream, limit: r.want.maxTokens * max(r.want.choices, 1), model: x.ans.model,
			forced: p.Turn.Out.Mode == workload.Force && p.Turn.Out.Tokens > 0, streamed: !x.ans.notStreamed(),
			looks: c.looks(ctx, x, &s), perEvent: r.want.perEvent, counts: x.ans.tally().perEvent,
		})
	}
	return judgePreflight(seen), nil
}

// preflightTurns picks the turns that cost the least, roots of conversations first. A workload with fewer turns has some
// asked twice.
func preflightTurns(w *workload.Workload) ([]workload.Request, error) {
	plan, err := w.Plan(w.Span(), w.Span())
	if err != nil {
		return nil, err
	}
	all := slices.Clone(plan.Measured)
	slices.SortStableFunc(all, func(a, b workload.Request) int {
		return cmp.Or(
			cmp.Compare(min(len(a.Turn.After), 1), min(len(b.Turn.After), 1)),
			cmp.Compare(a.Turn.Out.Tokens, b.Turn.Out.Tokens),
			cmp.Compare(a.Turn.InTokens, b.Turn.InTokens),
		)
	})
	var forced, free []workload.Request
	for _, r := range all {
		if r.Turn.Out.Mode == workload.Force {
			forced = append(forced, r)
		} else {
			free = append(free, r)
		}
	}
	half := record.ProbeRequests / 2
	n := min(len(forced), max(half, record.ProbeRequests-len(free)))
	picks := slices.Concat(forced[:min(n, record.ProbeRequests)], free[:min(len(free), record.ProbeRequests-min(n, record.ProbeRequests))])
	for i := 0; len(picks) < record.ProbeRequests; i++ {
		picks = append(picks, picks[i])
	}
	return picks, nil
}

// sighting is one answered request of a preflight with what was asked.
type sighting struct {
	record.Sample
	stream, streamed, forced bool
	// perEvent is what was asked of each event; counts are the tokens of each payload event, nil when they did not come.
	perEvent string
	counts   []int
	// limit is the most tokens allowed, 0 for no limit.
	limit int
	model string
	// looks is a hint at another dialect.
	looks string
}

func judgePreflight(seen []sighting) record.ProbeReport {
	r := record.ProbeReport{Sent: len(seen)}
	var good []sighting
	for _, s := range seen {
		r.Samples = append(r.Samples, s.Sample)
		if s.Class == record.OK {
			good = append(good, s)
			continue
		}
		if r.Failed++; r.Failure == "" {
			r.Failure = withHint(fmt.Sprintf("%s: %s", s.Class, s.Detail), s)
		}
	}
	answers := record.ProbeCheck{Name: record.ProbeAnswers, OK: r.Failed == 0}
	if !answers.OK {
		answers.Detail = fmt.Sprintf("%d of %d requests failed, the first with %s", r.Failed, r.Sent, r.Failure)
	}
	r.Checks = append(
		r.Checks, answers,
		checkEach(record.ProbeStreams, good, everyAnswer, streamsAsAsked),
		checkEach(record.ProbeUsage, good, everyAnswer, func(s sighting) string { return countsKnown(s, good[0].TokensFrom) }),
		checkEach(record.ProbePerEvent, good, func(s sighting) string {
			return unless(s.perEvent != perEventNone && s.stream, "tokens per event were not asked for")
		}, perEventCame),
		checkEach(record.ProbeCap, good, func(s sighting) string {
			return unless(s.limit > 0, "no request has a cap")
		}, capObeyed),
		checkEach(record.ProbeLength, good, func(s sighting) string {
			return unless(s.forced, "no request has a forced length")
		}, lengthObeyed),
		checkEach(record.ProbeModel, good, func(s sighting) string {
			return unless(s.model != "", "the answers name no model")
		}, func(s sighting) string { return oneModel(s, good) }),
	)
	for _, s := range seen {
		r.Looks = cmp.Or(r.Looks, s.looks)
	}
	if len(good) > 0 {
		r.Model, r.TokensFrom = good[0].model, good[0].TokensFrom
	}
	return r
}

// checkEach makes a check of all answers to which it applies. why says why it does not apply to one, wrong what is wrong
// with one.
func checkEach(name string, good []sighting, why, wrong func(sighting) string) record.ProbeCheck {
	c := record.ProbeCheck{Name: name, NA: "no request was answered"}
	for _, s := range good {
		if reason := why(s); reason != "" {
			if !c.OK {
				c.NA = reason
			}
			continue
		}
		c.OK, c.NA = true, ""
		if text := wrong(s); text != "" {
			return record.ProbeCheck{Name: name, Detail: text}
		}
	}
	return c
}

func everyAnswer(sighting) string { return "" }

func unless(ok bool, reason string) string {
	if ok {
		return ""
	}
	return reason
}

func streamsAsAsked(s sighting) string {
	return unless(!s.stream || s.streamed, withHint("a stream was asked for, the answer came in one piece", s))
}

func withHint(text string, s sighting) string {
	if s.looks != "" {
		text += "; " + s.looks
	}
	return text
}

func countsKnown(s sighting, source record.TokenSource) string {
	switch {
	case s.NOut == nil && slices.Contains(s.Flags, FlagUsageInconsistent):
		return "the server's count of output tokens cannot be true"
	case s.NOut == nil:
		return "the server does not say how many tokens it generated"
	case s.TokensFrom != source:
		return fmt.Sprintf("the count of one answer is from %s, of another from %s", source, s.TokensFrom)
	default:
		return ""
	}
}

func perEventCame(s sighting) string {
	return unless(len(s.counts) > 0, fmt.Sprintf("tokens per event were asked for by %s, and do not come with each event or do not add up", s.perEvent))
}

// capObeyed cannot use a count above the cap, which is no count any more by then.
func capObeyed(s sighting) string {
	return unless(!slices.Contains(s.Flags, FlagUsageInconsistent),
		fmt.Sprintf("at most %d tokens were allowed, and the server's count is not one of 1 to %d", s.limit, s.limit))
}

func lengthObeyed(s sighting) string {
	switch {
	case s.NOut == nil:
		return fmt.Sprintf("%d tokens were asked for, the server does not say how many it generated", s.OutPlanned)
	case *s.NOut != s.OutPlanned:
		return fmt.Sprintf("%d tokens were asked for, %d came: the service does not honour a forced length", s.OutPlanned, *s.NOut)
	default:
		return ""
	}
}

func oneModel(s sighting, good []sighting) string {
	for _, other := range good {
		if other.model != "" && other.model != s.model {
			return fmt.Sprintf("one answer names model %q, another %q", s.model, other.model)
		}
	}
	return ""
}
