package trials

import (
	"slices"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/internal/simserver"
)

// Size is how large a change is against its tolerance.
type Size string

// The sizes. Of a change exactly at its tolerance nothing is promised but that it seldom passes.
const (
	Same   Size = "identical"
	Half   Size = "half tolerance"
	Exact  Size = "tolerance"
	Double Size = "twice tolerance"
	Other  Size = "other"
)

// Scenario is two configurations of the simulated server and what the gate should say of them.
type Scenario struct {
	// Name identifies it in results files and on the command line.
	Name string
	// About says in one clause what head, or the machine, does.
	About string
	// Size is the size of the declared change; Metric the metric it is declared on, empty without one.
	Size   Size
	Metric string
	// Right are the verdicts that are right, Wrong those that break a promise of docs/trust.md. Verdicts in neither are honest but
	// unhelpful.
	Right, Wrong []gate.Verdict
	// Least is how many sessions are wanted.
	Least int

	// closed offers the load in a closed loop and gates throughput alone; free lets answers end by themselves.
	closed, free bool
	base, head   func(*simserver.Config)
}

// Tolerances are what an open-loop session gates, as fractions; a closed-loop session gates output throughput alone.
var Tolerances = map[string]float64{"ttft_p50": 0.05, "ttft_p95": 0.075, "itl_p50": 0.05, "output_tps": 0.05}

// Gated lists the metrics a session of the scenario gates, sorted.
func (s Scenario) Gated() []string {
	if s.closed {
		return []string{"output_tps"}
	}
	return []string{"itl_p50", "output_tps", "ttft_p50", "ttft_p95"}
}

var (
	passOnly   = []gate.Verdict{gate.Pass}
	failOnly   = []gate.Verdict{gate.Fail}
	undecided  = []gate.Verdict{gate.Pass, gate.Inconclusive}
	atWorst    = []gate.Verdict{gate.Fail, gate.Inconclusive}
	voidOnly   = []gate.Verdict{gate.Invalid}
	voidOrOpen = []gate.Verdict{gate.Pass, gate.Inconclusive, gate.Invalid}
)

// sized fills in what is right for a change of that size.
func sized(s Scenario) Scenario {
	switch s.Size {
	case Same, Half:
		s.Right, s.Wrong = passOnly, failOnly
	case Exact:
		s.Right, s.Wrong = atWorst, passOnly
	case Double:
		s.Right, s.Wrong = failOnly, passOnly
	case Other:
	}
	return s
}

// Scenarios lists all, in the order of the table.
func Scenarios() []Scenario {
	list := []Scenario{
		{Name: "identical", About: "head differs from base in a revision number only", Size: Same, Least: 200},
		{Name: "identical-closed", About: "the same in a closed loop, throughput alone gated", Size: Same, Least: 20, closed: true},
	}
	for _, k := range []struct {
		size Size
		of   float64
	}{{Half, 0.5}, {Exact, 1}, {Double, 2}} {
		for _, kind := range kinds {
			s := kind.scenario(k.of)
			s.Name = kind.name + "-" + map[Size]string{Half: "half", Exact: "tolerance", Double: "double"}[k.size]
			s.Size, s.Metric, s.Least = k.size, kind.metric, 20
			if k.size == Double {
				s.Least = 40
			} else if kind.name == "p50" {
				s.Least = 50
			}
			list = append(list, s)
		}
	}
	list = append(list, troubles()...)
	for i := range list {
		list[i] = sized(list[i])
	}
	return list
}

// kind is a way to be slower. scenario makes it so many times as large as the tolerance of metric.
type kind struct {
	name, metric string
	scenario     func(of float64) Scenario
}

// held is how long the tail scenarios hold every 30th request back, by the size of the change against the tolerance. The effect
// on TTFT p95 follows from the shape of the prompts: TestTruth holds the two together.
var held = map[float64]time.Duration{0.5: 59 * time.Millisecond, 1: 90 * time.Millisecond, 2: 126 * time.Millisecond}

var kinds = []kind{
	{"p50", "ttft_p50", func(of float64) Scenario {
		add := simserver.Duration(of * 0.05 * float64(typicalTTFT))
		return Scenario{
			About: "head holds every request back for " + time.Duration(add).String(),
			head:  func(c *simserver.Config) { c.Delay = simserver.Delay{Every: 1, For: add} },
		}
	}},
	{"tail", "ttft_p95", func(of float64) Scenario {
		return Scenario{
			About: "head holds every 30th request back for " + held[of].String(),
			head:  func(c *simserver.Config) { c.Delay = simserver.Delay{Every: 30, For: simserver.Duration(held[of])} },
		}
	}},
	{"itl", "itl_p50", func(of float64) Scenario {
		step := simserver.Duration((1 + of*0.05) * float64(decodeStep))
		return Scenario{
			About: "head's decode steps last " + time.Duration(step).String(),
			head:  func(c *simserver.Config) { c.DecodeBase = step },
		}
	}},
	{"throughput", "output_tps", func(of float64) Scenario {
		factor := 1 / (1 - of*0.05)
		return Scenario{
			About: "head takes " + decimals(factor, 4) + " times as long for everything, in a closed loop", closed: true,
			head: func(c *simserver.Config) { c.SpeedByStart = []float64{factor} },
		}
	}},
}

// troubles are the scenarios that are no plain slowdown.
func troubles() []Scenario {
	drift := func(perSlot float64) func(*simserver.Config) {
		return func(c *simserver.Config) {
			c.SpeedByStart = nil
			for i := range 64 {
				c.SpeedByStart = append(c.SpeedByStart, 1+perSlot*float64(i))
			}
		}
	}
	slow := func(c *simserver.Config) {
		c.Cold = simserver.Cold{Factor: 1.5, Decay: simserver.Duration(400 * time.Millisecond)}
	}
	stall := func(c *simserver.Config) {
		// Several in each warm-up window, so that windows agree and the stalls meet the gate, not the rule of the steady state.
		c.Stall = simserver.Stall{Every: simserver.Duration(50 * time.Millisecond), For: simserver.Duration(8 * time.Millisecond)}
	}
	return []Scenario{
		{
			Name: "errors", About: "head answers every 50th request with status 500", Size: Other, Least: 20, Right: failOnly, Wrong: passOnly,
			head: func(c *simserver.Config) { c.Errors = []simserver.Fault{{Kind: simserver.FaultHTTP500, Every: 50}} },
		},
		{
			Name: "shorter", About: "head's answers end after half of their tokens", Size: Other, Least: 20, Right: failOnly, Wrong: passOnly, free: true,
			head: func(c *simserver.Config) {
				c.NaturalTokens = simserver.Span{Min: outputTokens / 2, Max: outputTokens / 2}
			},
		},
		{
			Name: "drift", About: "identical builds on a machine that slows down by 3 % a round", Size: Other, Least: 20,
			Right: voidOnly, Wrong: failOnly, base: drift(0.03), head: drift(0.03),
		},
		{
			Name: "drift-mild", About: "identical builds on a machine that slows down by 0.5 % a round", Size: Other, Least: 20,
			Right: undecided, Wrong: failOnly, base: drift(0.005), head: drift(0.005),
		},
		{
			Name: "slow-starter", About: "head's first requests take 1.5 times as long, decaying with 400ms", Size: Other, Least: 20,
			Right: passOnly, Wrong: failOnly, head: slow,
		},
		{
			Name: "stalls", About: "head stands still for 8ms twenty times a second", Size: Other, Least: 20, Right: failOnly, Wrong: passOnly, head: stall,
		},
		{
			Name: "stalls-both", About: "both builds stand still for 8ms twenty times a second", Size: Other, Least: 20, Right: voidOrOpen, Wrong: failOnly,
			base: stall, head: stall,
		},
	}
}

// Find returns the scenario of that name.
func Find(name string) (Scenario, bool) {
	list := Scenarios()
	i := slices.IndexFunc(list, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return list[i], true
}

// Standing is what a verdict is worth in a scenario.
type Standing int

// The standings: a wrong verdict breaks a promise, an unhelpful one does not say what is true, a right one does.
const (
	Unhelpful Standing = iota
	Right
	Wrong
)

// Judge says what a verdict is worth here.
func (s Scenario) Judge(v gate.Verdict) Standing {
	switch {
	case slices.Contains(s.Right, v):
		return Right
	case slices.Contains(s.Wrong, v):
		return Wrong
	default:
		return Unhelpful
	}
}
