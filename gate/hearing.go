package gate

import (
	"fmt"
	"slices"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// hearing is what the rules say of some pairs of a run.
type hearing struct {
	docket
	pairs   []pair
	metrics []compared
	slo     []SLOResult
	errors  ErrorComparison
	drift   DriftReport
	// open is true when a finding waits for another pair: the session is then never futile.
	open bool
	// broken is true when head did less or failed: then nothing about it is an improvement.
	broken bool
}

// hear lets every rule that needs numbers speak about some pairs.
func (e *evidence) hear(pairs []pair) *hearing {
	h := &hearing{pairs: pairs, errors: compareErrors(pairs)}
	var drifted float64
	h.drift, drifted = e.drift(pairs)
	h.metrics = e.compareAll(pairs, terms{
		level: e.level, last: e.last(), margin: e.policy.Margin, priors: e.prior.deviations(), leaked: leak(pairs) * max(drifted, -drifted),
	})
	var absent []string
	h.slo, absent = e.judgeSLO(rounds(pairs, record.Base), rounds(pairs, record.Head), h.metrics, h.errors, e.level)
	h.broken = h.errors.Verdict != Pass || len(e.crashed[record.Head]) > 0
	h.ruleRequests()
	h.ruleAbsent(absent)
	h.ruleDrift()
	h.ruleErrors()
	h.ruleAssertions(e)
	h.ruleSLO(e.policy, " of head")
	h.ruleOutput()
	h.ruleMetrics()
	h.ruleSlotEffect()
	h.ruleCalibration(e.prior, e.schedule)
	h.attach()
	return h
}

// ruleRequests refuses to judge rounds without requests.
func (h *hearing) ruleRequests() {
	for _, p := range h.pairs {
		for _, r := range []*record.Round{p.base, p.head} {
			if r.Counts.Attempted() <= 0 {
				h.add(ruling{class: untrusted, Finding: Finding{
					ID: NoRequests, Arm: r.Arm, Slot: slotOf(r), Text: fmt.Sprintf("no request fell into the measured interval of slot %d: the workload or the interval is too short", r.Slot),
				}})
				return
			}
		}
	}
}

// ruleAbsent makes a session invalid in which a metric that must be judged does not exist.
func (h *hearing) ruleAbsent(limits []string) {
	for _, c := range h.metrics {
		if c.Verdict == Invalid {
			h.add(ruling{class: untrusted, Finding: Finding{
				ID: MetricAbsent, Metric: c.Key, Arm: record.Base,
				Text: fmt.Sprintf("%s is gated but no base round has it (%s): gate a metric that this service has", c.metric.Name, c.BaseMedian.Reason()),
			}})
		}
	}
	for _, key := range limits {
		m, known := MetricOf(key)
		if !known {
			m.Name = key
		}
		h.add(ruling{class: untrusted, Finding: Finding{
			ID: MetricAbsent, Metric: key, Arm: record.Head, Text: fmt.Sprintf("%s has a limit but was not measured on head: set a limit on a metric that this service has", m.Name),
		}})
	}
}

// ruleMetrics turns comparisons into rulings, and takes back "improved" where head did less or failed.
func (h *hearing) ruleMetrics() {
	for i := range h.metrics {
		c := &h.metrics[i]
		if h.broken && c.Note == noteImproved {
			c.Note = ""
		}
		f := Finding{ID: c.Cause, Metric: c.Key, Text: c.text()}
		switch c.Verdict {
		case Fail:
			f.Arm = record.Head
			h.add(ruling{class: worse, timing: true, Finding: f})
		case Inconclusive:
			h.open = h.open || c.open
			h.add(ruling{class: undecided, timing: true, Finding: f})
		case Pass, Invalid:
		}
	}
}

// attach puts each limit beside the comparison of its metric.
func (h *hearing) attach() {
	for i := range h.metrics {
		for j := range h.slo {
			if h.slo[j].Key == h.metrics[i].Key {
				h.metrics[i].SLO = new(h.slo[j])
			}
		}
	}
}

// futile reports whether no further pair can change the outcome: some gated metric cannot pass any more, and none can
// fail.
func (h *hearing) futile() bool {
	if h.open || len(h.metrics) == 0 {
		return false
	}
	stuck := slices.ContainsFunc(h.metrics, func(c compared) bool { return c.futility.NoPass && !c.open })
	return stuck && !slices.ContainsFunc(h.metrics, func(c compared) bool { return !c.futility.NoFail })
}

// unsettle makes failing metrics undecided, because something else may explain them.
func (h *hearing) unsettle(cause string) {
	h.soften(true)
	for i := range h.metrics {
		if c := &h.metrics[i]; c.Verdict == Fail {
			c.Verdict, c.Cause = Inconclusive, cause
		}
	}
}
