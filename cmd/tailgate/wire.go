package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// nvidiaControl exists where an NVIDIA driver is loaded.
const nvidiaControl = "/dev/nvidiactl"

// gpuMode resolves telemetry.gpu: unset means required where there is a driver.
func gpuMode(f *config.File) string {
	if f.Telemetry.GPU != "" {
		return f.Telemetry.GPU
	}
	if _, err := os.Stat(nvidiaControl); err == nil {
		return "required"
	}
	return "optional"
}

// policyOf turns the file's policy into the judge's words. gpu is the resolved mode.
func policyOf(f *config.File, gpu string) gate.Policy {
	p := gate.Policy{
		SHA256:       f.Digest(),
		Tolerance:    make(map[string]gate.Tolerance, len(f.Tolerance)),
		SLO:          maps.Clone(f.SLO),
		Alpha:        float64(f.Verdict.Alpha),
		Margin:       gate.Margin(f.Verdict.FailMargin),
		Multiplicity: gate.Multiplicity(f.Verdict.Multiplicity),
		Burden:       gate.Burden(f.Verdict.SLOBurden),
		Preexisting:  gate.Preexisting(f.Verdict.SLOPreexisting),
		MaxBaseDrift: float64(f.Drift.MaxBase),
		Min:          f.Rounds.Min, Max: f.Rounds.Max, MaxVoid: f.Rounds.MaxVoid,
		RequireGPU: gpu == "required",
	}
	for key, t := range f.Tolerance {
		p.Tolerance[key] = gate.Tolerance{Relative: float64(t.Relative), Absolute: t.Absolute, Force: t.Force, Named: t.Named}
	}
	return p
}

// declare is what is written down before slot 0.
func declare(f *config.File, p gate.Policy, id, gpu string) record.Declared {
	coin, order, looks, level := gate.Declare(p, id)
	l := f.Load.Limits
	d := record.Declared{
		Coin: coin, Order: order, Looks: looks, Level: level, Min: p.Min, Max: p.Max, MaxVoid: p.MaxVoid,
		Warmup: record.Warmup{
			Window: time.Duration(f.Warmup.Window), Windows: f.Warmup.Windows, Band: float64(f.Warmup.Band),
			MaxErrorRate: float64(f.Warmup.MaxErrorRate), Cap: time.Duration(f.Warmup.Cap), Trend: float64(f.Warmup.Trend),
			TrendWindows: f.Warmup.TrendWindows, Min: time.Duration(f.Warmup.Min),
		},
		Measure: time.Duration(f.Load.Measure),
		Load:    loadOf(f),
		Limits: record.Limits{
			Dial: time.Duration(l.Dial), FirstEvent: time.Duration(l.FirstEvent), Idle: time.Duration(l.Idle),
			Total: time.Duration(l.Total), Drain: time.Duration(l.Drain), NoProgress: time.Duration(l.NoProgress),
		},
		SLO:          maps.Clone(f.SLO),
		Policy:       record.PolicyRef{SHA256: p.SHA256},
		Telemetry:    record.TelemetryPlan{GPU: gpu, Interval: time.Duration(f.Telemetry.Interval)},
		Conditioning: record.Conditioning{Base: time.Duration(f.Conditioning.Base), Head: time.Duration(f.Conditioning.HeadMax)},
		Cooldown:     time.Duration(f.Cooldown.Pause),
		SelfTest:     time.Duration(f.Load.SelfTest),
	}
	declareStanding(&d, f)
	return d
}

// loadOf is how the file wants requests offered.
func loadOf(f *config.File) record.Load {
	l := record.Load{
		Kind: record.OpenLoop, Dialect: f.Target.Dialect, Model: f.Target.Model,
		Concurrency: f.Load.Concurrency, MaxInFlight: f.Load.MaxInFlight, Think: time.Duration(f.Load.Think), HTTP2: f.Load.HTTP2,
	}
	if l.Concurrency > 0 {
		l.Kind = record.ClosedLoop
	}
	return l
}

// signals are the words of target.stop.signal.
var signals = map[string]syscall.Signal{
	"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT, "SIGHUP": syscall.SIGHUP, "SIGQUIT": syscall.SIGQUIT, "SIGKILL": syscall.SIGKILL,
}

// arm is what one arm of the file amounts to: its own args and environment over the target's.
type arm struct {
	target config.Target
	args   []string
	env    map[string]string
	// caches are the folders of target.cache_env by variable; nil before they are made.
	caches map[string]string
}

func armOf(f *config.File, name record.Arm) arm {
	own := f.Arms.Base
	if name == record.Head {
		own = f.Arms.Head
	}
	a := arm{target: f.Target, env: maps.Clone(f.Target.Env)}
	if a.env == nil {
		a.env = map[string]string{}
	}
	if own != nil {
		a.args = own.Args
		maps.Copy(a.env, own.Env)
		a.target.Ready.Timeout = cmp.Or(own.Ready.Timeout, a.target.Ready.Timeout)
	}
	return a
}

// sameAs reports whether two arms would start the same server.
func (a arm) sameAs(b arm) bool { return slices.Equal(a.args, b.args) && maps.Equal(a.env, b.env) }

// envNames lists the variables the arm sets, sorted; values stay out of the record.
func (a arm) envNames() []string { return slices.Sorted(maps.Keys(a.digested())) }

// digested is the environment as the arm's digest sees it: the folders of compile caches count by their names.
func (a arm) digested() map[string]string {
	env := maps.Clone(a.env)
	for _, name := range a.target.CacheEnv {
		env[name] = "a folder of the arm's own"
	}
	return env
}

// targetOf is how the runner starts the arm in its worktree.
func (a *app) targetOf(arm arm, dir, runID string) runner.Target {
	t := arm.target
	env := a.serverEnv(arm, runID)
	mask := proc.NewMask(env)
	return runner.Target{
		Start: t.Start, Args: arm.args, Dir: dir, Env: env, Port: t.Port, ReadyPath: t.Ready.Path,
		ReadyTimeout: time.Duration(t.Ready.Timeout), Signal: signals[t.Stop.Signal], Grace: time.Duration(t.Stop.Grace),
		StopCommand: t.StopCommand, PIDs: t.PIDs, CleanStop: t.Stop.Required == config.CleanStop, MemoryTimeout: time.Duration(t.Stop.MemoryTimeout),
		Mask: mask.String,
	}
}

// serverEnv is the environment of the arm's servers but for what is new in each round.
func (a *app) serverEnv(arm arm, runID string) []string {
	extra := maps.Clone(arm.env)
	maps.Copy(extra, arm.caches)
	extra["TAILGATE_RUN"] = runID
	return proc.Environ(a.lookup, a.environ, proc.Server, extra, arm.target.PassEnv)
}

// maskOf hides the secrets of an arm in what is shown and kept of it.
func (a *app) maskOf(arm arm, runID string) *proc.Mask { return proc.NewMask(a.serverEnv(arm, runID)) }

// shownCommand is how the arm's server is started, as it may be put on record.
func (a *app) shownCommand(arm arm, runID string) (start string, args []string) {
	mask := a.maskOf(arm, runID)
	for _, word := range arm.args {
		args = append(args, mask.String(word))
	}
	return mask.String(arm.target.Start), args
}

// rules hands the judge to the runner as values, so that the runner never imports it.
func rules(p gate.Policy) runner.Rules {
	return runner.Rules{
		Void: gate.Validity,
		Next: func(run *record.Run) record.Next { return gate.Decide(run, p) },
	}
}

// masked is the command line as it may be shown: values that look like secrets are hidden.
func (a *app) masked(args []string) string {
	mask := proc.NewMask(a.environ)
	return mask.String(strings.Join(append([]string{"tailgate"}, args...), " "))
}

func plural(n int, noun string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
