package report

import (
	"fmt"
	"strings"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// validity says whether the rounds can be trusted: a table of the void ones if there are any, and one line always.
func (s *scribe) validity() []block {
	var blocks []block
	if len(s.j.Validity) > 0 {
		g := &grid{head: []string{"slot", "arm", "pair", "rule", "evidence", "run again as"}, align: "rlrlll"}
		for _, v := range s.j.Validity {
			g.add(s.voidRow(v)...)
			blocks = append(blocks, block{kind: bullet, line: s.voidSentence(v), terminalOnly: true})
		}
		web := table(g)
		web.webOnly = true
		blocks = append(blocks, web)
	}
	parts := []words{
		{say("%s", s.tally())}, {say("%s", s.steady())}, {say("%s", s.drift())}, {say("%s", s.generator())}, s.gpu(),
	}
	w := words{say("Validity: ")}
	for i, part := range parts {
		if i > 0 {
			w = append(w, say("; "))
		}
		w = append(w, part...)
	}
	w = append(w, say("."))
	if !s.judged() && len(s.run.Rounds) > 0 {
		w = append(w, say(" The values of the rounds are kept; they were not compared."))
	}
	return append(blocks, block{kind: bullet, line: w})
}

func (s *scribe) voidRow(v record.Void) []words {
	arm, pair, again := missing("unknown slot"), missing("unknown slot"), notRunAgain
	for _, r := range s.run.Rounds {
		if r.Slot == v.Slot {
			arm, pair = inert(string(r.Arm), 8), count(r.Pair+1)
		}
		if r.RerunOf != nil && *r.RerunOf == v.Slot {
			again = "slot " + count(r.Slot)
		}
	}
	return []words{
		cell("%d", v.Slot), cell("%s", arm), cell("%s", pair), {quote(v.Rule, 40)}, {quote(v.Evidence, messageCap)}, cell("%s", again),
	}
}

// voidSentence is a row of the table as a sentence: on a narrow terminal six columns do not fit.
func (s *scribe) voidSentence(v record.Void) words {
	row := s.voidRow(v)
	w := words{bold("Void: "), say("slot ")}
	for i, before := range []string{"", " (", ", pair ", "), ", ": ", "; run again as "} {
		w = append(w, say("%s", before))
		w = append(w, row[i]...)
	}
	if last := row[len(row)-1].plain(); last == notRunAgain {
		w = append(w[:len(w)-2], say("; "+notRunAgain))
	}
	return append(w, say("."))
}

// notRunAgain stands where a void round has no successor.
const notRunAgain = "not run again"

// tally counts planned, run and void rounds per arm, zeros included.
func (s *scribe) tally() string {
	valid, run := 0, 0
	var arms []string
	for _, arm := range []record.Arm{record.Base, record.Head} {
		t, ok := s.j.Rounds[arm]
		if !ok {
			continue
		}
		run += t.Run
		valid += t.Run - t.Void
		arms = append(arms, fmt.Sprintf("%s %d planned, %d run, %d void", arm, t.Planned, t.Run, t.Void))
	}
	if len(arms) == 0 {
		return "no round was run"
	}
	return fmt.Sprintf("%d of %d rounds valid (%s)", valid, run, strings.Join(arms, "; "))
}

// steady says how the warm-ups of the rounds that count ended.
func (s *scribe) steady() string {
	var not []string
	n := 0
	for _, r := range s.run.Rounds {
		if _, isVoid := s.void[r.Slot]; isVoid || r.State != record.RoundComplete {
			continue
		}
		n++
		if r.Steady.End != "confirmed" {
			not = append(not, count(r.Slot))
		}
	}
	switch {
	case n == 0:
		return "steady state n/a (no valid round)"
	case len(not) > 0:
		return "not shown to be steady before measuring: slot " + strings.Join(not, ", ")
	default:
		return "steady before measuring"
	}
}

// drift says how far the machine itself moved.
func (s *scribe) drift() string {
	x, ok := s.j.Drift.Change.Finite()
	if !ok {
		return "base drift not judged (" + inert(s.j.Drift.Change.Reason(), nameCap) + ")"
	}
	limit := s.j.Drift.Limit
	limitD, digits := beside(limit*100, trimmed(limit*100, 2), 1, abs(x)*100)
	text := fmt.Sprintf("base drift %s %% (limit %s %%", fixed(abs(x)*100, digits[0]), fixed(limit*100, limitD))
	if abs(x) > limit/2 && abs(x) <= limit {
		text += ", warned from " + limitShare(limit/2)
	}
	return text + ")"
}

func abs(x float64) float64 { return max(x, -x) }

// warnings are what the judge wants said although it did not decide.
func (s *scribe) warnings() []block {
	var blocks []block
	for _, f := range s.j.Findings {
		if f.Severity != gate.Warning {
			continue
		}
		blocks = append(blocks, block{kind: bullet, line: words{bold("Warning:"), say(" "), quote(f.Text, messageCap)}})
	}
	return blocks
}
