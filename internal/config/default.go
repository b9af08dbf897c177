package config

import "time"

// Default is the file that sets nothing: every default of the format in one place. The tolerance list is that of services
// that stream.
func Default() *File {
	return &File{
		Version: Version,
		Target: Target{
			BuildTimeout: Duration(30 * time.Minute),
			Ready:        Ready{Timeout: Duration(10 * time.Minute)},
			Stop:         Stop{Signal: "SIGTERM", Grace: Duration(20 * time.Second)},
			Dialect:      "openai-chat",
		},
		Load: Load{Scale: 1, Measure: Duration(6 * time.Minute), SelfTest: Duration(2 * time.Second), Limits: Limits{
			Dial: Duration(5 * time.Second), FirstEvent: Duration(2 * time.Minute), Idle: Duration(time.Minute),
			Total: Duration(10 * time.Minute), Drain: Duration(10 * time.Minute), NoProgress: Duration(time.Minute),
		}},
		Warmup: Warmup{
			Window: Duration(10 * time.Second), Windows: 5, Band: 0.05, MaxErrorRate: 0.001,
			Cap: Duration(10 * time.Minute), Trend: 0.03, TrendWindows: 10,
		},
		Rounds:       Rounds{Min: 4, Max: 8, MaxVoid: 2},
		Conditioning: Conditioning{Base: Duration(30 * time.Second), HeadMax: Duration(3 * time.Minute)},
		Cooldown:     Cooldown{Pause: Duration(time.Minute), Limit: Duration(10 * time.Minute)},
		Tolerance:    DefaultTolerances(),
		Drift:        Drift{MaxBase: 0.10},
		Verdict:      Verdict{Alpha: 0.05, FailMargin: "half", Multiplicity: "none", SLOBurden: "not-violated", SLOPreexisting: "warn", Calibration: "off"},
		Telemetry:    Telemetry{Interval: Duration(time.Second), ExpectGPU: true},
	}
}

// derive sets the defaults that depend on other keys, for keys the file did not set.
func (f *File) derive() {
	if !f.policy.has("load.limits.drain") && f.Load.Limits.Total > 0 {
		f.Load.Limits.Drain = f.Load.Limits.Total
	}
	if !f.policy.has("rounds.max_void") {
		f.Rounds.MaxVoid = max(2, f.Rounds.Min/2)
	}
	if !f.policy.has("rounds.max") {
		f.Rounds.Max = max(f.Rounds.Max, min(f.Rounds.Min, maxPairs))
	}
}
