package report

import (
	"math"
	"slices"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// The fixtures are judged by hand, so that this package's tests do not move with the judge.

const (
	baseCommit = "4be91c7a5d0f4f6f8d3a5c1b2e7f90a1b2c3d4e5"
	headCommit = "c55e8100a1b2c3d4e5f60718293a4b5c6d7e8f90"
)

// aRun is a complete run of n pairs in the order ABBA BAAB.
func aRun(n int) *record.Run {
	run := &record.Run{
		Schema: record.Schema, ID: "20260304-101500-k3f9", Kind: record.KindRevisions, Status: record.StatusComplete,
		Epoch: time.Date(2026, 3, 4, 10, 15, 0, 0, time.UTC), Finished: record.Instant(time.Hour), Tailgate: record.Tool{Version: "1.2.0"},
		Command: "tailgate run",
		Declared: record.Declared{
			Looks: []int{4, 6, 8}, Level: 0.023, Min: n, Max: 8, MaxVoid: 2,
			Warmup:  record.Warmup{Window: 10 * time.Second, Windows: 5, Band: 0.05, MaxErrorRate: 0.001, Cap: 10 * time.Minute, Trend: 0.03, TrendWindows: 10},
			Measure: 6 * time.Minute, Load: record.Load{Kind: "open", Dialect: "openai-chat"}, Limits: record.DefaultLimits(),
			Policy:       record.PolicyRef{SHA256: "9f31c0d2b4a6e8f0a1c3e5d7f9b1a3c5e7d9f1b3a5c7e9d1f3b5a7c9e1d3f5b7", Path: ".tailgate.yaml"},
			Conditioning: record.Conditioning{Base: 30 * time.Second, Head: 3 * time.Minute}, Cooldown: time.Minute,
		},
		Workload: record.WorkloadInfo{
			Name: "chat-v3", Version: 3, Digest: "sha256:9c41d07e5b12a4c6e8f0b2d4f6a8c0e2b4d6f8a0c2e4b6d8f0a2c4e6b8d0f2a4", Licence: "CC-BY-4.0",
			Requests: 5040, Conversations: 1612, InTokens: record.Quantiles{P50: 612, P90: 2100, P95: 3010, P99: 5870, Max: 8000},
			OutTokens: record.Quantiles{P50: 118, P90: 300, P95: 342, P99: 611, Max: 1024}, PrefixShare: record.Of(0.374), Rate: record.Of(14),
		},
		Arms: record.Arms{
			Base: &record.ArmInfo{Ref: "main", Commit: baseCommit, Strategy: "merge-base", Ahead: 3, Subject: "Tune the scheduler", Start: "./server --port $PORT", Build: record.Build{SHA256: "aa" + headCommit, Seconds: 41.2}},
			Head: &record.ArmInfo{Ref: "HEAD", Commit: headCommit, Subject: "Chunk long prefills", Start: "./server --port $PORT", Build: record.Build{SHA256: "bb" + headCommit, Seconds: 40.7}},
		},
		Environment: record.Environment{
			Host:   record.Host{Name: "gpu-04", Kernel: "6.8.0-45-generic", CPU: "AMD EPYC 9354", Cores: 64, MemoryB: record.Of(256 << 30), Governor: "performance"},
			GPUs:   []record.GPU{{UUID: "GPU-1f3c9a42", Name: "H100 PCIe", Driver: "570.86.15", PowerLimitMW: record.Of(350000), MemTotalB: record.Of(80 << 30)}},
			Runner: record.Runner{Name: "gpu-04"},
		},
		Fidelity: []record.Fidelity{
			{Measure: "arrival dispersion at 10 s", Source: record.Of(2.41), Replay: record.Of(1.98), Ratio: record.Of(0.82), Limit: ">= 0.8", Direction: record.Optimistic, Reason: "arrivals are smoother than the source"},
			{Measure: "prefix share", Source: record.Of(0.374), Replay: record.Of(0.374), Ratio: record.Of(1), Direction: record.Neutral},
		},
	}
	for slot := range 2 * n {
		arm := record.Base
		if (slot+1)/2%2 == 1 != (slot >= 4) {
			arm = record.Head
		}
		run.Rounds = append(run.Rounds, aRound(slot, arm))
	}
	return run
}

func aRound(slot int, arm record.Arm) record.Round {
	worse := 1.0
	if arm == record.Head {
		worse = 1.01
	}
	at := func(s int) record.Instant { return record.Instant(time.Duration(s) * time.Second) }
	ms := func(x float64) record.Metric { return record.Metric{Value: record.Of(x * worse), Unit: "ms", N: 5040} }
	start := 1000 * slot
	return record.Round{
		Slot: slot, Arm: arm, Pair: slot / 2, State: record.RoundComplete,
		Phases: record.Phases{Start: at(start + 1), Ready: at(start + 20), Warmup: at(start + 21), M0: at(start + 131), M1: at(start + 491)},
		Counts: record.Counts{Scheduled: 5040, Classes: map[record.Outcome]int{record.OK: 5040}},
		Metrics: map[string]record.Metric{
			"ttft_p50": ms(183 + float64(slot)/4), "ttft_p95": ms(401), "ttft_p99": ms(619), "e2e_p95": ms(7440), "e2e_p99": ms(9120),
			"output_tps": {Value: record.Of(1842.4), Unit: "tok/s", N: 5040}, "goodput": {Value: record.NA("no SLO"), Unit: "fraction"},
		},
		Steady: record.SteadyReport{Windows: 11, Joined: 1, MetAt: 6, ConfirmedAt: 11, End: "confirmed"},
		Machine: record.State{GPUs: []record.GPUState{{
			UUID: "GPU-1f3c9a42", Ticks: 360, Loaded: 358, TempC: record.Spread{Min: record.Of(41), Median: record.Of(62), Max: record.Of(65)},
			Reasons: map[string]int{"power_cap": 44},
			Procs:   []record.GPUProc{{PID: 4000 + slot, MemB: record.Of(20 << 30), Kind: "compute", Ours: true}},
		}}},
		Client: aClient(slot),
		Tokens: record.FromUsage, OutTokens: record.Of(663264),
	}
}

// aClient is the evidence of a load generator that had nothing else to do.
func aClient(slot int) record.ClientReport {
	return record.ClientReport{
		PacerLagP50: record.Of(0.05), PacerLagP99: record.Of(0.4), PacerLagMax: record.Of(1.2), Dialled: 40, Reused: 5000,
		CPU: record.Of(0.118), CPUMax: record.Of(0.31), CPUHeld: record.Of(0.12), SchedP99: record.Of(0.131072), SendRate: record.Of(0.0004), GCPause: record.Of(4.1),
		Canary: record.CanaryReport{Events: 7200, P50: record.Of(0.06), P99: record.Of(0.3), Max: record.Of(2.1 + float64(slot)/10)},
		Floor: record.Floor{
			Streams: 98, Seconds: 2, TTFTP50: record.Of(0.12), TTFTP99: record.Of(0.9), GapP50: record.Of(0.02), GapP99: record.Of(0.4),
		},
		Host: record.ClientHost{
			Cores: "0-3", Count: 4, Governor: "performance", SHA256: "a3086bbccc778809cfbb544926555bc4a655f56e16128d8e8ae4380d1e4ca25e",
			Pacing: "real-time priority 1, timer slack 1 ns", RTT: record.Of(0.037),
		},
	}
}

// compared makes the comparison of a metric as the judge would.
func compared(key, unit string, base, head, tolerance float64, v gate.Verdict, d ...float64) gate.Comparison {
	c := gate.Comparison{
		Key: key, Verdict: v, Unit: unit, BaseMedian: record.Of(base), HeadMedian: record.Of(head), Tolerance: tolerance,
		T: math.Log1p(tolerance), N: len(d), PairD: d, HigherIsBetter: moreIsBetter(key),
	}
	r := math.Log(head / base)
	if c.HigherIsBetter {
		r, c.T = -r, -math.Log1p(-tolerance)
	}
	mean, ss := 0.0, 0.0
	for _, x := range d {
		mean += x / float64(len(d))
		if x > 0 {
			c.Worse++
		}
	}
	for _, x := range d {
		ss += (x - mean) * (x - mean)
	}
	spread := max(0.003, math.Sqrt(ss/float64(len(d)-1)))
	h := 3.292256 * spread / math.Sqrt(float64(len(d)))
	c.R, c.D, c.S, c.L, c.U = record.Of(r), record.Of(mean), record.Of(spread), record.Of(mean-h), record.Of(mean+h)
	c.Resolution, c.MDE80 = record.Of(math.Expm1(h)), record.Of(math.Expm1(1.3*h))
	switch {
	case mean+h < 0:
		c.Note = "improved"
	case mean-h > 0 && mean+h <= c.T:
		c.Note = "slower, within tolerance"
	}
	return c
}

// aPass is the judgement of [aRun].
func aPass(n int) gate.Judgement {
	d := func(xs ...float64) []float64 { return xs[:n] }
	j := gate.Judgement{
		Schema: gate.JudgementSchema, Verdict: gate.Pass, PolicySHA256: "9f31c0d2b4a6e8f0a1c3e5d7f9b1a3c5e7d9f1b3a5c7e9d1f3b5a7c9e1d3f5b7",
		RunSHA256: "51d0c2a97e3b4f6a8c0e2d4b6f8a0c2e4d6b8f0a2c4e6d8b0f2a4c6e8d0b2f4a", Level: 0.023, Look: 1, Looks: []int{4, 6, 8}, Pairs: n,
		Metrics: []gate.Comparison{
			compared("itl_p50", "ms", 21.5, 21.2, 0.05, gate.Pass, d(-0.012, -0.010, -0.013, -0.012)...),
			compared("ttft_p99", "ms", 619, 624.6, 0.15, gate.Pass, d(0.014, -0.012, 0.022, 0.012)...),
			compared("ttft_p50", "ms", 182, 182.6, 0.05, gate.Pass, d(0.004, -0.003, 0.007, 0.005)...),
			compared("e2e_p95", "ms", 7440, 7390, 0.075, gate.Pass, d(-0.007, -0.004, -0.009, -0.006)...),
			compared("output_tps", "tok/s", 1842, 1844, 0.05, gate.Pass, d(-0.001, 0.001, -0.002, -0.002)...),
		},
		Errors: gate.ErrorComparison{
			Verdict: gate.Pass, Base: 2, Head: 3, BaseN: 20160, HeadN: 20160, P: record.Of(0.5),
			BaseKinds: map[record.Outcome]int{record.Timeout: 2}, HeadKinds: map[record.Outcome]int{record.Timeout: 3}, HeadRounds: 2,
		},
		SLO: []gate.SLOResult{
			{Key: "ttft_p99", Limit: 800, Unit: "ms", State: gate.SLOMet, BaseState: gate.SLOMet, Value: record.Of(624.6), N: 20160, Beyond: 40},
			{Key: "error_rate", Limit: 0.001, Unit: "fraction", State: gate.SLOMet, BaseState: gate.SLOMet, Value: record.Of(0.00015), N: 20160, Beyond: 3},
		},
		Rounds: map[record.Arm]gate.RoundTally{record.Base: {Planned: n, Run: n}, record.Head: {Planned: n, Run: n}},
		Drift:  gate.DriftReport{Key: "ttft_p50", Change: record.Of(0.004), Limit: 0.10},
	}
	j.Metrics[1].SLO = &j.SLO[0]
	return j
}

// fault makes a judgement in which nothing was compared.
func fault(v gate.Verdict, exit int, reason, text string, pairs int) gate.Judgement {
	j := aPass(4)
	j.Verdict, j.Exit, j.Reason, j.Pairs = v, exit, reason, pairs
	j.Metrics, j.SLO, j.Errors = nil, nil, gate.ErrorComparison{}
	j.Drift = gate.DriftReport{Change: record.NA("too few rounds"), Limit: 0.10}
	j.Findings = []gate.Finding{{ID: reason, Severity: gate.Deciding, Text: text}}
	return j
}

type scenario struct {
	name string
	run  *record.Run
	j    gate.Judgement
}

func scenarios() []scenario {
	return append(loadScenarios(), []scenario{
		{"pass", aRun(4), aPass(4)},
		failScenario(), inconclusiveScenario(), baseBuildScenario(), headBuildScenario(), rerunScenario(), provisionalScenario(),
		riskScenario(), noGPUScenario(), errorsScenario(), cancelledScenario(), driftScenario(),
	}...)
}

func failScenario() scenario {
	j := aPass(4)
	j.Verdict, j.Exit, j.Reason = gate.Fail, 1, "metric_worse"
	j.Metrics[2] = compared("ttft_p50", "ms", 58.9, 70.15, 0.05, gate.Fail, 0.174, 0.171, 0.178, 0.176)
	j.Metrics[1] = compared("ttft_p99", "ms", 624, 786, 0.15, gate.Fail, 0.23, 0.21, 0.24, 0.22)
	j.Metrics[4] = compared("output_tps", "tok/s", 1842, 1749.7, 0.05, gate.Inconclusive, 0.052, 0.049, 0.05, 0.055)
	j.Metrics[4].Cause, j.Metrics[4].PairsNeeded = "near_tolerance", 12
	j.Metrics[4].Longer = record.Of(2.3)
	j.SLO[0].State, j.SLO[0].Value = gate.SLOAtRisk, record.Of(799.96)
	j.Metrics[1].SLO = &j.SLO[0]
	j.Findings = []gate.Finding{
		{ID: "metric_worse", Severity: gate.Deciding, Metric: "ttft_p50", Text: "TTFT p50 is worse"},
		{ID: "slot_effect", Severity: gate.Warning, Text: "the second round of a pair is slower: lengthen the cool-down"},
	}
	return scenario{"fail", aRun(4), j}
}

func inconclusiveScenario() scenario {
	j := aPass(4)
	j.Verdict, j.Exit, j.Reason, j.Look = gate.Inconclusive, 3, "too_noisy", 1
	j.Metrics[1] = compared("ttft_p95", "ms", 430, 461, 0.075, gate.Inconclusive, 0.15, -0.02, 0.11, 0.03)
	j.Metrics[1].Cause, j.Metrics[1].PairsNeeded = "too_noisy", 14
	j.Metrics[1].Longer = record.NA(gate.LongerUseless)
	j.Findings = []gate.Finding{{ID: "too_noisy", Severity: gate.Deciding, Metric: "ttft_p95", Text: "too noisy"}}
	j.Drift.Change = record.Of(0.061)
	return scenario{"inconclusive", aRun(4), j}
}

func buildScenario(name string, arm record.Arm, j gate.Judgement) scenario {
	run := aRun(4)
	run.Status, run.Rounds, run.Fidelity = record.StatusBroken, nil, nil
	run.Arms.Get(arm).Build = record.Build{Command: "make server", Exit: 2}
	run.Incidents = []record.Incident{{
		ID: record.BuildFailed, Arm: arm, Exit: new(2), Text: "make server left no output.", Log: "build/" + string(arm) + ".log",
		Tail: []string{"cc -O2 -c scheduler.c", "scheduler.c:41:2: error: unknown type name 'lane_t'", "```", "make: *** [Makefile:12: scheduler.o] Error 1"},
	}}
	j.Rounds = map[record.Arm]gate.RoundTally{record.Base: {Planned: 4}, record.Head: {Planned: 4}}
	return scenario{name, run, j}
}

func baseBuildScenario() scenario {
	return buildScenario("invalid-base-build", record.Base, fault(gate.Invalid, 4, "base_build_failed", "base does not build", 0))
}

func headBuildScenario() scenario {
	return buildScenario("fail-head-build", record.Head, fault(gate.Fail, 1, "build_failed", "head does not build", 0))
}

func rerunScenario() scenario {
	run, j := aRun(4), aPass(4)
	for i, arm := range []record.Arm{record.Head, record.Base} {
		r := aRound(8+i, arm)
		r.Pair = 4
		r.RerunOf = new(2 + i)
		run.Rounds = append(run.Rounds, r)
	}
	run.Rounds[2].Machine.GPUs[0].Procs = append(run.Rounds[2].Machine.GPUs[0].Procs, record.GPUProc{PID: 48112, MemB: record.Of(9.4e9), Kind: "compute"})
	j.Validity = []record.Void{{Slot: 2, Rule: "gpu_shared", Evidence: "process 48112 held 9.4 GiB in 62 % of ticks"}, {Slot: 3, Rule: "pair", Evidence: "the other round of its pair is void"}}
	j.Rounds = map[record.Arm]gate.RoundTally{record.Base: {Planned: 4, Run: 5, Void: 1}, record.Head: {Planned: 4, Run: 5, Void: 1}}
	return scenario{"rerun", run, j}
}

func provisionalScenario() scenario {
	run, j := aRun(3), aPass(3)
	j.Provisional, j.Level, j.Looks = true, 0.05, []int{3}
	return scenario{"provisional", run, j}
}

func riskScenario() scenario {
	j := aPass(4)
	j.SLO[0].State, j.SLO[0].Value = gate.SLOAtRisk, record.Of(799.7)
	j.SLO[1] = gate.SLOResult{Key: "error_rate", Limit: 0.001, Unit: "fraction", State: gate.SLONotProvable, BaseState: gate.SLONotProvable, Needs: 3771, Value: record.Of(0.00015)}
	j.SLO = append(j.SLO, gate.SLOResult{Key: "e2e_p99", Limit: 9000, Unit: "ms", State: gate.SLOViolated, BaseState: gate.SLOViolated, Preexisting: true, Value: record.Of(9120), N: 20160, Beyond: 300})
	j.Metrics[1].SLO = &j.SLO[0]
	return scenario{"slo-at-risk", aRun(4), j}
}

func noGPUScenario() scenario {
	run, j := aRun(4), aPass(4)
	run.Environment.GPUs, run.Environment.GPUReason = nil, "driver library absent in this container"
	for i := range run.Rounds {
		run.Rounds[i].Machine = record.State{GPUReason: "driver library absent in this container"}
		// Also a run of before the load generator gave more evidence than this.
		run.Rounds[i].Client = record.ClientReport{PacerLagP50: record.Of(0.05), PacerLagP99: record.Of(0.4), PacerLagMax: record.Of(1.2)}
	}
	return scenario{"no-gpu", run, j}
}

func errorsScenario() scenario {
	run, j := aRun(4), aPass(4)
	j.Verdict, j.Exit, j.Reason = gate.Fail, 1, "more_failures"
	j.Errors.Verdict, j.Errors.Head, j.Errors.P, j.Errors.HeadRounds = gate.Fail, 412, record.Of(0.0001), 4
	j.Errors.HeadKinds = map[record.Outcome]int{record.HTTP5xx: 301, record.Timeout: 110, record.Assertion: 1}
	j.SLO[1].State, j.SLO[1].Value, j.SLO[1].Beyond = gate.SLOViolated, record.Of(412.0/20160), 412
	j.Metrics[1].HeadMedian, j.Metrics[1].R, j.Metrics[1].Verdict = record.Failed(), record.Failed(), gate.Fail
	j.Metrics[1].L, j.Metrics[1].U, j.Metrics[1].Cause = record.NA("unbounded"), record.NA("unbounded"), "unbounded"
	j.Findings = []gate.Finding{{ID: "more_failures", Severity: gate.Deciding, Metric: "error_rate", Text: "head fails more requests"}}
	for i := range run.Rounds {
		if r := &run.Rounds[i]; r.Arm == record.Head {
			r.Counts.Classes = map[record.Outcome]int{record.OK: 4937, record.HTTP5xx: 75, record.Timeout: 28}
			r.Metrics["ttft_p99"] = record.Metric{Value: record.Failed(), Unit: "ms", N: 5040}
			r.FailedIDs = []string{"conv-0413/2"}
		}
	}
	return scenario{"fail-errors", run, j}
}

func cancelledScenario() scenario {
	run := aRun(4)
	run.Status, run.Rounds = record.StatusCancelled, run.Rounds[:3]
	run.Rounds[2].State = record.RoundPartial
	run.Rounds[2].Metrics, run.Rounds[2].Phases.M1 = nil, 0
	j := fault(gate.Invalid, 4, "cancelled", "the session was cancelled after 1 pair", 1)
	j.Rounds = map[record.Arm]gate.RoundTally{record.Base: {Planned: 4, Run: 1}, record.Head: {Planned: 4, Run: 2}}
	return scenario{"cancelled", run, j}
}

func driftScenario() scenario {
	run := aRun(4)
	j := fault(gate.Invalid, 4, "base_drift", "the machine drifted 14.0 % during the session (TTFT p50 of both arms; the limit is 10 %).", 4)
	j.Drift = gate.DriftReport{Key: "ttft_p50", Change: record.Of(0.14), Limit: 0.10}
	run.Rounds = slices.Clone(run.Rounds)
	return scenario{"invalid-drift", run, j}
}
