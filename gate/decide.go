package gate

import (
	"fmt"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Decide says whether a session that is under way may stop. It stops at a look when the verdict is there, when the looks
// are over, or when no further pair can change the outcome; between looks only when something ended the session or took
// its verdict away. It may be asked after every round.
func Decide(run *record.Run, p Policy) record.Next {
	e := weigh(run, p)
	var d docket
	e.ruleSession(&d)
	if d.class() <= untrusted || e.unfit() {
		return record.Next{Stop: true, Reason: d.findings()[0].Text}
	}
	if e.overBudget() {
		return record.Next{Stop: true, Reason: "the budget of void pairs is spent"}
	}
	n := len(e.valid)
	look := e.number(n)
	if look == 0 {
		return record.Next{Reason: fmt.Sprintf("%s so far, the next look is at %d", plural(n, "valid pair"), e.next(n))}
	}
	h := e.hear(e.valid)
	if e.uneven() {
		h.unsettle(FollowsBuild)
		h.rule(undecided, FollowsBuild, "void rounds follow one build")
	}
	e.ruleResident(h)
	e.ruleSensitivity(h, n)
	d.rulings = append(d.rulings, h.rulings...)
	at := fmt.Sprintf("look %d of %d, %s", look, len(e.looks), plural(n, "pair"))
	switch v := d.verdict(); {
	case v != Inconclusive:
		return record.Next{Stop: true, Reason: at + ": " + string(v)}
	case n >= e.last():
		return record.Next{Stop: true, Reason: at + ": inconclusive, and it was the last"}
	case len(e.crashed[record.Head]) == 0 && h.futile():
		return record.Next{Stop: true, Reason: at + ": inconclusive, and no further pair can change that"}
	default:
		return record.Next{Reason: fmt.Sprintf("%s: undecided, going on to %d", at, e.next(n))}
	}
}

// next is the first look beyond n pairs; the last look when there is none.
func (s schedule) next(n int) int {
	for _, look := range s.looks {
		if look > n {
			return look
		}
	}
	return s.last()
}
