package gate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// ruleSession lets the rules speak that need no number of a metric. They hold at any moment of a session.
func (e *evidence) ruleSession(d *docket) {
	e.incidents(d)
	e.crashes(d)
	e.ruleGated(d)
	e.ruleGPU(d)
	e.ruleServers(d)
	e.ruleEnvironment(d)
	if e.overBudget() && !e.uneven() {
		d.rule(untrusted, VoidBudget, fmt.Sprintf("%s had to be measured again, the budget is %d (%s)", plural(e.spoiled, "pair"), e.maxVoid, e.voidSummary()))
	}
	e.ruleFlags(d)
	e.ruleIgnored(d)
}

// ruleGated: a list with nothing on it can only be invalid, never a pass.
func (e *evidence) ruleGated(d *docket) {
	for _, key := range slices.Sorted(maps.Keys(e.policy.Tolerance)) {
		if _, known := MetricOf(key); !known || key == ErrorRate {
			d.add(ruling{class: untrusted, Finding: Finding{ID: MetricAbsent, Metric: key, Text: fmt.Sprintf("the policy gates %q, which is no metric with a tolerance", key)}})
		}
	}
	if len(e.policy.Tolerance)+len(e.policy.SLO) > 0 {
		return
	}
	text := "no metric and no SLO is gated: nothing was asked"
	if len(e.notGated) > 0 {
		text = fmt.Sprintf("none of the metrics can be gated (%s: %s)", e.notGated[0].Key, e.notGated[0].Reason)
	}
	d.rule(untrusted, NothingGated, text)
}

// ruleGPU: where the policy requires it, every round must have been watched. What was not seen is said in any case.
func (e *evidence) ruleGPU(d *docket) {
	reason, unseen := e.run.Environment.GPUReason, len(e.run.Environment.GPUs) == 0
	throttle := ""
	for _, r := range e.run.Rounds {
		if r.State != record.RoundComplete {
			continue
		}
		if len(r.Machine.GPUs) == 0 {
			reason, unseen = orElse(reason, r.Machine.GPUReason), true
		}
		for _, g := range r.Machine.GPUs {
			if g.Reasons == nil {
				throttle = orElse(throttle, orElse(g.ReasonsNA, record.NotMeasured))
			}
		}
	}
	reason = orElse(sentence(reason), "no reading")
	switch {
	case unseen && e.policy.RequireGPU:
		d.rule(untrusted, record.TelemetryMissing, "the policy requires GPU readings and there are none: "+reason)
	case unseen && e.run.Declared.Telemetry.GPU == "off":
		d.rule(informs, GPUUnseen, "GPU state: off by configuration")
	case unseen:
		d.rule(warns, GPUUnseen, "GPU state not captured: "+reason)
	case throttle != "":
		d.rule(informs, ThrottleUnseen, "throttling not observed: "+sentence(throttle))
	}
}

// ruleEnvironment: all rounds must have run on the same GPUs, in the same order: which of them does which share of the work
// follows from it.
func (e *evidence) ruleEnvironment(d *docket) {
	var first []string
	for i := range e.run.Rounds {
		r := &e.run.Rounds[i]
		var uuids []string
		for _, g := range r.Machine.GPUs {
			uuids = append(uuids, g.UUID)
		}
		switch {
		case len(uuids) == 0:
		case first == nil:
			first = uuids
		case !slices.Equal(first, uuids):
			how := "on other GPUs than the rounds before it"
			if slices.Equal(slices.Sorted(slices.Values(first)), slices.Sorted(slices.Values(uuids))) {
				how = "on the GPUs of the rounds before it in another order"
			}
			d.add(ruling{class: untrusted, Finding: Finding{
				ID: EnvironmentMoved, Arm: r.Arm, Slot: slotOf(r), Text: fmt.Sprintf("slot %d ran %s: %v, not %v", r.Slot, how, uuids, first),
			}})
			return
		}
	}
}

// ruleFlags repeats what the rounds say against themselves without being void.
func (e *evidence) ruleFlags(d *docket) {
	doubts := []struct{ id, text string }{
		{StartedFailing, "requests still failed when the measured interval began"},
		{NotSteady, "the service was not steady during the measured interval"},
		{BunchedStream, "answers arrived bunched, as if a proxy or the server held them back"},
		{ClientLimited, "requests waited for a place under max_in_flight; that wait is in their latency"},
	}
	slots := map[string][]int{}
	for i := range e.run.Rounds {
		r := &e.run.Rounds[i]
		if e.void[r.Slot] || r.State != record.RoundComplete {
			continue
		}
		for _, f := range doubts {
			if slices.Contains(r.Flags, f.id) {
				slots[f.id] = append(slots[f.id], r.Slot)
			}
		}
		for _, c := range clientRules() {
			if g, _ := c.weigh(suspect{Round: r, run: e.run, wire: r.Client.WireSHA256}); g == warn {
				slots[c.warn] = append(slots[c.warn], r.Slot)
			}
		}
	}
	for _, c := range clientRules() {
		doubts = append(doubts, struct{ id, text string }{c.warn, c.text})
	}
	for _, f := range doubts {
		if at := slots[f.id]; len(at) > 0 {
			d.add(ruling{class: warns, Finding: Finding{ID: f.id, Slot: new(at[0]), Text: f.text + " (slots " + list(at) + ")"}})
		}
	}
}

// ruleStatus: only a run that came to its own end, or to its deadline, can be judged pass.
func (e *evidence) ruleStatus(d *docket) {
	switch e.run.Status {
	case record.StatusComplete:
	case record.StatusDeadline:
		d.rule(warns, Deadline, "the session's time was over before it had decided; it is judged on the looks it reached")
	case record.StatusCancelled:
		d.rule(untrusted, record.Cancelled, fmt.Sprintf("the session was cancelled after %s; what was measured is kept", plural(len(e.run.Rounds), "round")))
	case record.StatusBroken:
		if d.class() > untrusted {
			d.rule(untrusted, Unfinished, "the session broke off; what was measured is kept")
		}
	case record.StatusPlanned, record.StatusRunning:
		d.rule(untrusted, Unfinished, "the session did not come to an end: tailgate or its machine stopped in between")
	default:
		d.rule(untrusted, Unfinished, "the session has no known end")
	}
}
