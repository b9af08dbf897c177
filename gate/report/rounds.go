package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// rounds lists every slot, void ones included.
func (s *scribe) rounds() []block {
	if len(s.run.Rounds) == 0 {
		return nil
	}
	stem := s.headline()
	g := &grid{
		head:  []string{"slot", "arm", "pair", metricNames[stem] + " p50", "p95", "p99", "requests", "failed", "warm-up", "GPU °C", "state"},
		align: "rlrrrrrrrrl",
	}
	for _, r := range s.run.Rounds {
		figure := func(p string) words {
			m, ok := r.Metrics[stem+"_"+p]
			if !ok {
				return cell("%s", missing(record.NotMeasured))
			}
			return cell("%s", value(m.Value, m.Unit, roundShare(r)))
		}
		g.add(cell("%d", r.Slot), words{quote(string(r.Arm), 8)}, cell("%d", r.Pair+1), figure("p50"), figure("p95"), figure("p99"),
			cell("%s", count(r.Counts.Scheduled)), cell("%s", count(r.Counts.Failures())),
			cell("%s", seconds(r.Phases.Warmup, r.Phases.M0)), cell("%s", temperature(r.Machine)), s.stateCell(r))
	}
	return []block{section("Rounds", true, table(g))}
}

// headline is the latency that stands for a round: TTFT, or E2E for services that do not stream.
func (s *scribe) headline() string {
	for _, r := range s.run.Rounds {
		if m, ok := r.Metrics["ttft_p50"]; ok {
			if _, present := m.Get(); present {
				return "ttft"
			}
		}
	}
	return "e2e"
}

func roundShare(r record.Round) string {
	if r.Counts.Attempted() <= 0 {
		return ""
	}
	return share(float64(r.Counts.Failures()) / float64(r.Counts.Attempted()))
}

// temperature is the highest median of the round's GPUs.
func temperature(m record.State) string {
	text, most := missing(orUnsaid(m.GPUReason)), 0.0
	for i, g := range m.GPUs {
		if x, ok := g.TempC.Median.Finite(); ok && (i == 0 || x > most) {
			text, most = fixed(x, 0), x
		} else if i == 0 {
			text = missing(g.TempC.Median.Reason())
		}
	}
	return text
}

func (s *scribe) stateCell(r record.Round) words {
	w := words{say("valid")}
	v, isVoid := s.void[r.Slot]
	switch {
	case !isVoid && s.spare(r):
		w = words{say("valid, beyond the last look: not judged")}
	case isVoid:
		w = words{say("void: "), quote(v.Rule, 40)}
	case r.State != record.RoundComplete:
		w = words{quote(string(r.State), 20)}
	}
	if r.RerunOf != nil {
		w = append(w, say(", re-run of slot %d", *r.RerunOf))
	}
	if r.Resident {
		w = append(w, say(", resident"))
	}
	if reset := r.Reset; reset != nil {
		w = append(w, say(", cache reset "), quote(string(reset.Outcome), 20))
		if reset.Tries > 1 {
			w = append(w, say(" after %d calls", reset.Tries))
		}
	}
	for _, flag := range r.Flags {
		w = append(w, say(", "), quote(flag, 40))
	}
	return w
}

// spare reports whether a round was measured beyond the last look that was reached: its pair is among the last of those that
// count.
func (s *scribe) spare(r record.Round) bool {
	if s.j.Spare == 0 {
		return false
	}
	good := map[int]int{}
	for _, other := range s.run.Rounds {
		if _, isVoid := s.void[other.Slot]; !isVoid && other.State == record.RoundComplete {
			good[other.Pair]++
		}
	}
	later := 0
	for pair, n := range good {
		if n == 2 && pair > r.Pair {
			later++
		}
	}
	return good[r.Pair] == 2 && later < s.j.Spare
}

// resolution is the visible line on what this session could have seen.
func (s *scribe) resolution() []block {
	if len(s.j.Metrics) == 0 || s.j.Pairs == 0 || !s.judged() {
		return nil
	}
	w := words{say("%s, look %d of %d, bounds one-sided at %s", pairs(s.j.Pairs), s.j.Look, max(1, len(s.j.Looks)), limitShare(rounded(1-s.j.Level, 6)))}
	if u := s.j.Calibration; u != nil && u.Ignored == "" {
		day, _, _ := strings.Cut(u.Date, "T")
		w = append(w, say("; spread moderated by the calibration of "), quote(day, 10), say(" (%s, it was ", pairs(u.Pairs)), quote(u.Verdict, 20), say(")"))
	}
	var finest, coarsest *gate.Comparison
	for i, c := range s.j.Metrics {
		x, ok := c.Resolution.Finite()
		if !ok {
			continue
		}
		if finest == nil || x < must(finest.Resolution) {
			finest = &s.j.Metrics[i]
		}
		if coarsest == nil || x > must(coarsest.Resolution) {
			coarsest = &s.j.Metrics[i]
		}
	}
	switch finest {
	case nil:
		w = append(w, say("; resolution n/a (no bounds)"))
	case coarsest:
		w = append(w, say("; resolution %s (%s)", plusMinus(must(finest.Resolution)), label(finest.Key)))
	default:
		w = append(w, say("; resolution %s (%s) to %s (%s)", plusMinus(must(finest.Resolution)), label(finest.Key),
			plusMinus(must(coarsest.Resolution)), label(coarsest.Key)))
	}
	return []block{{kind: bullet, line: append(w, say("."))}}
}

// must reads a value already known to be finite.
func must(v record.Value) float64 {
	x, _ := v.Finite()
	return x
}

// noise is what the evidence could have shown, per gated metric.
func (s *scribe) noise() []block {
	if len(s.j.Metrics) == 0 || !s.judged() {
		return nil
	}
	g := &grid{head: []string{"metric", "s of pairs", "resolution", "MDE80", "pairs needed", "pair changes, %"}, align: "lrrrrl"}
	longer := ""
	for _, c := range sortedMetrics(s.j.Metrics) {
		needed := "-"
		switch {
		case c.PairsNeeded > 100:
			needed = "over 100"
		case c.PairsNeeded > 0:
			needed = count(c.PairsNeeded)
		}
		if k, ok := c.Longer.Finite(); ok {
			needed += fmt.Sprintf(" or %.1fx", k)
			longer = " x: or rounds so many times longer."
		}
		if c.Futile {
			needed += ", no further pair could decide"
		}
		g.add(cell("%s", label(c.Key)), cell("%s", spread(c)), cell("%s", shareValue(c.Resolution)), cell("%s", shareValue(c.MDE80)),
			cell("%s", needed), cell("%s", pairChanges(c)))
	}
	note := block{kind: paragraph, line: words{say("s: spread of the pair differences. Resolution: the smallest tolerance that could have passed without a true change. MDE80: the smallest slowdown shown to be over zero in 8 of 10 such sessions.%s", longer)}}
	return []block{section("Noise and resolution", false, table(g), note)}
}

// spread is the deviation behind the bounds, and beside it that of the session's own pairs where a calibration moved it.
func spread(c gate.Comparison) string {
	if m := c.Moderation; m != nil && !m.Dropped {
		return shareValue(c.S) + " (own " + share(m.S) + ")"
	}
	return shareValue(c.S)
}

func shareValue(v record.Value) string {
	x, ok := v.Finite()
	if !ok {
		return value(v, "", "")
	}
	return share(x)
}

// pairChanges lists each pair's change in the metric's own sign.
func pairChanges(c gate.Comparison) string {
	if len(c.PairD) == 0 {
		return missing("no pair")
	}
	list := make([]string, len(c.PairD))
	for i, d := range c.PairD {
		list[i] = pairChange(d, c.HigherIsBetter)
	}
	return strings.Join(list, ", ")
}

// others shows the medians of what was not gated.
func (s *scribe) others() []block {
	gated := map[string]bool{errorRate: true}
	for _, c := range s.j.Metrics {
		gated[c.Key] = true
	}
	var keys []string
	for _, r := range s.run.Rounds {
		for key := range r.Metrics {
			if !gated[key] && !slices.Contains(keys, key) && !s.bareTail(key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	var inner []block
	for _, n := range s.j.NotGated {
		inner = append(inner, line(say("%s not gated: ", label(n.Key)), quote(n.Reason, messageCap)))
	}
	if len(keys) > 0 {
		g := &grid{head: []string{"metric", "base", "head"}, align: "lrr"}
		for _, key := range keys {
			g.add(cell("%s", label(key)), cell("%s", s.median(key, record.Base)), cell("%s", s.median(key, record.Head)))
		}
		inner = append(inner, table(g))
	}
	if len(inner) == 0 {
		return nil
	}
	return []block{section("Other metrics, for information, not judged", true, inner...)}
}

// median is over the arm's valid rounds; n/a when any of them lacks the metric.
func (s *scribe) median(key string, arm record.Arm) string {
	var xs []float64
	unit := ""
	for _, r := range s.run.Rounds {
		if _, isVoid := s.void[r.Slot]; isVoid || r.Arm != arm || r.State != record.RoundComplete {
			continue
		}
		m := r.Metrics[key]
		x, ok := m.Get()
		if !ok {
			return missing(m.Reason())
		}
		xs, unit = append(xs, x), m.Unit
	}
	if len(xs) == 0 {
		return missing("no valid round")
	}
	slices.Sort(xs)
	middle := len(xs) / 2
	x := xs[middle]
	if len(xs)%2 == 0 {
		x = (xs[middle-1] + x) / 2
	}
	return value(record.Of(x), unit, "")
}
