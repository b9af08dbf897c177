package gate_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

var b4 = []float64{412, 408, 415, 410}

func TestWorkedMetrics(t *testing.T) {
	tests := map[string]struct {
		base, head  []float64
		verdict     gate.Verdict
		cause, note string
		futile      bool
		needed      int
	}{
		"X1":  {base: b4, head: []float64{413, 409, 412, 411}, verdict: gate.Pass},
		"X2":  {base: b4, head: []float64{452, 451, 455, 450}, verdict: gate.Fail, cause: gate.MetricWorse},
		"X4":  {base: b4, head: []float64{430, 427, 433, 429}, verdict: gate.Inconclusive, cause: gate.NearTolerance, needed: 6},
		"X5":  {base: b4, head: []float64{455, 405, 470, 420}, verdict: gate.Inconclusive, cause: gate.ToleranceTooFine, needed: 16},
		"X6":  {base: same(100, 4), head: same(102, 4), verdict: gate.Pass, note: "slower, within tolerance"},
		"X7":  {base: []float64{400, 300, 420, 380}, head: []float64{310, 430, 390, 410}, verdict: gate.Inconclusive, cause: gate.ToleranceTooFine, futile: true, needed: 101},
		"X8":  {base: b4, head: []float64{370, 368, 372, 371}, verdict: gate.Pass, note: "improved"},
		"X9":  {base: same(100, 4), head: []float64{106, 106, 106, 101}, verdict: gate.Inconclusive, cause: gate.TooNoisy, needed: 6},
		"X10": {base: []float64{101, 104, 99}, head: []float64{103, 100, 105}, verdict: gate.Inconclusive, cause: gate.ToleranceTooFine, needed: 8},
	}
	for id, tt := range tests {
		t.Run(id, func(t *testing.T) {
			j := judge(t, newRun(map[string]values{"e2e_p95": {tt.base, tt.head}}), named("e2e_p95"))
			if len(j.Metrics) != 1 {
				t.Fatalf("%d metrics", len(j.Metrics))
			}
			c := j.Metrics[0]
			if j.Verdict != tt.verdict || c.Verdict != tt.verdict || c.Cause != tt.cause || c.Note != tt.note || c.Futile != tt.futile {
				t.Errorf("session %s, metric %s cause %q note %q futile %v, want %+v", j.Verdict, c.Verdict, c.Cause, c.Note, c.Futile, tt)
			}
			if tt.needed != 0 && c.PairsNeeded != tt.needed {
				t.Errorf("%d pairs needed, want %d", c.PairsNeeded, tt.needed)
			}
			if j.Provisional != (len(tt.base) == 3) {
				t.Errorf("provisional %v with %d pairs", j.Provisional, len(tt.base))
			}
		})
	}
}

// X3: the medians leak -3.5 % and the machine moved by 28 %: nothing is said of the build.
func TestBaseDrift(t *testing.T) {
	run := newRun(map[string]values{"ttft_p50": {[]float64{100, 112, 120, 124}, []float64{104, 108, 116, 128}}})
	j := judge(t, run, named("ttft_p50"))
	want(t, j, gate.Invalid, gate.BaseDrift)
	if x, _ := j.Drift.Change.Get(); math.Abs(x-0.280) > 0.0005 {
		t.Errorf("drift %v, want 28.0 %%", x)
	}
	if !strings.Contains(j.Findings[0].Text, "+28.0 %") {
		t.Errorf("the reader is not told how far: %s", j.Findings[0].Text)
	}
	// The same machine, but ten times steadier (case T-02): a pass, with the drift reported.
	for i := range run.Rounds {
		run.Rounds[i].Metrics["ttft_p50"] = metricOf("ttft_p50", 100*(1+0.004*float64(i)))
	}
	j = judge(t, run, named("ttft_p50"))
	want(t, j, gate.Pass, "")
	if x, _ := j.Drift.Change.Get(); math.Abs(x-0.028) > 0.001 {
		t.Errorf("drift %v, want 2.8 %%", x)
	}
	// Over half of the limit, a warning stands above the table.
	for i := range run.Rounds {
		run.Rounds[i].Metrics["ttft_p50"] = metricOf("ttft_p50", 100*(1+0.010*float64(i)))
	}
	j = judge(t, run, named("e2e_p95", "ttft_p50"))
	if f := finding(j, gate.BaseDrift); f == nil || f.Severity != gate.Warning {
		t.Errorf("7 %% of drift gives no warning: %+v", j.Findings)
	}
}

// Case T-01 (b) of ohdearquant/lattice#714 and others: three noisy pairs of one build never fail it.
func TestThreeNoisyPairsProveNothing(t *testing.T) {
	run := newRun(map[string]values{"e2e_p95": {[]float64{101, 104, 99}, []float64{103, 100, 105}}})
	j := judge(t, run, named("e2e_p95"))
	if j.Verdict != gate.Inconclusive || !j.Provisional {
		t.Errorf("%s, provisional %v", j.Verdict, j.Provisional)
	}
	p := named("e2e_p95")
	p.Tolerance["e2e_p95"] = gate.Tolerance{Relative: 0.01, Named: true}
	want(t, judge(t, run, p), gate.Inconclusive, gate.ToleranceTooFine)
}

// Case T-04 of sgl-project/sglang#8285 and others: one setup between 175 and 4,760 ms.
func TestRoundsThatDisagree(t *testing.T) {
	run := newRun(map[string]values{"e2e_p50": {[]float64{240, 185, 190, 230, 210, 200}, []float64{250, 175, 180, 1170, 4760, 300}}})
	j := judge(t, run, named("e2e_p50"))
	if j.Verdict != gate.Inconclusive || j.Pairs != 6 {
		t.Errorf("%s over %d pairs", j.Verdict, j.Pairs)
	}
}

func TestThroughputDirection(t *testing.T) {
	run := newRun(map[string]values{"output_tps": {b4, []float64{370, 368, 372, 371}}})
	j := judge(t, run, named("output_tps"))
	want(t, j, gate.Fail, gate.MetricWorse)
	c := j.Metrics[0]
	if r, _ := c.R.Get(); r <= 0 || !c.HigherIsBetter || c.Worse != 4 {
		t.Errorf("less throughput must be worse: R %v, worse %d", r, c.Worse)
	}
	if !strings.Contains(c.Key, "output") || !strings.Contains(j.Findings[0].Text, "-9.9 %") {
		t.Errorf("the sentence must keep the metric's own sign: %s", j.Findings[0].Text)
	}
	run = newRun(map[string]values{"output_tps": {b4, []float64{452, 451, 455, 450}}})
	if j = judge(t, run, named("output_tps")); j.Verdict != gate.Pass || j.Metrics[0].Note != "improved" {
		t.Errorf("more throughput: %s %q", j.Verdict, j.Metrics[0].Note)
	}
}

// A change must exceed the relative and the absolute tolerance.
func TestAbsoluteTolerance(t *testing.T) {
	run := newRun(map[string]values{"itl_p50": {same(10, 4), same(11, 4)}})
	p := named("itl_p50")
	want(t, judge(t, run, p), gate.Fail, gate.MetricWorse)
	p.Tolerance["itl_p50"] = gate.Tolerance{Relative: 0.05, Absolute: 2, Named: true}
	j := judge(t, run, p)
	want(t, j, gate.Pass, "")
	if got := j.Metrics[0].Tolerance; math.Abs(got-0.2) > 1e-9 {
		t.Errorf("tolerance %v, want 2 ms of 10 ms", got)
	}
}

// A full margin asks for proof of the whole tolerance.
func TestMargin(t *testing.T) {
	run := newRun(map[string]values{"e2e_p95": {same(100, 4), []float64{106, 106.4, 105.2, 105.6}}})
	p := named("e2e_p95")
	want(t, judge(t, run, p), gate.Fail, gate.MetricWorse)
	p.Margin = gate.MarginFull
	if j := judge(t, run, p); j.Verdict != gate.Inconclusive {
		t.Errorf("full margin: %s", j.Verdict)
	}
}

func TestUnboundedPercentiles(t *testing.T) {
	inf := record.Metric{Value: record.Failed(), Unit: "ms", N: requests}
	na := record.Metric{Value: record.NA("n/a (n=40)"), Unit: "ms"}
	tests := map[string]struct {
		base, head map[int]record.Metric
		verdict    gate.Verdict
		reason     string
	}{
		"head twice":          {nil, map[int]record.Metric{0: inf, 2: inf}, gate.Fail, gate.Unbounded},
		"head once":           {nil, map[int]record.Metric{1: inf}, gate.Inconclusive, gate.Unbounded},
		"base once":           {map[int]record.Metric{1: inf}, nil, gate.Inconclusive, gate.BaseUnbounded},
		"both":                {map[int]record.Metric{1: inf}, map[int]record.Metric{0: inf, 1: inf}, gate.Inconclusive, gate.BaseUnbounded},
		"head missing":        {nil, map[int]record.Metric{3: na}, gate.Inconclusive, gate.MetricMissing},
		"base missing":        {map[int]record.Metric{3: na}, nil, gate.Inconclusive, gate.MetricMissing},
		"missing and failing": {nil, map[int]record.Metric{0: inf, 1: inf, 3: na}, gate.Fail, gate.Unbounded},
		"base never":          {map[int]record.Metric{0: na, 1: na, 2: na, 3: na}, nil, gate.Invalid, gate.MetricAbsent},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			run := quiet(4)
			for i, m := range tt.base {
				of(run, record.Base)[i].Metrics["e2e_p95"] = m
			}
			for i, m := range tt.head {
				of(run, record.Head)[i].Metrics["e2e_p95"] = m
			}
			want(t, judge(t, run, named("e2e_p95")), tt.verdict, tt.reason)
		})
	}
}

// Nothing measured is never a pass, and neither is nothing asked.
func TestNothingIsNeverPass(t *testing.T) {
	want(t, judge(t, quiet(4), gate.Policy{}), gate.Invalid, gate.NothingGated)
	want(t, judge(t, &record.Run{Status: record.StatusComplete}, named("e2e_p95")), gate.Invalid, gate.TooFewRounds)
	want(t, judge(t, quiet(4), named("speed")), gate.Invalid, gate.MetricAbsent)
	want(t, judge(t, quiet(4), named("error_rate")), gate.Invalid, gate.MetricAbsent)
	run := quiet(4)
	for i := range run.Rounds {
		run.Rounds[i].Counts = record.Counts{Classes: map[record.Outcome]int{}}
	}
	want(t, judge(t, run, named("e2e_p95")), gate.Invalid, gate.NoRequests)
	want(t, judge(t, quiet(3), named("e2e_p95")), gate.Pass, "")
	run = quiet(4)
	run.Rounds = run.Rounds[:7]
	want(t, judge(t, run, named("e2e_p95")), gate.Invalid, gate.TooFewRounds)
}

func TestStatusIsNeverPassed(t *testing.T) {
	tests := map[record.Status]struct {
		verdict gate.Verdict
		reason  string
	}{
		record.StatusComplete:  {gate.Pass, ""},
		record.StatusDeadline:  {gate.Pass, ""},
		record.StatusCancelled: {gate.Invalid, record.Cancelled},
		record.StatusBroken:    {gate.Invalid, gate.Unfinished},
		record.StatusRunning:   {gate.Invalid, gate.Unfinished},
		record.StatusPlanned:   {gate.Invalid, gate.Unfinished},
		"":                     {gate.Invalid, gate.Unfinished},
	}
	for status, tt := range tests {
		run := quiet(4)
		run.Status = status
		want(t, judge(t, run, named("e2e_p95")), tt.verdict, tt.reason)
	}
}

// Pairs beyond the last look reached are shown, not judged.
func TestUnfinishedLook(t *testing.T) {
	run := quiet(5)
	run.Status = record.StatusDeadline
	for _, arm := range of(run, record.Head)[4:] {
		arm.Metrics["e2e_p95"] = metricOf("e2e_p95", 4000)
	}
	j := judge(t, run, named("e2e_p95"))
	want(t, j, gate.Pass, "")
	if j.Pairs != 4 || j.Spare != 1 || j.Look != 1 || j.Metrics[0].N != 4 {
		t.Errorf("judged %d pairs, %d spare, look %d", j.Pairs, j.Spare, j.Look)
	}
}

// Metrics stand in the order of their weight, whatever their names.
func TestOrderOfMetrics(t *testing.T) {
	run := newRun(map[string]values{
		"e2e_p50": {same(100, 4), same(101, 4)},
		"e2e_p90": {same(100, 4), same(102, 4)},
		"e2e_p95": {b4, []float64{455, 405, 470, 420}},
		"e2e_p99": {same(100, 4), same(120, 4)},
	})
	j := judge(t, run, named("e2e_p50", "e2e_p90", "e2e_p95", "e2e_p99"))
	var keys []string
	for _, c := range j.Metrics {
		keys = append(keys, c.Key)
	}
	if wantKeys := []string{"e2e_p99", "e2e_p95", "e2e_p90", "e2e_p50"}; !slices.Equal(keys, wantKeys) {
		t.Errorf("order %v, want %v", keys, wantKeys)
	}
}

// With one run the judge always writes the same bytes, and leaves the run as it was.
func TestSameBytes(t *testing.T) {
	run := newRun(map[string]values{"e2e_p50": {b4, b4}, "e2e_p95": {b4, []float64{452, 451, 455, 450}}, "output_tps": {b4, b4}, "ttft_p95": {b4, b4}})
	for i := range run.Rounds {
		fail(&run.Rounds[i], record.HTTP503, i)
		fail(&run.Rounds[i], record.Timeout, 2*i)
	}
	before, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	p := named("e2e_p50", "e2e_p95", "output_tps", "ttft_p95", "itl_p50")
	p.SLO = map[string]float64{"e2e_p95": 500, "error_rate": 0.01, "ttft_p95": 300}
	first, err := json.Marshal(gate.Evaluate(run, p))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := json.Marshal(gate.Evaluate(run, p))
		if err != nil || !bytes.Equal(first, again) {
			t.Fatalf("another judgement of the same run (%v):\n%s\n%s", err, first, again)
		}
	}
	if after, err := json.Marshal(run); err != nil || !bytes.Equal(before, after) {
		t.Errorf("judging changed the run (%v)", err)
	}
}

// Swapping the arms' values flips every sign and the direction of the verdict.
func TestSwappingArms(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		var v values
		for range 4 {
			v.base, v.head = append(v.base, 100*math.Exp(0.02*rng.NormFloat64())), append(v.head, 100*math.Exp(0.02*rng.NormFloat64()))
		}
		a := judge(t, newRun(map[string]values{"e2e_p95": v}), named("e2e_p95")).Metrics[0]
		b := judge(t, newRun(map[string]values{"e2e_p95": {v.head, v.base}}), named("e2e_p95")).Metrics[0]
		al, _ := a.L.Get()
		bu, _ := b.U.Get()
		ar, _ := a.R.Get()
		br, _ := b.R.Get()
		if math.Abs(al+bu) > 1e-12 || math.Abs(ar+br) > 1e-12 || a.Worse+b.Worse != 4 {
			t.Fatalf("L %v against U %v, R %v against %v", al, bu, ar, br)
		}
	}
}

// Slowing head down never improves the verdict.
func TestVerdictIsMonotone(t *testing.T) {
	order := []gate.Verdict{gate.Pass, gate.Inconclusive, gate.Fail}
	rng := rand.New(rand.NewPCG(2, 2))
	for range 50 {
		base, noise := make([]float64, 4), make([]float64, 4)
		for i := range base {
			base[i], noise[i] = 100*math.Exp(0.01*rng.NormFloat64()), math.Exp(0.01*rng.NormFloat64())
		}
		last := 0
		for slow := 0.90; slow < 1.3; slow += 0.01 {
			head := make([]float64, 4)
			for i := range head {
				head[i] = 100 * slow * noise[i]
			}
			j := judge(t, newRun(map[string]values{"e2e_p95": {base, head}}), named("e2e_p95"))
			now := slices.Index(order, j.Verdict)
			if now < last {
				t.Fatalf("slower by %.2f is %s, faster was %s", slow, j.Verdict, order[last])
			}
			last = now
		}
		if last != 2 {
			t.Fatal("30 % slower does not fail: the gate cannot fail")
		}
	}
}

func TestDeclare(t *testing.T) {
	coin, order, looks, level := gate.Declare(gate.Policy{}, "x")
	if !slices.Equal(looks, []int{4, 6, 8}) || level != 0.023 || len(order) != 16 {
		t.Errorf("looks %v level %v order %v", looks, level, order)
	}
	heads := stat.Order(8, coin)
	for i, arm := range order {
		if (arm == record.Head) != heads[i] {
			t.Errorf("slot %d is %s with coin %d", i, arm, coin)
		}
	}
	seen := map[int]int{}
	for i := range 64 {
		c, _, _, _ := gate.Declare(gate.Policy{}, strings.Repeat("x", i))
		seen[c]++
	}
	if seen[0] < 16 || seen[1] < 16 || seen[0]+seen[1] != 64 {
		t.Errorf("the coin is not fair: %v", seen)
	}
	_, _, looks, level = gate.Declare(gate.Policy{Min: 4, Max: 12, Alpha: 0.1}, "x")
	if len(looks) != 5 || math.Abs(level-0.034) > 1e-12 {
		t.Errorf("looks %v level %v; alpha 0.1 doubles it", looks, level)
	}
	if _, _, looks, _ = gate.Declare(gate.Policy{Min: 40, Max: 1}, "x"); !slices.Equal(looks, []int{12}) {
		t.Errorf("numbers out of range: looks %v", looks)
	}
}

// A run is judged by what it declared, not by what a later policy would have declared.
func TestStoredScheduleStands(t *testing.T) {
	p := named("e2e_p95")
	p.Min, p.Max, p.Alpha = 3, 12, 0.1
	j := judge(t, quiet(4), p)
	if j.Level != 0.023 || !slices.Equal(j.Looks, []int{4, 6, 8}) {
		t.Errorf("level %v looks %v", j.Level, j.Looks)
	}
	run := quiet(4)
	run.Declared.Looks, run.Declared.Level = []int{9, 2}, -1
	if j = judge(t, run, named("e2e_p95")); j.Level != 0.023 {
		t.Errorf("an unsound declaration: level %v looks %v", j.Level, j.Looks)
	}
}

// A latency of zero, or below, is no latency (scenario of zero samples read as 0 ms): the fastest head there is must not pass.
func TestZeroIsNoLatency(t *testing.T) {
	for _, x := range []float64{0, -1} {
		run := newRun(map[string]values{"e2e_p95": {b4, same(x, 4)}})
		j := judge(t, run, named("e2e_p95"))
		want(t, j, gate.Inconclusive, gate.MetricMissing)
		run = newRun(map[string]values{"e2e_p95": {same(x, 4), same(x, 4)}})
		want(t, judge(t, run, named("e2e_p95")), gate.Invalid, gate.MetricAbsent)
	}
}
