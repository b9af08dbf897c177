package report

import (
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// failures says how requests ended that did not succeed at their one attempt.
func (s *scribe) failures() []block {
	e := s.j.Errors
	if e.BaseN == 0 && e.HeadN == 0 {
		return nil
	}
	w := words{say("Failures, one attempt per request: ")}
	if e.Base == 0 && e.Head == 0 {
		return []block{{kind: bullet, line: append(w, say("none (base %s requests, head %s).", count(e.BaseN), count(e.HeadN)))}}
	}
	w = append(w, say("base %s, head %s (of %s and %s).",
		kinds(e.Base, e.BaseKinds), kinds(e.Head, e.HeadKinds), count(e.BaseN), count(e.HeadN)))
	blocks := []block{{kind: bullet, line: w}}
	if e.Verdict == gate.Pass {
		return blocks
	}
	return append(append(blocks, table(s.failureTable())), s.failedIDs()...)
}

// kinds lists an arm's failures by outcome.
func kinds(total int, by map[record.Outcome]int) string {
	if total == 0 {
		return "none"
	}
	var parts []string
	for _, class := range record.Outcomes() {
		if n := by[class]; n > 0 && class.Failure() {
			parts = append(parts, count(n)+" "+string(class))
		}
	}
	if len(parts) == 0 {
		return count(total)
	}
	return strings.Join(parts, ", ")
}

// failureTable counts each kind of failure per arm.
func (s *scribe) failureTable() *grid {
	e := s.j.Errors
	g := &grid{head: []string{"kind", "base", "share", "head", "share", "head rounds"}, align: "lrrrrr"}
	for _, class := range record.Outcomes() {
		base, head := e.BaseKinds[class], e.HeadKinds[class]
		if !class.Failure() || base+head == 0 {
			continue
		}
		g.add(cell("%s", class), cell("%s", count(base)), cell("%s", shareOf(base, e.BaseN)), cell("%s", count(head)),
			cell("%s", shareOf(head, e.HeadN)), cell("%d", s.roundsWith(class)))
	}
	g.add(cell("all"), cell("%s", count(e.Base)), cell("%s", shareOf(e.Base, e.BaseN)), cell("%s", count(e.Head)),
		cell("%s", shareOf(e.Head, e.HeadN)), cell("%d", e.HeadRounds))
	return g
}

func shareOf(k, n int) string {
	if n == 0 {
		return missing("nothing attempted")
	}
	return share(float64(k) / float64(n))
}

// roundsWith counts head's valid rounds that saw an outcome.
func (s *scribe) roundsWith(class record.Outcome) int {
	n := 0
	for _, r := range s.run.Rounds {
		if _, isVoid := s.void[r.Slot]; r.Arm == record.Head && !isVoid && r.Counts.Classes[class] > 0 {
			n++
		}
	}
	return n
}

// failedIDs names some requests whose answers failed a content check on head.
func (s *scribe) failedIDs() []block {
	var ids []string
	for _, r := range s.run.Rounds {
		if r.Arm == record.Head {
			ids = append(ids, r.FailedIDs...)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return nil
	}
	w := words{say("Answers that failed a content check on head: ")}
	for i, id := range ids[:min(5, len(ids))] {
		if i > 0 {
			w = append(w, say(", "))
		}
		w = append(w, name(id))
	}
	if len(ids) > 5 {
		w = append(w, say(" and %s more", count(len(ids)-5)))
	}
	return []block{{kind: bullet, line: append(w, say("."))}}
}

// errorFact is line 1 of a head that fails requests which base serves.
func (s *scribe) errorFact() words {
	e := s.j.Errors
	return words{say("failed requests: base %s, head %s: %s", ofAll(e.Base, e.BaseN), ofAll(e.Head, e.HeadN), kinds(e.Head, e.HeadKinds))}
}

// maxLog is how many lines of a log a report shows.
const maxLog = 50

// logs shows the last lines of what did not build, start or stay up.
func (s *scribe) logs() []block {
	var blocks []block
	for _, incident := range s.run.Incidents {
		if len(incident.Tail) == 0 {
			continue
		}
		lines := incident.Tail[max(0, len(incident.Tail)-maxLog):]
		b := block{kind: logBlock}
		b.line = words{say("Log of %s, ", armText(incident.Arm)), quote(incident.ID, 40)}
		if incident.Exit != nil {
			b.line = append(b.line, say(", exit %d", *incident.Exit))
		}
		b.line = append(b.line, say(", last %d lines", len(lines)))
		if incident.Log != "" {
			b.line = append(b.line, say(" of "), name(incident.Log))
		}
		for _, text := range lines {
			b.log = append(b.log, logLine(text))
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func armText(arm record.Arm) string {
	switch arm {
	case record.Base, record.Head:
		return string(arm)
	default:
		return "the runner"
	}
}
