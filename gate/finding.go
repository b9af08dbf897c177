package gate

import (
	"cmp"
	"slices"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// The ids of findings. Ids of incidents are those of package record, with base_ before them where they say that base
// cannot be measured.
const (
	MetricWorse       = "metric_worse"
	Unbounded         = "unbounded"
	BaseUnbounded     = "base_unbounded"
	MetricMissing     = "metric_missing"
	MetricAbsent      = "gated_metric_absent"
	DriftLeaks        = "drift_leaks"
	TooNoisy          = "too_noisy"
	NearTolerance     = "near_tolerance"
	ToleranceTooFine  = "tolerance_below_noise"
	Multiple          = "multiplicity"
	BunchedStream     = "bunched_stream"
	TokenSourceMixed  = "token_source"
	CutDiffers        = "coalescing_differs"
	TooFewRequests    = "too_few_requests"
	MoreFailures      = "more_failures"
	FailuresOneRound  = "failures_in_one_round"
	AssertionBroke    = "assertion_regressed"
	CrashedTwice      = "crashed"
	CrashedOnce       = "crashed_once"
	BaseCrashed       = "base_crashed"
	SLOBroken         = "slo_violated"
	SLOOldBreak       = "slo_preexisting"
	SLODoubtful       = "slo_at_risk"
	BaseDrift         = "base_drift"
	VoidBudget        = "void_budget"
	TooFewRounds      = "too_few_rounds"
	EnvironmentMoved  = "environment_changed"
	NothingGated      = "nothing_gated"
	NoRequests        = "no_requests"
	Unfinished        = "unfinished"
	UnknownIncident   = "unknown_incident"
	FollowsBuild      = "instability_follows_build"
	VoidRoundsMatter  = "void_rounds_matter"
	VoidRoundsNeutral = "void_rounds_included"
	SlotPenalty       = "slot_effect"
	OutputDiffers     = "output_tokens_differ"
	NotSteady         = "not_steady"
	StartedFailing    = "started_with_failures"
	LateGenerator     = "pacer_late"
	BusyGenerator     = "generator_busy"
	UnevenGenerator   = "send_rate_off"
	LateReader        = "canary_late"
	SlowScheduler     = "scheduler_late"
	LongCollections   = "gc_pauses"
	ClientLimited     = "client_limited"
	ClientExplains    = "client_could_explain"
	GPUUnseen         = "gpu_not_observed"
	ThrottleUnseen    = "throttling_not_observed"
	Deadline          = "deadline"
	PairsNotJudged    = "pairs_not_judged"
	StartedSecondTry  = "started_at_second_try"

	CalibrationIgnored     = "calibration_ignored"
	CalibrationNotPass     = "calibration_not_pass"
	RoundsRemember         = "rounds_remember"
	NoisierThanCalibration = "noisier_than_calibration"
	ToleranceUnsupported   = "tolerance_below_supported"
)

// class ranks what rules say: the first class in which any rule spoke gives the verdict.
type class int

const (
	headCannot class = iota
	untrusted
	worse
	undecided
	warns
	informs
)

func (c class) verdict() Verdict {
	switch c {
	case headCannot, worse:
		return Fail
	case untrusted:
		return Invalid
	case undecided:
		return Inconclusive
	default:
		return Pass
	}
}

// ruling is what one rule says.
type ruling struct {
	class class
	// timing is true when it rests on latency or throughput, which unstable rounds may explain.
	timing bool
	Finding
}

// docket collects rulings in the order in which they deserve to be read.
type docket struct{ rulings []ruling }

func (d *docket) add(r ruling) { d.rulings = append(d.rulings, r) }

func (d *docket) rule(c class, id, text string) {
	d.add(ruling{class: c, Finding: Finding{ID: id, Text: text}})
}

// class is the highest that spoke.
func (d *docket) class() class {
	top := informs
	for _, r := range d.rulings {
		top = min(top, r.class)
	}
	return top
}

func (d *docket) verdict() Verdict { return d.class().verdict() }

// soften turns what would fail into a warning; only what rests on timing, if so asked.
func (d *docket) soften(timingOnly bool) {
	for i, r := range d.rulings {
		if r.class == worse && (r.timing || !timingOnly) {
			d.rulings[i].class = warns
		}
	}
}

// demote moves every ruling of one class to another.
func (d *docket) demote(from, to class) {
	for i := range d.rulings {
		if d.rulings[i].class == from {
			d.rulings[i].class = to
		}
	}
}

// findings lists all rulings, those that decide first.
func (d *docket) findings() []Finding {
	top := d.class()
	sorted := slices.Clone(d.rulings)
	slices.SortStableFunc(sorted, func(a, b ruling) int { return cmp.Compare(a.class, b.class) })
	list := make([]Finding, 0, len(sorted))
	for _, r := range sorted {
		f := r.Finding
		switch {
		case r.class == informs:
			f.Severity = Info
		case r.class == top && r.class < warns:
			f.Severity = Deciding
		default:
			f.Severity = Warning
		}
		list = append(list, f)
	}
	return list
}

// slotOf makes an optional slot number.
func slotOf(r *record.Round) *int { return new(r.Slot) }
