package gate

import "github.com/tailgate-ci/tailgate/runner/record"

// Margin says how much slower than its tolerance head must be shown to be before a metric fails.
type Margin string

// The margins: half demands a lower bound over half the tolerance, full over the whole of it.
const (
	MarginHalf Margin = "half"
	MarginFull Margin = "full"
)

// Multiplicity says how a failing metric answers for the others that were looked at beside it.
type Multiplicity string

// The answers to many metrics: none judges each by itself, since the margin keeps false failures rare; holm asks the more of
// a failing metric the more are gated.
const (
	MultiplicityNone Multiplicity = "none"
	MultiplicityHolm Multiplicity = "holm"
)

// Burden says who carries the doubt about an SLO.
type Burden string

// The burdens: with not-violated an SLO at risk passes with a warning, with proven it is inconclusive.
const (
	NotViolated Burden = "not-violated"
	Proven      Burden = "proven"
)

// Preexisting says what happens when base breaks the SLO too.
type Preexisting string

// The answers to an SLO that base breaks too.
const (
	PreexistingWarn Preexisting = "warn"
	PreexistingFail Preexisting = "fail"
)

// Policy is what a team declared it wants to hold: tolerances, SLO, and how strictly both are proven. The zero value
// gates nothing, which judges as invalid.
type Policy struct {
	// SHA256 identifies the policy as declared, 64 hex.
	SHA256 string
	// Tolerance holds the gated metrics other than the error rate, by key ("ttft_p99"); the error rate is always gated.
	Tolerance map[string]Tolerance
	// SLO holds absolute limits on head by metric key, in the metric's unit (ms, tok/s, fraction).
	SLO map[string]float64
	// Alpha is the one-sided error level of a single look, a fraction; 0 means 0.05.
	Alpha        float64
	Margin       Margin
	Multiplicity Multiplicity
	Burden       Burden
	// Preexisting is what an SLO that base breaks too leads to.
	Preexisting Preexisting
	// MaxBaseDrift is the fraction the machine may drift over the session; 0 means 0.10.
	MaxBaseDrift float64
	// Min and Max count pairs: the first and the last look. MaxVoid is the budget of extra pairs; -1 means the default,
	// max(2, Min/2).
	Min, Max, MaxVoid int
	// Calibration is what an A/A session on this machine found; nil for none. It narrows the bounds of metrics whose noise it
	// knows, where it is fit for the run.
	Calibration *record.Calibration
	// RequireGPU voids nothing by itself: with it a run without GPU readings is invalid.
	RequireGPU bool
}

// Tolerance is how much worse head may be than base in one metric.
type Tolerance struct {
	// Relative is a fraction in (0, 1): 0.05 is 5 %.
	Relative float64
	// Absolute is in the metric's unit; a change must exceed both. 0 means none.
	Absolute float64
	// Force gates the metric although a round has too few requests for it.
	Force bool
	// Named is true when the policy names the metric itself, false when it comes from the default list.
	Named bool
}
