package gate

import "github.com/tailgate-ci/tailgate/runner/record"

// JudgementSchema is the version of judgement.json this package writes.
const JudgementSchema = 1

// Verdict is the answer of the gate. The empty verdict means that nothing was judged.
type Verdict string

// The verdicts; README section "Exit codes" and docs/exit-codes.md have their exit codes.
const (
	Pass         Verdict = "pass"
	Fail         Verdict = "fail"
	Inconclusive Verdict = "inconclusive"
	Invalid      Verdict = "invalid"
)

// Judgement is what the gate says of one run under one policy: judgement.json. It is a value; nothing in it changes after
// [Evaluate] returns.
type Judgement struct {
	Schema  int     `json:"schema"`
	Verdict Verdict `json:"verdict"`
	Exit    int     `json:"exit"`
	// Reason is the id of the deciding finding, empty for a pass.
	Reason string `json:"reason"`
	// Line is line 1 of the report as plain text, at most 200 characters. The renderer writes it.
	Line string `json:"line"`

	PolicySHA256 string `json:"policy_sha256"`
	RunSHA256    string `json:"run_sha256,omitempty"`
	// Level is the one-sided error level of this look, a fraction. Look is its number from 1; Looks the schedule of pairs.
	Level float64 `json:"level"`
	Look  int     `json:"look"`
	Looks []int   `json:"looks"`
	// Pairs counts the valid pairs judged, those of the last look that was reached; Spare those measured beyond it, shown
	// and not judged. Provisional is true with 3 pairs.
	Pairs       int  `json:"pairs"`
	Spare       int  `json:"spare_pairs,omitempty"`
	Provisional bool `json:"provisional"`
	// WithVoid is the verdict that would hold with complete void rounds included; empty when there are none.
	WithVoid Verdict `json:"with_void,omitempty"`

	// Metrics holds one comparison per gated metric, in the order FAIL, inconclusive, then by |change| / tolerance.
	Metrics []Comparison `json:"metrics"`
	// NotGated explains metrics of the default list that were shown, not gated.
	NotGated []NotGated `json:"not_gated,omitempty"`
	// Errors compares first-attempt failures.
	Errors ErrorComparison `json:"errors"`
	SLO    []SLOResult     `json:"slo"`
	// Validity lists the void rounds; Rounds the counts planned / run / void per arm.
	Validity []record.Void             `json:"validity"`
	Rounds   map[record.Arm]RoundTally `json:"rounds"`
	Drift    DriftReport               `json:"drift"`
	// Calibration says what became of the policy's calibration; nil when it names none.
	Calibration *CalibrationUse `json:"calibration,omitempty"`
	// Findings are all rules that spoke, the deciding one first.
	Findings []Finding `json:"findings"`
}

// RoundTally counts the rounds of one arm.
type RoundTally struct {
	Planned int `json:"planned"`
	Run     int `json:"run"`
	Void    int `json:"void"`
}

// Comparison is the verdict on one gated metric. Logarithms of ratios are positive when head is worse.
type Comparison struct {
	// Key is the metric's key, e.g. "ttft_p99".
	Key     string  `json:"key"`
	Verdict Verdict `json:"verdict"`
	// Note is "improved", "slower, within tolerance" or empty.
	Note string `json:"note,omitempty"`
	// Cause is the id of the finding that says why the metric does not pass: metric_worse, too_noisy, near_tolerance,
	// tolerance_below_noise, multiplicity, unbounded, base_unbounded, metric_missing, gated_metric_absent, drift_leaks, bunched_stream,
	// token_source, coalescing_differs, too_few_requests, instability_follows_build, client_could_explain. Empty for a pass.
	Cause string `json:"cause,omitempty"`
	Unit  string `json:"unit"`
	// BaseMedian and HeadMedian are over valid rounds, in Unit.
	BaseMedian record.Value `json:"base"`
	HeadMedian record.Value `json:"head"`
	// R is the log ratio of medians, D the mean pair difference, S the standard deviation of the pairs (floored, and moderated
	// where Moderation says so), L and U the bounds of D.
	R record.Value `json:"R"`
	D record.Value `json:"dbar"`
	S record.Value `json:"s"`
	L record.Value `json:"L"`
	U record.Value `json:"U"`
	// HL is the Hodges-Lehmann centre of the pair differences where it lies more than a standard error from D, else n/a.
	// It informs and never decides.
	HL record.Value `json:"hl"`
	// Moderation is what a calibration did to S; nil without one.
	Moderation *Moderation `json:"moderation,omitempty"`
	// T is the tolerance as a log ratio; Tolerance the same as a fraction, after an absolute floor was applied.
	T         float64 `json:"T"`
	Tolerance float64 `json:"tolerance"`
	// N counts pairs; PairD holds each pair's difference in order, but for pairs in which a value is missing or infinite;
	// Worse counts the pairs in which head was worse.
	N     int       `json:"n"`
	PairD []float64 `json:"pairs"`
	Worse int       `json:"worse"`
	// HigherIsBetter is true for throughput: the renderer flips the sign back.
	HigherIsBetter bool `json:"higher_is_better,omitempty"`
	// Resolution and MDE80 are fractions: the smallest tolerance that could have passed, and the smallest slowdown shown
	// to be over zero with power 0.8.
	Resolution record.Value `json:"resolution"`
	MDE80      record.Value `json:"mde80"`
	// PairsNeeded is how many pairs would settle an inconclusive metric; 0 when settled, 101 for "over 100".
	PairsNeeded int `json:"pairs_needed,omitempty"`
	// Longer is how many times as long the rounds would have to be to settle it within the last look, above 1 and at most 4;
	// n/a when settled, not known, or where longer rounds do not help.
	Longer record.Value `json:"longer"`
	// Futile is true when no further pair could have changed the outcome.
	Futile bool `json:"futile,omitempty"`
	// SLO is the state of the metric's limit, nil without one.
	SLO *SLOResult `json:"slo,omitempty"`
}

// NotGated is a metric of the default list that a round is too small for, or that this service does not have.
type NotGated struct {
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

// ErrorComparison is rule 2 of the failures section: first attempts only.
type ErrorComparison struct {
	Verdict Verdict `json:"verdict"`
	// Base and Head count failures, of BaseN and HeadN attempted requests in valid rounds.
	Base  int `json:"base"`
	Head  int `json:"head"`
	BaseN int `json:"base_n"`
	HeadN int `json:"head_n"`
	// P is the chance of at least Head failures if both arms failed alike.
	P record.Value `json:"p"`
	// BaseKinds and HeadKinds count by outcome class. HeadRounds counts head rounds with a failure.
	BaseKinds  map[record.Outcome]int `json:"base_kinds"`
	HeadKinds  map[record.Outcome]int `json:"head_kinds"`
	HeadRounds int                    `json:"head_rounds"`
}

// SLOState is where head stands with one limit.
type SLOState string

// The states of a limit.
const (
	SLOMet         SLOState = "met"
	SLOViolated    SLOState = "violated"
	SLOAtRisk      SLOState = "at_risk"
	SLONotProvable SLOState = "not_provable"
)

// SLOResult is one limit, judged for head and, to attribute, for base.
type SLOResult struct {
	Key   string  `json:"key"`
	Limit float64 `json:"limit"`
	Unit  string  `json:"unit"`
	// State is head's; BaseState base's, empty when base was not measured.
	State     SLOState `json:"state"`
	BaseState SLOState `json:"base_state,omitempty"`
	// Preexisting is true when base violates it too and the metric itself passes.
	Preexisting bool `json:"preexisting,omitempty"`
	// Value is head's central value in Unit (geometric mean of rounds' medians for percentiles, the rate for rates).
	Value record.Value `json:"value"`
	// Beyond of N requests lay over the limit, failures included; Up and Lo bound their share.
	Beyond int          `json:"beyond"`
	N      int          `json:"n"`
	Up     record.Value `json:"up"`
	Lo     record.Value `json:"lo"`
	// Needs is how many requests could prove the limit at this level; 0 when this size can.
	Needs int `json:"needs,omitempty"`
}

// DriftReport is how far the machine moved.
type DriftReport struct {
	// Key is the metric with the largest drift; Change its fitted drift over the session as a fraction, n/a when not
	// judged.
	Key    string       `json:"key,omitempty"`
	Change record.Value `json:"change"`
	Limit  float64      `json:"limit"`
	// SlotEffect is how much worse the second round of a pair is, a log ratio, of the metric in Key.
	SlotEffect record.Value `json:"slot_effect"`
	// BaseRange is how far apart base's own rounds lie in Key: largest / smallest - 1, a fraction.
	BaseRange record.Value `json:"base_range"`
}

// Severity orders findings.
type Severity string

// The severities: a finding decides the verdict, warns, or informs.
const (
	Deciding Severity = "deciding"
	Warning  Severity = "warning"
	Info     Severity = "info"
)

// Finding is one rule that spoke: its id, what it is about, and one sentence.
type Finding struct {
	ID       string     `json:"id"`
	Severity Severity   `json:"severity"`
	Metric   string     `json:"metric,omitempty"`
	Arm      record.Arm `json:"arm,omitempty"`
	Slot     *int       `json:"slot,omitempty"`
	Text     string     `json:"text"`
}
