package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// lateWarning is the pacer lag at p99, in ms, from which the generator is not called on time.
const lateWarning = 2

// worst is the largest of a figure of the load generator over the rounds that count, and its slot. Where no round has the
// figure, seen is false and reason says why.
func (s *scribe) worst(figure func(*record.ClientReport) record.Value) (x float64, slot int, seen bool, reason string) {
	reason = "no valid round"
	for i := range s.run.Rounds {
		r := &s.run.Rounds[i]
		if _, isVoid := s.void[r.Slot]; isVoid || r.State != record.RoundComplete {
			continue
		}
		v := figure(&r.Client)
		y, ok := v.Finite()
		switch {
		case !ok && !seen:
			reason = v.Reason()
		case ok && (!seen || y > x):
			x, slot, seen = y, r.Slot, true
		}
	}
	return x, slot, seen, reason
}

// worstText is a [shown] of the largest over the rounds that count.
func (s *scribe) worstText(unit string, figure func(*record.ClientReport) record.Value) (text, reason string) {
	x, _, seen, reason := s.worst(figure)
	if !seen {
		return "", reason
	}
	return figureText(x, unit), ""
}

func figureText(x float64, unit string) string {
	if unit == "fraction" {
		return share(x)
	}
	return amount(x, unit)
}

// generator vouches for the load: were requests released when they were due, and was the load generator able to tell the
// time of what came back?
func (s *scribe) generator() string {
	lag, slot, seen, reason := s.worst(func(c *record.ClientReport) record.Value { return c.PacerLagP99 })
	var text string
	switch {
	case !seen:
		return "generator lag " + missing(reason)
	case lag > lateWarning:
		text = fmt.Sprintf("generator late: p99 lag %s in slot %d (warned from %d ms; ", amount(lag, "ms"), slot, lateWarning)
	default:
		text = "generator on time (p99 lag " + amount(lag, "ms") + ", "
	}
	return text + vouched(s.worstText) + ")"
}

// shown looks up a figure of the load generator: its text, and why there is none instead.
type shown func(unit string, figure func(*record.ClientReport) record.Value) (text, reason string)

// parts joins what is there, and then names what is not, once per reason.
type parts struct {
	there   []string
	reasons []string
	lacking map[string][]string
}

// add adds figures under one name, of says which they are; they count as missing when the first of them is.
func (p *parts) add(show shown, name, of, unit string, figures ...func(*record.ClientReport) record.Value) {
	var texts []string
	for _, f := range figures {
		text, reason := show(unit, f)
		if reason != "" && len(texts) == 0 {
			if p.lacking == nil {
				p.lacking = map[string][]string{}
			}
			if p.lacking[reason] == nil {
				p.reasons = append(p.reasons, reason)
			}
			p.lacking[reason] = append(p.lacking[reason], name)
			return
		}
		if reason != "" {
			text = missing(reason)
		}
		texts = append(texts, text)
	}
	p.there = append(p.there, strings.TrimSpace(name+" "+of)+" "+strings.Join(texts, ", "))
}

func (p *parts) join(by string) string {
	all := p.there
	for _, reason := range p.reasons {
		all = append(all, strings.Join(p.lacking[reason], ", ")+" "+missing(reason))
	}
	return strings.Join(all, by)
}

// vouched is what beside the pacer's lag speaks for the load generator, in short.
func vouched(show shown) string {
	var p parts
	p.add(show, "canary", "p99", "ms", func(c *record.ClientReport) record.Value { return c.Canary.P99 })
	p.add(show, "CPU", "", "fraction", func(c *record.ClientReport) record.Value { return c.CPU })
	p.add(show, "own error", "p99", "ms", func(c *record.ClientReport) record.Value { return c.Floor.TTFTP99 })
	return p.join(", ")
}

// generatorLines are what a doubter of the load generator needs: its figures, and where and as what it ran. Figures are the
// largest over the rounds that count.
func (s *scribe) generatorLines() []block {
	if !slices.ContainsFunc(s.run.Rounds, func(r record.Round) bool { return r.State == record.RoundComplete }) {
		return nil
	}
	streams := 0
	for i := range s.run.Rounds {
		streams = max(streams, s.run.Rounds[i].Client.Floor.Streams)
	}
	var p parts
	p.add(s.worstText, "pacer lag", "p50, p99, max", "ms", func(c *record.ClientReport) record.Value { return c.PacerLagP50 },
		func(c *record.ClientReport) record.Value { return c.PacerLagP99 }, func(c *record.ClientReport) record.Value { return c.PacerLagMax })
	p.add(s.worstText, "canary error", "p50, p99, max", "ms", func(c *record.ClientReport) record.Value { return c.Canary.P50 },
		func(c *record.ClientReport) record.Value { return c.Canary.P99 }, func(c *record.ClientReport) record.Value { return c.Canary.Max })
	p.add(s.worstText, "CPU", "", "fraction", func(c *record.ClientReport) record.Value { return c.CPU })
	p.add(s.worstText, "CPU for 5 s", "", "fraction", func(c *record.ClientReport) record.Value { return c.CPUHeld })
	p.add(s.worstText, "scheduler latency", "p99", "ms", func(c *record.ClientReport) record.Value { return c.SchedP99 })
	p.add(s.worstText, "collector pauses", "", "ms", func(c *record.ClientReport) record.Value { return c.GCPause })
	p.add(s.worstText, "send rate", "off by", "fraction", func(c *record.ClientReport) record.Value { return c.SendRate })
	p.add(s.worstText, "own error of TTFT", fmt.Sprintf("at %s streams p50, p99", count(streams)), "ms",
		func(c *record.ClientReport) record.Value { return c.Floor.TTFTP50 }, func(c *record.ClientReport) record.Value { return c.Floor.TTFTP99 })
	p.add(s.worstText, "of gaps", "p50, p99", "ms",
		func(c *record.ClientReport) record.Value { return c.Floor.GapP50 }, func(c *record.ClientReport) record.Value { return c.Floor.GapP99 })
	return []block{line(say("Load generator, worst of the valid rounds: %s", p.join("; "))), s.clientHost()}
}

// clientHost says where and as what the load generator ran, by the last round that says it; nothing for runs that do not.
func (s *scribe) clientHost() block {
	var h record.ClientHost
	dialled, reused := 0, 0
	for i := range s.run.Rounds {
		c := &s.run.Rounds[i].Client
		if c.Host.Count > 0 {
			h = c.Host
		}
		dialled, reused = dialled+c.Dialled, reused+c.Reused
	}
	if h.Count == 0 {
		return block{}
	}
	return line(say("Load generator on cores "), quote(orUnsaid(h.Cores), nameCap), say(" (%s usable), governor ", count(h.Count)), quote(orUnsaid(h.Governor), 40),
		say(", pacing "), quote(orUnsaid(h.Pacing), nameCap), say(", program "), name(short(orUnsaid(h.SHA256), 12)),
		say("; round trip %s; %s connections dialled, reused %s times", value(h.RTT, "ms", ""), count(dialled), count(reused)))
}
