package config

import "time"

// Default is the file that sets nothing: every default of the format in one place. The tolerance list is that of services
// that stream.
func Default() *File {
	return &File{
		Version: Version,
		Gate:    PullRequest,
		Target: Target{
			BuildTimeout: Duration(30 * time.Minute),
			Ready:        Ready{Timeout: Duration(10 * time.Minute)},
			Stop:         Stop{Signal: "SIGTERM", Grace: Duration(20 * time.Second), MemoryTimeout: Duration(time.Minute)},
			Dialect:      "openai-chat",
			Relocatable:  true,
		},
		Load: Load{Scale: 1, Measure: Duration(6 * time.Minute), SelfTest: Duration(2 * time.Second), Limits: Limits{
			Dial: Duration(5 * time.Second), FirstEvent: Duration(2 * time.Minute), Idle: Duration(time.Minute),
			Total: Duration(10 * time.Minute), Drain: Duration(10 * time.Minute), NoProgress: Duration(time.Minute),
		}},
		Warmup: Warmup{
			Window: Duration(10 * time.Second), Windows: 5, Band: 0.05, MaxErrorRate: 0.001,
			Cap: Duration(10 * time.Minute), Trend: 0.03, TrendWindows: 10,
		},
		Rounds:       Rounds{Min: 4, Max: 8, MaxVoid: 2, Mode: ModeRestart},
		Conditioning: Conditioning{Base: Duration(30 * time.Second), HeadMax: Duration(3 * time.Minute)},
		Cooldown:     Cooldown{Pause: Duration(time.Minute), Limit: Duration(10 * time.Minute)},
		Tolerance:    DefaultTolerances(),
		Drift:        Drift{MaxBase: 0.10},
		Verdict:      Verdict{Alpha: 0.05, FailMargin: "half", Multiplicity: "none", SLOBurden: "not-violated", SLOPreexisting: "warn", Calibration: "off"},
		Telemetry:    Telemetry{Interval: Duration(time.Second), ExpectGPU: true},
	}
}

// What a verdict is for: the values of gate.
const (
	PullRequest = "pr"
	Release     = "release"
)

// presetOf is what the gate sets where the file writes nothing: what is shipped is shown to hold, where a pull request is only
// not shown to break.
func presetOf(gate string) (mostRounds int, v Verdict) {
	if gate == Release {
		return maxPairs, Verdict{FailMargin: "full", SLOBurden: "proven", SLOPreexisting: "fail"}
	}
	d := Default()
	return d.Rounds.Max, d.Verdict
}

// For sets what the verdict is for in place of the file's own gate, and with it the defaults of keys that the file does not
// write. An empty one leaves the file as it is.
func (f *File) For(gate string) {
	if gate != "" {
		f.Gate = gate
		f.derive()
	}
}

// derive sets the defaults that depend on other keys, for keys the file did not set.
func (f *File) derive() {
	if !f.policy.has("load.limits.drain") && f.Load.Limits.Total > 0 {
		f.Load.Limits.Drain = f.Load.Limits.Total
	}
	if f.Reset.Path != "" && f.Reset.Method == "" {
		f.Reset.Method = "POST"
	}
	if f.Reset.Path != "" && !f.policy.has("reset.expect.status") {
		f.Reset.Expect.Status = 200
	}
	if !f.policy.has("rounds.max_void") {
		f.Rounds.MaxVoid = max(2, f.Rounds.Min/2)
	}
	most, v := presetOf(f.Gate)
	if !f.policy.has("rounds.max") {
		f.Rounds.Max = max(most, min(f.Rounds.Min, maxPairs))
	}
	if !f.policy.has("verdict.fail_margin") {
		f.Verdict.FailMargin = v.FailMargin
	}
	if !f.policy.has("verdict.slo_burden") {
		f.Verdict.SLOBurden = v.SLOBurden
	}
	if !f.policy.has("verdict.slo_preexisting") {
		f.Verdict.SLOPreexisting = v.SLOPreexisting
	}
}
