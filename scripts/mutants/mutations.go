package main

// mutation is one way to break a rule.
type mutation struct {
	name string
	// old stands once in file, and new takes its place.
	file, old, new string
	// by is the test that must notice, in its package.
	in, by string
}

var mutations = []mutation{
	// Metrics: what is better, and what failures are.
	{"a metric's direction is flipped", "gate/metric.go", `Unit: "tok/s", HigherIsBetter: true, Tokens: true},
		Metric{Key: "input_tps"`, `Unit: "tok/s", HigherIsBetter: false, Tokens: true},
		Metric{Key: "input_tps"`, "gate", "TestThroughputDirection"},
	{"latencies are better when larger", "gate/metric.go", `return math.Log(x), "", true`, `return -math.Log(x), "", true`, "gate", "TestWorkedMetrics"},
	{"a latency of 0 is a number", "gate/metric.go", "case x <= 0 || math.IsInf(x, 0)", "case math.IsInf(x, 0)", "gate", "TestZeroIsNoLatency"},
	{"failures are dropped from percentiles", "runner/record/percentile.go", "	d.failed += weight\n", "", "runner/record", "TestTimeoutsAreNotSurvived"},
	{"latency counts from the send instant", "runner/record/latency.go", "return ttft(r, r.Sched)", "return ttft(r, r.Wrote)", "runner/record", "TestSendVariants"},
	{"head without a percentile twice does not fail", "gate/compare.go", "head.infinite >= 2", "head.infinite >= 3", "gate", "TestUnboundedPercentiles"},

	// The order of rounds, and the looks.
	{"rounds alternate ABAB", "gate/stat/order.go", "bits.OnesCount(uint(i))+coin", "bits.OnesCount(uint(i)&1)+coin", "gate", "TestOrderHidesNoSlotPenalty"},
	{"each look is taken at 5 %", "gate/stat/order.go", "return table[min(max(looks, 1), len(table))-1]", "return table[0]", "gate", "TestErrorRates"},
	{"pairs beyond the last look are judged", "gate/evaluate.go", "h := e.hear(e.valid[:n])", "h := e.hear(e.valid)", "gate", "TestUnfinishedLook"},
	{"the stored level is ignored", "gate/declare.go", "level: d.Level,", "level: defaultAlpha,", "gate", "TestStoredScheduleStands"},
	{"futility stops what could still fail", "gate/stat/futility.go", "e.Mean+room < tol ||", "e.Mean < 2*tol ||", "gate", "TestErrorRates"},

	// The rule of one metric.
	{"the margin of half the tolerance is dropped", "gate/compare.go", "return tol / 2", "return 0", "gate", "TestErrorRates"},
	{"the lower bound does not matter", "gate/compare.go", "&& b.L > eps:", "&& b.L > -1:", "gate", "TestErrorRates"},
	{"medians alone decide a fail", "gate/compare.go", "case r >= tol && e.Mean >= tol &&", "case r >= tol &&", "gate", "TestErrorRates"},
	{"no significant difference is a pass", "gate/compare.go", "case b.U <= tol && r < tol:", "case b.L <= 0 && r < tol:", "gate", "TestErrorRates"},
	{"an estimate within tolerance is a pass", "gate/compare.go", "case b.U <= tol && r < tol:", "case e.Mean <= tol && r < tol:", "gate", "TestErrorRates"},
	{"bounds have a degree of freedom too many", "gate/stat/estimate.go", "h := quantileT(1-a, e.df(e.N)) * e.SE()", "h := quantileT(1-a, e.df(e.N)+1) * e.SE()", "gate", "TestCoverage"},
	{"equal values give no width", "gate/stat/estimate.go", "max(sd, Floor)", "max(sd, 0)", "gate/stat", "TestWorkedMetrics"},
	{"a change need exceed only one of two tolerances", "gate/series.go", "fraction = max(fraction, tol.Absolute/x)", "fraction = min(fraction, tol.Absolute/x)", "gate", "TestAbsoluteTolerance"},
	{"Holm's steps are not taken", "gate/compare.go", "if e.policy.Multiplicity == MultiplicityHolm {", "if false {", "gate", "TestHolm"},

	// The machine and the load generator.
	{"a drifting machine is not invalid", "gate/drift.go", "if math.Abs(x) > d.Limit {", "if false {", "gate", "TestDriftRule"},
	{"drift that leaks is believed", "gate/compare.go", "	case t.leaked > tol/5:\n", "	case false:\n", "gate", "TestDriftLeaks"},
	{"void rounds count", "gate/evidence.go", "			if !spoiled {\n", "			if true {\n", "gate", "TestSensitivity"},
	{"void rounds may follow one build", "gate/evidence.go", "more.Void-fewer.Void >= 2", "more.Void-fewer.Void >= 99", "gate", "TestInstabilityFollowsBuild"},
	{"the budget of void pairs has no end", "gate/evidence.go", "return e.spoiled > e.maxVoid", "return e.spoiled > 99", "gate", "TestVoidBudget"},
	{"the client's own error is the server's", "gate/floor.go", "	if c.Verdict != Fail {\n", "	if true {\n", "gate", "TestClientCouldExplain"},

	// Failures and limits.
	{"failures in one round fail head", "gate/failures.go", "if c.HeadRounds < 2 {", "if c.HeadRounds < 1 {", "gate", "TestFailures"},
	{"more failures are within chance", "gate/failures.go", "if p < failureLevel &&", "if p < 0 &&", "gate", "TestFailures"},
	{"faster because broken is an improvement", "gate/hearing.go", "if h.broken && c.Note == noteImproved {", "if false {", "gate", "TestFasterBecauseBroken"},
	{"a burst is many failures", "gate/stat/failures.go", "return max(1, chi/float64(len(x)-1))", "return 1", "gate", "TestSLOOfRates"},
	{"a limit is kept when it cannot be shown", "gate/slo.go", "inside = inside && up <= allowed", "inside = inside && up <= 1", "gate", "TestSLO"},
	{"an old break of a limit is head's", "gate/slo.go", "if r.Preexisting && p.Preexisting == PreexistingWarn {", "if false {", "gate", "TestSLO"},

	// What is never a pass.
	{"nothing asked is a pass", "gate/session.go", "d.rule(untrusted, NothingGated, text)", "d.rule(informs, NothingGated, text)", "gate", "TestNothingIsNeverPass"},
	{"no requests are a pass", "gate/hearing.go", "if r.Counts.Attempted() <= 0 {", "if r.Counts.Attempted() < 0 {", "gate", "TestNothingIsNeverPass"},
	{"a cancelled session is a pass", "gate/evaluate.go", "	e.ruleStatus(&d)\n	if run.Status", "	if run.Status", "gate", "TestStatusIsNeverPassed"},
	{"undecided exits 0", "gate/exit.go", "{3, Inconclusive,", "{0, Inconclusive,", "gate", "TestExit"},

	// The warm-up.
	{"measuring starts when the rule is met, not confirmed", "runner/steady/detector.go", "flat := level && d.longEnough() && d.flat(delivered) && d.flat(latency)", "flat := level", "runner/steady", "TestRamp"},
	{"a warm-up may fail requests", "runner/steady/detector.go", "	served := d.served()\n", "	served := d.served() || n > 0\n", "runner/steady", "TestDecisions"},
	{"the band is widened where it is unattainable", "runner/steady/attainable.go", "	d.report.Unattainable = true\n", "	d.rule.Band *= 2\n", "runner/steady", "TestJoinedWindows"},
	{"each round joins windows for itself", "runner/session.go", "	if s.joined > 0 || r.End", "	if r.End", "runner", "TestFirstWarmupChoosesForAll"},
}
