package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// maxPairs is the largest number of pairs a session may plan.
const maxPairs = 12

// maxStreams is the largest number of requests in flight that may be asked for: more than any machine has ports for.
const maxStreams = 60_000

// rule is one demand on the values of a file.
type rule struct {
	path string
	bad  bool
	text string
	hint string
}

// check returns the first broken rule, nil when the file can be used.
func (f *File) check() error {
	policy := slices.Concat(f.versionRules(), f.loadRules(), f.warmupRules(), f.roundRules(), f.sloRules(), f.limitRules(),
		f.toleranceRules(), f.verdictRules(), f.armRules(), f.standingRules(), f.baselineRules())
	if err := f.policy.first(policy); err != nil {
		return err
	}
	return f.target.first(f.targetRules())
}

func (s source) first(rules []rule) error {
	for _, r := range rules {
		if r.bad {
			return s.fault(r.path, r.path+": "+r.text, r.hint)
		}
	}
	return nil
}

func (f *File) versionRules() []rule {
	return []rule{
		{"version", !f.policy.has("version"), "missing", "begin with: version: 1"},
		{"version", f.Version != Version, fmt.Sprintf("%d is not known", f.Version), "this tailgate reads version 1"},
	}
}

func (f *File) loadRules() []rule {
	l := f.Load
	return []rule{
		{
			"load.scale", l.Scale != 1, plain(l.Scale) + " would not be the workload its digest names",
			"build a workload at that scale with tailgate workload build, and leave 1 here",
		},
		below("load.measure", l.Measure, time.Second),
		{
			"load.self_test", l.SelfTest != 0 && l.SelfTest < Duration(200*time.Millisecond), l.SelfTest.String() + " is too short to measure anything",
			"write 200ms or more, or 0s to skip it",
		},
		outside("load.concurrency", l.Concurrency, 0, maxStreams),
		outside("load.max_in_flight", l.MaxInFlight, 0, maxStreams),
		{
			"load.max_in_flight", l.Concurrency > 0 && l.MaxInFlight > 0,
			fmt.Sprintf("a closed loop of %d slots never has more requests in flight", l.Concurrency), "leave out one of load.concurrency and load.max_in_flight",
		},
		{
			"load.scale", l.Concurrency > 0 && f.policy.has("load.scale"), "a closed loop has no arrival rate to scale: its slots send as fast as the service answers",
			"leave out one of load.concurrency and load.scale",
		},
		{"load.think", l.Think > 0 && l.Concurrency == 0, "an open loop has no slots that rest", "set load.concurrency, or leave load.think out"},
		{
			"load.think", l.Think >= l.Measure && l.Think > 0, l.Think.String() + " is not shorter than load.measure " + l.Measure.String() + ": each slot would send once",
			"shorten it or lengthen load.measure",
		},
		{
			"load.limits.drain", l.Limits.Drain <= 0, "0s would cut every request that is open when the interval ends",
			"write how long the last ones may take, or leave it out",
		},
	}
}

// below is broken when a duration is shorter than the smallest one taken.
func below(path string, d Duration, smallest time.Duration) rule {
	return rule{path, d < Duration(smallest), d.String() + " is too short", "the shortest is " + Duration(smallest).String()}
}

// outside is broken when a number is not in [low, high].
func outside(path string, x, low, high int) rule {
	return rule{path, x < low || x > high, fmt.Sprintf("%d is out of range", x), fmt.Sprintf("write %d to %d", low, high)}
}

func (f *File) warmupRules() []rule {
	w := f.Warmup
	// In float64: a product of durations may not fit one.
	shortest := float64(w.Window) * float64(max(w.Windows, w.TrendWindows))
	return []rule{
		below("warmup.window", w.Window, 100*time.Millisecond),
		outside("warmup.windows", w.Windows, 2, 1000),
		outside("warmup.trend_windows", w.TrendWindows, 2, 1000),
		{
			"warmup.trend_windows", w.TrendWindows < w.Windows,
			fmt.Sprintf("%d is less than warmup.windows %d", w.TrendWindows, w.Windows), "the trend is taken over at least as many windows",
		},
		{"warmup.band", w.Band <= 0 || w.Band > 0.5, w.Band.String() + " is out of range", "write above 0% and at most 50%"},
		{"warmup.max_error_rate", w.MaxErrorRate > 1, w.MaxErrorRate.String() + " is out of range", "write 0% to 100%"},
		{"warmup.trend", w.Trend <= 0 || w.Trend > 0.5, w.Trend.String() + " is out of range", "write above 0% and at most 50%"},
		{
			"warmup.cap", float64(w.Cap) < shortest, w.Cap.String() + " ends before steady state can be confirmed",
			fmt.Sprintf("%d windows of %s are needed", max(w.Windows, w.TrendWindows), w.Window),
		},
		{"warmup.min", w.Min > w.Cap, w.Min.String() + " is longer than warmup.cap " + w.Cap.String(), "lengthen the cap or shorten min"},
	}
}

func (f *File) roundRules() []rule {
	r := f.Rounds
	return []rule{
		outside("rounds.min", r.Min, 3, maxPairs),
		{"rounds.max", r.Max < r.Min, fmt.Sprintf("%d is less than rounds.min %d", r.Max, r.Min), fmt.Sprintf("write %d to %d", r.Min, maxPairs)},
		outside("rounds.max", r.Max, r.Min, maxPairs),
		outside("rounds.max_void", r.MaxVoid, 0, 100),
	}
}

func (f *File) sloRules() []rule {
	var rules []rule
	for _, key := range slices.Sorted(maps.Keys(f.SLO)) {
		x, unit := f.SLO[key], unitOf(key)
		rules = append(
			rules,
			rule{"slo." + key, x <= 0, written(unit, x) + " is not a limit", "write more than 0"},
			rule{"slo." + key, unit == unitFraction && x > 1, written(unit, x) + " is out of range", "write at most 100%"},
		)
	}
	return rules
}

// limitRules hold the client's limits above the SLO: a limit at or below it would decide the SLO in place of the service.
func (f *File) limitRules() []rule {
	limits := []struct {
		name  string
		value Duration
		stems []string
	}{
		{"first_event", f.Load.Limits.FirstEvent, []string{"ttft"}},
		{"idle", f.Load.Limits.Idle, []string{"itl", "icl"}},
		{"total", f.Load.Limits.Total, latencies},
		{"drain", f.Load.Limits.Drain, latencies},
		{"no_progress", f.Load.Limits.NoProgress, latencies},
	}
	var rules []rule
	for _, key := range slices.Sorted(maps.Keys(f.SLO)) {
		stem, _, _ := strings.Cut(key, "_")
		slo := f.SLO[key]
		for _, l := range limits {
			if l.value == 0 || !slices.Contains(l.stems, stem) {
				continue
			}
			ms := float64(l.value) / float64(time.Millisecond)
			rules = append(rules, rule{
				"slo." + key, ms <= slo,
				fmt.Sprintf("%s is not below load.limits.%s %s, which cuts the requests it is about", written(unitMS, slo), l.name, l.value),
				"raise load.limits." + l.name + " above it",
			})
		}
	}
	return rules
}

func (f *File) toleranceRules() []rule {
	rules := []rule{{
		"tolerance", len(f.Tolerance) == 0, "no metric is gated",
		"name at least one, or leave the section out for the default list",
	}}
	for _, key := range slices.Sorted(maps.Keys(f.Tolerance)) {
		t := f.Tolerance[key]
		rules = append(rules, rule{
			"tolerance." + key, t.Relative <= 0 || t.Relative >= 1,
			t.Relative.String() + " is out of range", "write above 0% and below 100%",
		})
	}
	return rules
}

func (f *File) verdictRules() []rule {
	v, drift := f.Verdict, f.Drift.MaxBase
	return []rule{
		{"drift.max_base", drift <= 0 || drift > 0.5, drift.String() + " is out of range", "write above 0% and at most 50%"},
		{"verdict.alpha", v.Alpha <= 0 || v.Alpha > 0.1, v.Alpha.String() + " is out of range", "write above 0% and at most 10%"},
		{"verdict.calibration", v.Calibration == "", "names no file", "write the path of a calibration.json, or off"},
		below("telemetry.interval", f.Telemetry.Interval, 200*time.Millisecond),
	}
}

func (f *File) armRules() []rule {
	var rules []rule
	for name, arm := range map[string]*Arm{"base": f.Arms.Base, "head": f.Arms.Head} {
		if arm != nil {
			rules = append(rules, variableRules("arms."+name+".env", arm.Env)...)
			rules = append(rules, rule{
				"arms." + name + ".ready.timeout", arm.Ready.Timeout != 0 && arm.Ready.Timeout < Duration(time.Second),
				arm.Ready.Timeout.String() + " is too short", "write 1s or more",
			})
		}
	}
	slices.SortFunc(rules, func(a, b rule) int { return strings.Compare(a.path, b.path) })
	return rules
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variableRules hold the names of an environment.
func variableRules(path string, env map[string]string) []rule {
	var rules []rule
	for _, name := range slices.Sorted(maps.Keys(env)) {
		rules = append(
			rules,
			rule{join(path, name), !variableName.MatchString(name), "not the name of a variable", "use letters, digits and _"},
			rule{join(path, name), name == "PORT", "is set by tailgate", "use $PORT in target.start, or fix it with target.port"},
		)
	}
	return rules
}

// containerClient matches a command that starts a container and only waits for it.
var containerClient = regexp.MustCompile(`^\s*(exec\s+)?(docker|podman|nerdctl)\s+(container\s+)?run\b`)

func (f *File) targetRules() []rule {
	t := f.Target
	rules := []rule{
		below("target.build_timeout", t.BuildTimeout, time.Second),
		below("target.ready.timeout", t.Ready.Timeout, time.Second),
		below("target.stop.memory_timeout", t.Stop.MemoryTimeout, time.Second),
		{
			"target.start", t.StopCommand == "" && containerClient.MatchString(t.Start), "starts a container, which outlives its client",
			"add target.stop_command, such as: docker stop tailgate-$PORT; see targets.md",
		},
		{
			"target.pids", t.PIDs != "" && t.StopCommand == "", "names processes that tailgate did not start and cannot stop",
			"add target.stop_command, which ends them",
		},
		outside("target.port", t.Port, 0, 65535),
		{"target.ready.path", t.Ready.Path != "" && !strings.HasPrefix(t.Ready.Path, "/"), shown(t.Ready.Path) + " is not a path", "begin it with /"},
		{"target.path", t.Path != "" && !strings.HasPrefix(t.Path, "/"), shown(t.Path) + " is not a path", "begin it with /"},
	}
	for _, p := range []struct{ name, pointer string }{
		{"text", t.Pointers.Text},
		{"finish", t.Pointers.Finish},
		{"error", t.Pointers.Error},
		{"n_in", t.Pointers.NIn},
		{"n_out", t.Pointers.NOut},
	} {
		rules = append(rules, rule{
			"target.pointers." + p.name, p.pointer != "" && !strings.HasPrefix(p.pointer, "/"), shown(p.pointer) + " is not a JSON Pointer",
			"begin it with /, as in /outputs/0/text",
		})
	}
	return slices.Concat(rules, variableRules("target.env", t.Env), f.passRules(), f.cacheEnvRules(), f.gpuRules())
}

// Runnable checks what a comparison needs beyond a valid file: a workload, and a command that starts the server. The error
// is an [*Error].
func (f *File) Runnable() error {
	if err := f.policy.first([]rule{{"workload", f.Workload == "", "missing", "name the folder of a workload"}}); err != nil {
		return err
	}
	return f.target.first([]rule{{"target.start", f.Target.Start == "" && !f.Target.URL.Present(), "missing", "name the command that starts the server"}})
}
