package gate_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestValidity(t *testing.T) {
	gpu := func(r *record.Round) *record.GPUState { return &r.Machine.GPUs[0] }
	tests := map[string]struct {
		spoil func(*record.Round)
		rule  string
		says  string
	}{
		"clean":                   {func(*record.Round) {}, "", ""},
		"thermal, one reading":    {func(r *record.Round) { gpu(r).Reasons["thermal_hw"] = 1 }, gate.VoidHWSlowdown, "GPU-a in 1 reading"},
		"power brake":             {func(r *record.Round) { gpu(r).Reasons["power_brake"] = 3 }, gate.VoidHWSlowdown, "3 readings"},
		"slowdown once":           {func(r *record.Round) { gpu(r).Reasons["hw_slowdown"], gpu(r).SlowdownRun = 5, 1 }, "", ""},
		"slowdown twice in a row": {func(r *record.Round) { gpu(r).Reasons["hw_slowdown"], gpu(r).SlowdownRun = 2, 2 }, gate.VoidHWSlowdown, "2 readings in a row"},
		"power cap is normal":     {func(r *record.Round) { gpu(r).Reasons["power_cap"] = 100 }, "", ""},
		"reasons not readable":    {func(r *record.Round) { gpu(r).Reasons, gpu(r).ReasonsNA = nil, "not supported" }, "", ""},
		"warm-up cap":             {func(r *record.Round) { r.State, r.Steady.End, r.Steady.Windows = record.RoundPartial, "cap", 60 }, gate.VoidNoSteadyState, "60 windows"},
		"warm-up too noisy": {func(r *record.Round) {
			r.State, r.Steady.End, r.Steady.Windows = record.RoundPartial, "cap", 60
			r.Steady.Unattainable, r.Steady.Noise = true, record.Of(0.081)
		}, gate.VoidNoSteadyState, "vary by 8.1 %"},
		"started with failures":     {func(r *record.Round) { r.Steady.End = "started_with_failures" }, "", ""},
		"cut":                       {func(r *record.Round) { r.State, r.Steady.End = record.RoundPartial, "cut" }, "", ""},
		"out of files":              {func(r *record.Round) { fail(r, record.ClientLimit, 1) }, gate.VoidClientLimit, "1 request"},
		"unsent":                    {func(r *record.Round) { fail(r, record.Unsent, 2) }, gate.VoidUnsent, "2 requests"},
		"one lost":                  {func(r *record.Round) { r.Counts.Classes[record.OK]-- }, gate.VoidCounts, "5,000 requests scheduled, 4,999"},
		"failures are not void":     {func(r *record.Round) { fail(r, record.HTTP503, 4000) }, "", ""},
		"lag p99 at the limit":      {func(r *record.Round) { r.Client.PacerLagP99 = record.Of(10) }, "", ""},
		"lag p99 over it":           {func(r *record.Round) { r.Client.PacerLagP99 = record.Of(10.01) }, gate.VoidPacerLag, "p99"},
		"lag unknown":               {func(r *record.Round) { r.Client.PacerLagP99 = record.NA("") }, "", ""},
		"0.1 % late":                {func(r *record.Round) { r.Client.Late100 = 5 }, "", ""},
		"more than 0.1 % late":      {func(r *record.Round) { r.Client.Late100 = 6 }, gate.VoidPacerLag, "6 of 5,000"},
		"short round, high p99":     {func(r *record.Round) { small(r, 999); r.Client.PacerLagP99 = record.Of(90) }, "", ""},
		"short round, one late":     {func(r *record.Round) { small(r, 999); r.Client.Late100 = 1 }, gate.VoidPacerLag, "1 of 999"},
		"sent too slowly":           {func(r *record.Round) { r.Client.Span = record.Of(1.021) }, gate.VoidSpan, "102 %"},
		"sent too fast":             {func(r *record.Round) { r.Client.Span = record.Of(0.97) }, gate.VoidSpan, "97 %"},
		"span at the limit":         {func(r *record.Round) { r.Client.Span = record.Of(1.02) }, "", ""},
		"span unknown":              {func(r *record.Round) { r.Client.Span = record.NA("") }, "", ""},
		"long collection":           {func(r *record.Round) { r.Client.GCPause = record.Of(1001) }, gate.VoidGCPause, "1,001 ms"},
		"collection at the limit":   {func(r *record.Round) { r.Client.GCPause = record.Of(1000) }, "", ""},
		"other bytes":               {func(r *record.Round) { r.Client.WireSHA256 = "bb" }, gate.VoidWire, "digests"},
		"digest unknown":            {func(r *record.Round) { r.Client.WireSHA256 = "" }, "", ""},
		"running is not judged yet": {func(r *record.Round) { r.State = record.RoundRunning; fail(r, record.Unsent, 1) }, "", ""},
		"crashed, then late": {func(r *record.Round) {
			r.Server.Exit = new(139)
			r.Client.Late100 = 600
		}, "", ""},
		"crashed of heat": {func(r *record.Round) {
			r.Server.Exit = new(139)
			gpu(r).Reasons["thermal_hw"] = 1
		}, gate.VoidHWSlowdown, "thermal_hw"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			run := quiet(4)
			tt.spoil(&run.Rounds[3])
			got := gate.Validity(run)
			if tt.rule == "" {
				if len(got) != 0 {
					t.Errorf("void: %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Slot != 3 || got[0].Rule != tt.rule || !strings.Contains(got[0].Evidence, tt.says) {
				t.Errorf("void %+v, want slot 3 by %s saying %q", got, tt.rule, tt.says)
			}
		})
	}
}

func small(r *record.Round, n int) {
	r.Counts = record.Counts{Scheduled: n, Classes: map[record.Outcome]int{record.OK: n}}
}

// Validity is blind: whatever the latencies and outcomes of the service, the same rounds count.
func TestValidityIsBlind(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 100 {
		run := quiet(6)
		run.Rounds[2].Client.Late100 = 60
		run.Rounds[5].Machine.GPUs[0].Reasons["power_brake"] = 1
		before := gate.Validity(run)
		if len(before) != 2 {
			t.Fatalf("void %+v", before)
		}
		for i := range run.Rounds {
			r := &run.Rounds[i]
			for key := range r.Metrics {
				r.Metrics[key] = record.Metric{Value: record.Of(1000 * rng.ExpFloat64()), Unit: "ms"}
				if rng.IntN(5) == 0 {
					r.Metrics[key] = record.Metric{Value: record.Failed()}
				}
			}
			r.Metrics["e2e_p99"] = metricOf("e2e_p99", rng.Float64())
			r.Beyond["ttft_p99"] = rng.IntN(requests)
			r.OutTokens, r.FailedIDs = record.Of(rng.Float64()), []string{"x"}
			fail(r, record.Timeout, rng.IntN(100))
		}
		if diff := cmp.Diff(before, gate.Validity(run)); diff != "" {
			t.Fatalf("a latency decided what counts:\n%s", diff)
		}
	}
}

// A spoiled pair costs itself and a pair of the budget; the re-run counts in its place.
func TestRerunPair(t *testing.T) {
	run := quiet(4)
	spoiled := of(run, record.Head)[1]
	spoiled.Client.Late100 = 600
	spoiled.Metrics["e2e_p95"] = metricOf("e2e_p95", 9000)
	want(t, judge(t, run, named("e2e_p95")), gate.Invalid, gate.TooFewRounds)

	addPair(run, map[string]values{"e2e_p95": {[]float64{0, 408}, []float64{0, 409}}}, 1)
	j := judge(t, run, named("e2e_p95"))
	if j.Pairs != 4 || len(j.Validity) != 1 || j.Rounds[record.Head] != (gate.RoundTally{Planned: 8, Run: 5, Void: 1}) || j.Rounds[record.Base] != (gate.RoundTally{Planned: 8, Run: 5}) {
		t.Errorf("pairs %d void %+v rounds %+v", j.Pairs, j.Validity, j.Rounds)
	}
	// The re-run makes the order uneven, but the machine stood still: nothing leaks.
	want(t, j, gate.Pass, "")
	if j.WithVoid != gate.Inconclusive || finding(j, gate.VoidRoundsNeutral) == nil {
		t.Errorf("with void rounds: %q", j.WithVoid)
	}
}

func TestVoidBudget(t *testing.T) {
	run := quiet(8)
	for _, i := range []int{0, 2, 5} {
		run.Rounds[i].Client.Late100 = 600
	}
	// Slots 0, 2 and 5 of ABBABAAB are base, head, base.
	want(t, judge(t, run, named("e2e_p95")), gate.Invalid, gate.VoidBudget)
	run.Declared.MaxVoid = 3
	want(t, judge(t, run, named("e2e_p95")), gate.Pass, "")
}

// Void rounds that follow one build: neither a pass nor a slowdown is believed, failures still are.
func TestInstabilityFollowsBuild(t *testing.T) {
	spoil := func() *record.Run {
		run := quiet(8)
		for _, r := range of(run, record.Head)[6:] {
			r.Client.Late100 = 600
		}
		return run
	}
	want(t, judge(t, spoil(), named("e2e_p95")), gate.Inconclusive, gate.FollowsBuild)

	slow := spoil()
	for _, r := range of(slow, record.Head) {
		r.Metrics["e2e_p95"] = metricOf("e2e_p95", 600)
	}
	j := judge(t, slow, named("e2e_p95"))
	want(t, j, gate.Inconclusive, gate.FollowsBuild)
	if j.Metrics[0].Verdict != gate.Inconclusive || j.Metrics[0].Cause != gate.FollowsBuild {
		t.Errorf("metric %s %s", j.Metrics[0].Verdict, j.Metrics[0].Cause)
	}

	failing := spoil()
	for _, r := range of(failing, record.Head) {
		fail(r, record.HTTP5xx, 20)
	}
	want(t, judge(t, failing, named("e2e_p95")), gate.Fail, gate.MoreFailures)

	// The budget is spent on head alone: still not the runner's fault for certain.
	run := quiet(8)
	for _, r := range of(run, record.Head) {
		r.State, r.Steady.End = record.RoundPartial, "cap"
	}
	want(t, judge(t, run, named("e2e_p95")), gate.Inconclusive, gate.FollowsBuild)
}

// A machine that is busy for a minute voids the first round of a pair again and again, and the second never runs: that says
// nothing about a build.
func TestInstabilityNeedsEqualChances(t *testing.T) {
	run := quiet(4)
	run.Declared.MaxVoid = 2
	first := run.Rounds[0]
	first.Client.Late100 = 600
	run.Rounds = []record.Round{first, first, first}
	for i := range run.Rounds {
		run.Rounds[i].Slot, run.Rounds[i].Pair = i, i
	}
	want(t, judge(t, run, named("e2e_p95")), gate.Invalid, gate.VoidBudget)
}

// Leaving rounds out must not make the verdict: four void pairs, evenly over the arms, in which head failed requests.
func TestSensitivity(t *testing.T) {
	run := quiet(8)
	run.Declared.MaxVoid = 4
	for _, slot := range []int{0, 2, 4, 6} {
		run.Rounds[slot].Client.Late100 = 600
	}
	j := judge(t, run, named("e2e_p95"))
	want(t, j, gate.Pass, "")
	if j.WithVoid != gate.Pass || j.Pairs != 4 || j.Rounds[record.Head].Void != 2 || j.Rounds[record.Base].Void != 2 {
		t.Fatalf("with void rounds %q, %d pairs, rounds %+v", j.WithVoid, j.Pairs, j.Rounds)
	}
	for _, r := range of(run, record.Head)[:4] {
		fail(r, record.HTTP503, 50)
	}
	j = judge(t, run, named("e2e_p95"))
	want(t, j, gate.Inconclusive, gate.VoidRoundsMatter)
	if j.WithVoid != gate.Fail {
		t.Errorf("with void rounds %q", j.WithVoid)
	}
	// The other way round: the valid rounds fail head, the void ones speak for it.
	for _, r := range of(run, record.Head) {
		r.Counts.Classes = map[record.Outcome]int{record.OK: requests}
	}
	for _, r := range of(run, record.Head)[4:] {
		fail(r, record.HTTP503, 4)
	}
	for _, r := range of(run, record.Base)[:4] {
		fail(r, record.HTTP503, 20)
	}
	want(t, judge(t, run, named("e2e_p95")), gate.Inconclusive, gate.VoidRoundsMatter)
}

func TestGPURules(t *testing.T) {
	blind := func(run *record.Run) *record.Run {
		run.Environment.GPUs, run.Environment.GPUReason = nil, "libnvidia-ml.so.1: driver/library version mismatch"
		for i := range run.Rounds {
			run.Rounds[i].Machine.GPUs = nil
		}
		return run
	}
	p := named("e2e_p95")
	j := judge(t, blind(quiet(4)), p)
	want(t, j, gate.Pass, "")
	if f := finding(j, gate.GPUUnseen); f == nil || f.Severity != gate.Warning {
		t.Errorf("an unseen GPU is not said: %+v", j.Findings)
	}
	// Case G-04 of NVIDIA/k8s-device-plugin#1431 and others.
	p.RequireGPU = true
	j = judge(t, blind(quiet(4)), p)
	want(t, j, gate.Invalid, record.TelemetryMissing)
	if !strings.Contains(j.Findings[0].Text, "version mismatch") {
		t.Errorf("the cause is not said: %s", j.Findings[0].Text)
	}
	want(t, judge(t, quiet(4), p), gate.Pass, "")
	run := quiet(4)
	run.Rounds[6].Machine.GPUs = nil
	want(t, judge(t, run, p), gate.Invalid, record.TelemetryMissing)

	// Case T-05 (b) of iree-org/iree#10267 and others: a round on another GPU.
	run = quiet(4)
	run.Rounds[3].Machine.GPUs = []record.GPUState{{UUID: "GPU-b"}}
	want(t, judge(t, run, named("e2e_p95")), gate.Invalid, gate.EnvironmentMoved)

	sameSetInEachRound(t)

	run = quiet(4)
	run.Rounds[3].Machine.GPUs = []record.GPUState{{UUID: "GPU-a", ReasonsNA: "not supported"}}
	if f := finding(judge(t, run, named("e2e_p95")), gate.ThrottleUnseen); f == nil || f.Text != "throttling not observed: not supported" {
		t.Errorf("unseen throttling: %+v", f)
	}
}

// Of several GPUs the set and its order are the same in each round.
func sameSetInEachRound(t *testing.T) {
	t.Helper()
	for _, tt := range []struct {
		third []string
		says  string
	}{
		{[]string{"GPU-a", "GPU-b"}, ""},
		{[]string{"GPU-b", "GPU-a"}, "slot 3 ran on the GPUs of the rounds before it in another order: [GPU-b GPU-a], not [GPU-a GPU-b]"},
		{[]string{"GPU-a"}, "slot 3 ran on other GPUs than the rounds before it: [GPU-a], not [GPU-a GPU-b]"},
		{[]string{"GPU-a", "GPU-b", "GPU-c"}, "slot 3 ran on other GPUs than the rounds before it: [GPU-a GPU-b GPU-c], not [GPU-a GPU-b]"},
		{[]string{"GPU-a", "GPU-c"}, "slot 3 ran on other GPUs than the rounds before it: [GPU-a GPU-c], not [GPU-a GPU-b]"},
	} {
		run := quiet(4)
		for i := range run.Rounds {
			list := []string{"GPU-a", "GPU-b"}
			if i == 3 {
				list = tt.third
			}
			run.Rounds[i].Machine.GPUs = nil
			for _, id := range list {
				run.Rounds[i].Machine.GPUs = append(run.Rounds[i].Machine.GPUs, record.GPUState{UUID: id, Reasons: map[string]int{}})
			}
		}
		j := judge(t, run, named("e2e_p95"))
		if tt.says == "" {
			want(t, j, gate.Pass, "")
			continue
		}
		want(t, j, gate.Invalid, gate.EnvironmentMoved)
		if f := finding(j, gate.EnvironmentMoved); f == nil || f.Text != tt.says {
			t.Errorf("%v: %+v, want %q", tt.third, f, tt.says)
		}
	}
}

// A GPU that was asked for and is not there says nothing about the change, whatever arm it is told of.
func TestMissingGPUIsNotTheBuilds(t *testing.T) {
	text := "target.gpus names \"GPU-c\", which this machine does not have; it has GPU-a (Stub)"
	for _, arm := range []record.Arm{"", record.Base, record.Head} {
		run := quiet(4)
		run.Rounds, run.Incidents = nil, []record.Incident{{ID: record.GPUNotFound, Arm: arm, Text: text}}
		j := judge(t, run, named("e2e_p95"))
		want(t, j, gate.Invalid, record.GPUNotFound)
		if j.Exit != 4 || !strings.Contains(j.Findings[0].Text, text) {
			t.Errorf("%q: exit %d, %+v", arm, j.Exit, j.Findings[0])
		}
	}
}

// A drift that an uneven order lets through is not the build's.
func TestDriftLeaks(t *testing.T) {
	base, head := make([]float64, 3), make([]float64, 3)
	for k := range 3 {
		base[k], head[k] = 100, 100
	}
	run := newRun(map[string]values{"ttft_p50": {base, head}, "e2e_p95": {b4[:3], []float64{412.2, 408.1, 415.1}}})
	for i := range run.Rounds {
		run.Rounds[i].Metrics["ttft_p50"] = metricOf("ttft_p50", 100*(1+0.019*float64(i)))
	}
	p := named("e2e_p95")
	p.Tolerance["e2e_p95"] = gate.Tolerance{Relative: 0.02, Named: true}
	want(t, judge(t, run, p), gate.Inconclusive, gate.DriftLeaks)
	p.Tolerance["e2e_p95"] = gate.Tolerance{Relative: 0.10, Named: true}
	want(t, judge(t, run, p), gate.Pass, "")
}

func TestSlotEffectWarns(t *testing.T) {
	run := quiet(4)
	for i := range run.Rounds {
		x := 100.0
		if i%2 == 1 {
			x = 108 + 0.3*float64(i)
		}
		run.Rounds[i].Metrics["e2e_p95"] = metricOf("e2e_p95", x)
	}
	f := finding(judge(t, run, named("e2e_p95")), gate.SlotPenalty)
	if f == nil || !strings.Contains(f.Text, "lengthen the cool-down") {
		t.Errorf("a penalty on the second round is not said: %+v", f)
	}
	if f := finding(judge(t, quiet(4), named("e2e_p95")), gate.SlotPenalty); f != nil {
		t.Errorf("quiet rounds warn: %+v", f)
	}
}

func TestRoundWarnings(t *testing.T) {
	run := quiet(4)
	run.Rounds[1].Flags, run.Rounds[2].Flags = []string{"not_steady"}, []string{"not_steady", "started_with_failures"}
	run.Rounds[4].Client.PacerLagP99 = record.Of(3)
	j := judge(t, run, named("e2e_p95"))
	want(t, j, gate.Pass, "")
	for id, says := range map[string]string{gate.NotSteady: "slots 1 and 2", gate.StartedFailing: "slots 2", gate.LateGenerator: "slots 4"} {
		if f := finding(j, id); f == nil || f.Severity != gate.Warning || !strings.Contains(f.Text, says) {
			t.Errorf("%s: %+v", id, f)
		}
	}
}

// A hostile or half-written run must not break the judge.
func TestOddRuns(t *testing.T) {
	inf := record.Metric{Value: record.Failed()}
	tests := map[string]func(*record.Run){
		"no rounds":       func(r *record.Run) { r.Rounds = nil },
		"three in a pair": func(r *record.Run) { r.Rounds[2].Pair = 0 },
		"one arm only":    func(r *record.Run) { each(r, func(rd *record.Round) { rd.Arm = record.Head }) },
		"unknown arm":     func(r *record.Run) { each(r, func(rd *record.Round) { rd.Arm = "odd" }) },
		"one slot":        func(r *record.Run) { each(r, func(rd *record.Round) { rd.Slot = 0 }) },
		"negative counts": func(r *record.Run) { each(r, func(rd *record.Round) { rd.Counts.Classes[record.HTTP503] = -5 }) },
		"nil maps": func(r *record.Run) {
			each(r, func(rd *record.Round) { rd.Metrics, rd.Counts.Classes, rd.Beyond = nil, nil, nil })
		},
		"all failed": func(r *record.Run) {
			each(r, func(rd *record.Round) { rd.Metrics["e2e_p95"] = inf; rd.Metrics["ttft_p50"] = inf })
		},
		"zeros": func(r *record.Run) {
			each(r, func(rd *record.Round) { rd.Metrics["e2e_p95"] = metricOf("e2e_p95", 0) })
		},
		"negative": func(r *record.Run) {
			each(r, func(rd *record.Round) { rd.Metrics["e2e_p95"] = metricOf("e2e_p95", -1) })
		},
		"vast":              func(r *record.Run) { r.Rounds[1].Metrics["e2e_p95"] = metricOf("e2e_p95", 1e308) },
		"tiny":              func(r *record.Run) { r.Rounds[1].Metrics["e2e_p95"] = metricOf("e2e_p95", 5e-324) },
		"endless beyond":    func(r *record.Run) { each(r, func(rd *record.Round) { rd.Beyond["e2e_p95"] = 1 << 40 }) },
		"unknown incident":  func(r *record.Run) { r.Incidents = []record.Incident{{ID: "meteor"}} },
		"no measured time":  func(r *record.Run) { r.Declared.Measure = -time.Second },
		"no kind or status": func(r *record.Run) { r.Kind, r.Status = "", "" },
		"load":              func(r *record.Run) { r.Kind = record.KindLoad },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			run := quiet(4)
			run.Declared.SLO["e2e_p95"] = 500
			spoil(run)
			p := named("e2e_p95", "ttft_p50", "output_tps")
			p.SLO = map[string]float64{"e2e_p95": 500, "error_rate": 0.01, "output_tps": 100, "goodput": 0.9, "odd": 1}
			j := judge(t, run, p)
			if name != "tiny" && j.Verdict == gate.Pass {
				t.Errorf("%s is a pass", name)
			}
			gate.Decide(run, p)
			if _, err := json.Marshal(j); err != nil {
				t.Error(err)
			}
		})
	}
}

func each(run *record.Run, f func(*record.Round)) {
	for i := range run.Rounds {
		f(&run.Rounds[i])
	}
}
