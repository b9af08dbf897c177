package gate

import (
	"fmt"
	"slices"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Evaluate judges a stored run under a policy. It is pure: the same run and policy give the same judgement, bytes and all.
// The looks, their level and the budget of void pairs are those the run declared before its first round; the policy brings
// the tolerances and limits. A run of kind load is judged by its limits alone; without one its verdict is empty.
func Evaluate(run *record.Run, p Policy) Judgement {
	e := weigh(run, p)
	if run.Kind == record.KindLoad {
		return e.judgeLoad()
	}
	var d docket
	e.ruleSession(&d)
	e.ruleStatus(&d)
	if run.Status == record.StatusCancelled {
		// What a cancelled session could not do may be the cancelling's work.
		d.demote(headCannot, warns)
	}
	if e.uneven() {
		d.rule(undecided, FollowsBuild, "void rounds are uneven between the arms ("+e.unevenText()+"): what disturbs the machine seems to follow one build, so neither a pass nor a slowdown is believed")
	}
	n := e.look(len(e.valid))
	if n == 0 {
		e.ruleTooFew(&d)
		return e.judgement(&d, &hearing{pairs: nil, errors: compareErrors(e.valid), drift: DriftReport{
			Limit: e.policy.MaxBaseDrift, Change: record.NA("too few rounds"), SlotEffect: record.NA("too few pairs"), BaseRange: record.NA("too few rounds"),
		}}, "")
	}
	h := e.hear(e.valid[:n])
	if e.uneven() {
		h.unsettle(FollowsBuild)
	}
	e.ruleResident(h)
	withVoid := e.ruleSensitivity(h, n)
	d.rulings = append(d.rulings, h.rulings...)
	if spare := len(e.valid) - n; spare > 0 {
		d.rule(informs, PairsNotJudged, fmt.Sprintf("%s beyond the look at %d was measured; it is shown, not judged", plural(spare, "valid pair"), n))
	}
	return e.judgement(&d, h, withVoid)
}

// ruleTooFew says that no look was reached. Where void rounds follow one build, or head could not be compared with base at
// all, that is the finding instead.
func (e *evidence) ruleTooFew(d *docket) {
	if e.overBudget() && e.uneven() || d.class() <= untrusted || e.unfit() {
		return
	}
	d.rule(untrusted, TooFewRounds, fmt.Sprintf("%s valid, %d are needed (%s)", plural(len(e.valid), "pair"), e.first(), e.voidSummary()))
}

func (e *evidence) unevenText() string {
	t := e.tally()
	return fmt.Sprintf("base %d of %d, head %d of %d", t[record.Base].Void, t[record.Base].Run, t[record.Head].Void, t[record.Head].Run)
}

// ruleSensitivity judges once more with complete void rounds included. Where that turns a pass into a fail or a fail into
// a pass, leaving rounds out made the verdict, and nothing is decided.
func (e *evidence) ruleSensitivity(h *hearing, n int) Verdict {
	void := len(e.complete) - len(e.valid)
	if void == 0 {
		return ""
	}
	all := e.complete
	if n < len(e.valid) {
		end := e.valid[n].first()
		all = slices.DeleteFunc(slices.Clone(all), func(p pair) bool { return p.first() >= end })
	}
	with, without := e.hear(all).verdict(), h.verdict()
	if with == Pass && without == Fail || with == Fail && without == Pass {
		h.soften(false)
		h.rule(undecided, VoidRoundsMatter, fmt.Sprintf("without the void rounds the verdict would be %s, with them %s: leaving rounds out must not make the verdict", without, with))
		return with
	}
	h.rule(informs, VoidRoundsNeutral, fmt.Sprintf("with the void rounds of %s included the verdict of the numbers would be %s", plural(void, "pair"), with))
	return with
}

// judgement writes down what was found.
func (e *evidence) judgement(d *docket, h *hearing, withVoid Verdict) Judgement {
	j := Judgement{
		Schema: JudgementSchema, Verdict: d.verdict(), PolicySHA256: e.policy.SHA256,
		Level: e.level, Looks: e.looks, Look: e.number(len(h.pairs)), Pairs: len(h.pairs), Spare: len(e.valid) - len(h.pairs),
		Provisional: len(h.pairs) == fewestPairs, WithVoid: withVoid,
		Metrics: make([]Comparison, 0, len(h.metrics)), NotGated: e.notGated, Errors: h.errors, SLO: h.slo,
		Validity: e.voids, Rounds: e.tally(), Drift: h.drift, Calibration: e.prior.use(), Findings: d.findings(),
	}
	if len(h.pairs) == 0 {
		j.Pairs, j.Spare = len(e.valid), 0
	}
	for _, c := range h.metrics {
		j.Metrics = append(j.Metrics, c.Comparison)
	}
	if j.SLO == nil {
		j.SLO = []SLOResult{}
	}
	if j.Validity == nil {
		j.Validity = []record.Void{}
	}
	j.Exit = Exit(j.Verdict)
	if d.class() < warns {
		j.Reason = j.Findings[0].ID
	}
	return j
}

// judgeLoad judges one arm under load: only its limits, with no base to compare it with. One round has no spread between
// rounds, so counts alone bound it, at the level of a single look.
func (e *evidence) judgeLoad() Judgement {
	var head []*record.Round
	for i := range e.run.Rounds {
		if r := &e.run.Rounds[i]; r.State == record.RoundComplete && !e.void[r.Slot] {
			head = append(head, r)
		}
	}
	e.schedule = schedule{looks: []int{1}, level: e.policy.Alpha}
	e.policy.Tolerance, e.notGated = nil, nil
	na := record.NA("one arm only")
	h := &hearing{
		errors: compareErrors(nil),
		drift:  DriftReport{Limit: e.policy.MaxBaseDrift, Change: na, SlotEffect: na, BaseRange: na},
	}
	h.errors.Verdict, h.errors.P = "", na
	for _, r := range head {
		n := tallyFailures(r, h.errors.HeadKinds)
		h.errors.Head += n
		h.errors.HeadN += r.Counts.Attempted()
		if n > 0 {
			h.errors.HeadRounds++
		}
	}
	var d docket
	e.incidents(&d)
	e.crashes(&d)
	e.ruleGPU(&d)
	e.ruleFlags(&d)
	e.ruleStatus(&d)
	e.ruleLoadRounds(&d, len(head))
	if len(head) > 0 {
		var absent []string
		h.slo, absent = e.judgeSLO(nil, head, nil, h.errors, e.level)
		h.ruleAbsent(absent)
		h.ruleSLO(e.policy, "")
		d.rulings = append(d.rulings, h.rulings...)
	}
	j := e.judgement(&d, h, "")
	j.Pairs = 0
	if len(e.policy.SLO) == 0 && j.Verdict == Pass {
		j.Verdict, j.Exit = "", Exit("")
	}
	return j
}

// ruleLoadRounds: without a round that counts there is nothing to judge.
func (e *evidence) ruleLoadRounds(d *docket, rounds int) {
	if rounds > 0 || d.class() <= untrusted {
		return
	}
	if len(e.voids) > 0 {
		v := e.voids[0]
		d.add(ruling{class: untrusted, Finding: Finding{ID: v.Rule, Slot: new(v.Slot), Text: "the round does not count: " + v.Evidence}})
		return
	}
	if slots := e.crashed[record.Head]; len(slots) > 0 {
		d.add(ruling{class: headCannot, Finding: Finding{
			ID: CrashedOnce, Arm: record.Head, Slot: new(slots[0]), Text: "the server stopped answering before it could be measured",
		}})
		return
	}
	d.rule(untrusted, TooFewRounds, "no round was measured whole")
}
