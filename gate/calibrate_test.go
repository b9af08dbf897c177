package gate_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

var epoch = time.Date(2026, 3, 4, 10, 15, 0, 0, time.UTC)

const workloadDigest = "sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// onMachine gives a run what a calibration is recognised by.
func onMachine(run *record.Run) *record.Run {
	run.Epoch = epoch
	run.Workload.Name, run.Workload.Version, run.Workload.Digest = "chat", 3, workloadDigest
	run.Environment.Host = record.Host{Name: "gpu-04", CPU: "EPYC", Cores: 64}
	run.Environment.GPUs = []record.GPU{{UUID: "GPU-a", Name: "H100", Driver: "570.86"}}
	run.Arms.Base = &record.ArmInfo{Commit: strings.Repeat("a", 40)}
	return run
}

// against is a session of base against itself over n pairs, judged in one look.
func against(n int, metrics map[string]values) *record.Run {
	run := newRun(map[string]values{})
	run.Kind = record.KindCalibrate
	run.Declared.Looks, run.Declared.Level, run.Declared.Min, run.Declared.Max = stat.Looks(n, n), 0.05, n, n
	run.Declared.Order = nil
	for _, head := range stat.Order(n, 0) {
		arm := record.Base
		if head {
			arm = record.Head
		}
		run.Declared.Order = append(run.Declared.Order, arm)
	}
	for k := range n {
		addPair(run, metrics, k)
	}
	return onMachine(run)
}

// wobble is nine pairs whose differences have a known spread.
var wobble = values{
	base: []float64{100, 102, 99, 101, 100, 98, 101, 100, 99},
	head: []float64{101, 100, 100, 100, 101, 100, 99, 101, 100},
}

func TestCalibrate(t *testing.T) {
	run := against(9, map[string]values{"e2e_p95": wobble, "output_tps": wobble})
	p := named("e2e_p95", "output_tps")
	c, err := gate.Calibrate(run, p)
	if err != nil {
		t.Fatal(err)
	}
	var d []float64
	for i := range wobble.base {
		d = append(d, math.Log(wobble.head[i]/wobble.base[i]))
	}
	mean, ss := 0.0, 0.0
	for _, x := range d {
		mean += x / 9
	}
	for _, x := range d {
		ss += (x - mean) * (x - mean)
	}
	sd := math.Sqrt(ss / 8)
	m := c.Metrics["e2e_p95"]
	got, _ := m.SD.Finite()
	round, _ := m.RoundSD.Finite()
	if math.Abs(got-sd) > 1e-12 || math.Abs(round-sd/math.Sqrt2) > 1e-12 || m.DF != 8 {
		t.Errorf("s_d %v, round sd %v, df %d, want %v", got, round, m.DF, sd)
	}
	// At the policy's looks, not at the calibration's own one.
	if c.MaxPairs != 8 || c.Level != 0.023 {
		t.Errorf("for at most %d pairs at level %v, want 8 at 0.023", c.MaxPairs, c.Level)
	}
	least := math.Expm1(stat.Supported(sd, 8, 0.023))
	supported, _ := m.Supported.Finite()
	if supported < least || supported >= least+0.005 || math.Abs(supported*200-math.Round(supported*200)) > 1e-9 {
		t.Errorf("supports %v, want %v rounded up to half a percent", supported, least)
	}
	// A throughput falls by less than a latency rises at the same log ratio.
	if tps, _ := c.Metrics["output_tps"].Supported.Finite(); tps > supported || tps < -math.Expm1(-stat.Supported(sd, 8, 0.023)) {
		t.Errorf("throughput supports %v, latency %v", tps, supported)
	}
	if lag, ok := m.Lag1.Finite(); !ok || lag < -1 || lag > 1 {
		t.Errorf("lag-1 correlation %v", m.Lag1)
	}
	if tol, _ := m.Tolerance.Finite(); tol != 0.05 || c.Metrics["ttft_p50"].Tolerance.Reason() != "not gated" {
		t.Errorf("tolerances %v, %v", m.Tolerance, c.Metrics["ttft_p50"].Tolerance)
	}
	if median, _ := m.Median.Finite(); math.Abs(median-100) > 1e-9 || m.Unit != "ms" {
		t.Errorf("median %v %s", m.Median, m.Unit)
	}
	// Rounds that never moved have a floor and no correlation.
	if still := c.Metrics["ttft_p50"]; still.SD.Reason() != "" || still.Lag1.Reason() == "" {
		t.Errorf("a metric that never moves: %+v", still)
	}
	if _, there := c.Metrics[gate.ErrorRate]; there {
		t.Error("the error rate has no spread to calibrate")
	}
	want := &record.Calibration{
		Schema: 1, Run: "made-up", Date: epoch, Commit: strings.Repeat("a", 40), Verdict: "pass", Pairs: 9, Planned: 9, Level: 0.023, MaxPairs: 8,
		Workload: record.CalibratedWorkload{Name: "chat", Version: 3, Digest: workloadDigest}, Measure: 100 * time.Second,
		Host: record.CalibratedHost{Name: "gpu-04", CPU: "EPYC", Cores: 64}, GPUs: []record.CalibratedGPU{{UUID: "GPU-a", Name: "H100", Driver: "570.86"}},
		Drift: c.Drift, Metrics: c.Metrics,
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if change, ok := c.Drift.Change.Finite(); !ok || c.Drift.Metric == "" || math.Abs(change) > 0.05 {
		t.Errorf("drift %+v", c.Drift)
	}
}

// Void pairs are left out; below four there is no calibration.
func TestCalibrationOfFewPairs(t *testing.T) {
	for valid, want := range map[int]bool{3: false, 4: true, 8: true} {
		run := against(9, map[string]values{"e2e_p95": wobble})
		for i := range run.Rounds {
			if run.Rounds[i].Pair >= valid {
				run.Rounds[i].Steady.End = "cap"
			}
		}
		c, err := gate.Calibrate(run, named("e2e_p95"))
		switch {
		case (err == nil) != want:
			t.Errorf("%d valid pairs: %v", valid, err)
		case err == nil && (c.Pairs != valid || c.Planned != 9 || c.Metrics["e2e_p95"].DF != valid-1 || c.Verdict != "invalid"):
			t.Errorf("%d valid pairs: %+v", valid, c)
		case err != nil && !strings.Contains(err.Error(), "3 pairs valid, a calibration takes 4"):
			t.Error(err)
		}
	}
}

// The same bytes on both arms are the point of an A/A session, and its own calibration is no prior of it.
func TestCalibrationSession(t *testing.T) {
	run := against(9, map[string]values{"e2e_p95": wobble})
	p := named("e2e_p95")
	plain := judge(t, run, p)
	want(t, plain, gate.Pass, "")
	if plain.Look != 1 || !slices.Equal(plain.Looks, []int{9}) || plain.Pairs != 9 {
		t.Errorf("look %d of %v over %d pairs", plain.Look, plain.Looks, plain.Pairs)
	}
	p.Calibration = calibration(0.001)
	if diff := cmp.Diff(plain, judge(t, run, p)); diff != "" {
		t.Errorf("a calibration bears on an A/A session:\n%s", diff)
	}
	// No early stop: nothing decides before the last pair.
	for n := 1; n < 9; n++ {
		part := *run
		part.Rounds = run.Rounds[:2*n]
		if next := gate.Decide(&part, p); next.Stop {
			t.Errorf("stops after %d of 9 pairs: %s", n, next.Reason)
		}
	}
	if next := gate.Decide(run, p); !next.Stop {
		t.Errorf("goes on after the last pair: %s", next.Reason)
	}
}

// calibration is one of nine pairs, made an hour before, with one deviation for E2E p95.
func calibration(sd float64) *record.Calibration {
	return &record.Calibration{
		Schema: 1, Run: "cal", Date: epoch.Add(-time.Hour), Verdict: "pass", Pairs: 9, Planned: 9, Measure: 100 * time.Second, Level: 0.023, MaxPairs: 8,
		Workload: record.CalibratedWorkload{Name: "chat", Version: 3, Digest: workloadDigest},
		Host:     record.CalibratedHost{Name: "gpu-04", CPU: "EPYC"}, GPUs: []record.CalibratedGPU{{UUID: "GPU-a", Driver: "570.86"}},
		Metrics: map[string]record.CalibratedMetric{"e2e_p95": {SD: record.Of(sd), DF: 8}}, SHA256: strings.Repeat("c", 64),
	}
}

// The section's own numbers: s 0.01 over four pairs beside a prior of 0.02 gives 0.017838 on 11 degrees of freedom.
func TestPriorModerates(t *testing.T) {
	// Differences of standard deviation 0.01 and mean 0.
	x := 0.01 * math.Sqrt(3) / 2
	var v values
	for _, d := range []float64{x, -x, x, -x} {
		v.base, v.head = append(v.base, 100), append(v.head, 100*math.Exp(d))
	}
	run := onMachine(newRun(map[string]values{"e2e_p95": v}))
	p := named("e2e_p95")
	p.Calibration = calibration(0.02 / 1.2)
	j := judge(t, run, p)
	c := j.Metrics[0]
	if m := c.Moderation; m == nil || math.Abs(m.S-0.01) > 1e-9 || math.Abs(m.S0-0.02) > 1e-9 || m.DF != 11 || m.Dropped {
		t.Fatalf("moderation %+v", m)
	}
	s, _ := c.S.Finite()
	u, _ := c.U.Finite()
	if math.Abs(s-0.017838) > 5e-7 || math.Abs(u-2.248633*0.017838/2) > 2e-6 {
		t.Errorf("s %.6f, U %.6f", s, u)
	}
	if c.N != 4 || j.Calibration == nil || j.Calibration.Ignored != "" || j.Calibration.Run != "cal" || j.Calibration.Date != "2026-03-04T09:15:00Z" {
		t.Errorf("n %d, use %+v", c.N, j.Calibration)
	}
	// A metric that was not calibrated stands on its own.
	p.Calibration.Metrics = map[string]record.CalibratedMetric{"ttft_p50": {SD: record.Of(0.02), DF: 8}}
	if alone := judge(t, run, p).Metrics[0]; alone.Moderation != nil {
		t.Errorf("moderated by another metric: %+v", alone.Moderation)
	}
}

func TestNoisierThanCalibration(t *testing.T) {
	run := onMachine(newRun(map[string]values{"e2e_p95": {b4, []float64{455, 405, 470, 420}}}))
	p := named("e2e_p95")
	without := judge(t, run, p)
	p.Calibration = calibration(0.01)
	with := judge(t, run, p)
	f := finding(with, gate.NoisierThanCalibration)
	if f == nil || f.Severity != gate.Warning || !strings.Contains(f.Text, "noisier than calibration") {
		t.Fatalf("findings %+v", with.Findings)
	}
	if m := with.Metrics[0].Moderation; m == nil || !m.Dropped || m.DF != 3 {
		t.Errorf("moderation %+v", m)
	}
	if with.Verdict != without.Verdict || with.Metrics[0].U != without.Metrics[0].U {
		t.Error("a dropped prior moved the bounds")
	}
}

func TestToleranceBelowSupported(t *testing.T) {
	run := onMachine(quiet(4))
	p := named("e2e_p95")
	for sd, warned := range map[float64]bool{0.003: false, 0.0254: false, 0.03: true} {
		p.Calibration = calibration(sd)
		f := finding(judge(t, run, p), gate.ToleranceUnsupported)
		if (f != nil) != warned {
			t.Errorf("s_d %v supports %.4f: %+v", sd, math.Expm1(stat.Supported(sd, 8, 0.023)), f)
		}
		if f != nil && (f.Severity != gate.Warning || !strings.Contains(f.Text, "E2E p95 has a tolerance of 5 %; at the calibrated noise at most 8 pairs support 6 %")) {
			t.Errorf("%+v", f)
		}
	}
}

// A calibration of another time, machine or workload is said to be ignored, and moves nothing.
func TestCalibrationIgnored(t *testing.T) {
	tests := []struct {
		name   string
		change func(*record.Calibration, *record.Run)
		want   string
	}{
		{"fit", func(*record.Calibration, *record.Run) {}, ""},
		{"two weeks", func(c *record.Calibration, _ *record.Run) { c.Date = epoch.Add(-14 * 24 * time.Hour) }, ""},
		{"older", func(c *record.Calibration, _ *record.Run) { c.Date = epoch.Add(-15*24*time.Hour - time.Minute) }, "15 days old"},
		{"of the future", func(c *record.Calibration, _ *record.Run) { c.Date = epoch.Add(48 * time.Hour) }, "after this run"},
		{"workload", func(_ *record.Calibration, r *record.Run) { r.Workload.Digest = "sha256:1" }, "another workload"},
		{"round length", func(c *record.Calibration, _ *record.Run) { c.Measure = time.Minute }, "measured 1m0s"},
		{"gpu", func(c *record.Calibration, _ *record.Run) { c.GPUs[0].UUID = "GPU-b" }, "other GPUs: GPU-b, not GPU-a"},
		{"more gpus", func(_ *record.Calibration, r *record.Run) {
			r.Environment.GPUs = append(r.Environment.GPUs, record.GPU{UUID: "GPU-b", Driver: "570.86"})
		}, "other GPUs: GPU-a, not GPU-a, GPU-b"},
		{"driver", func(_ *record.Calibration, r *record.Run) { r.Environment.GPUs[0].Driver = "571.00" }, "another driver: 570.86, not 571.00"},
		{"no gpu any more", func(_ *record.Calibration, r *record.Run) { r.Environment.GPUs = nil }, "other GPUs: GPU-a, not none"},
		{"no gpu at all", func(c *record.Calibration, r *record.Run) { c.GPUs, r.Environment.GPUs = nil, nil }, ""},
		{"another host without gpu", func(c *record.Calibration, r *record.Run) {
			c.GPUs, r.Environment.GPUs, c.Host.Name = nil, nil, "gpu-05"
		}, "another host"},
		{"another host with its gpu", func(c *record.Calibration, _ *record.Run) { c.Host.Name = "gpu-05" }, ""},
		{"df 7", func(c *record.Calibration, _ *record.Run) { c.Pairs = 8 }, "8 pairs are too few to lean on, it takes 9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run, p := onMachine(quiet(4)), named("e2e_p95")
			plain := judge(t, run, p)
			p.Calibration = calibration(0.03)
			tt.change(p.Calibration, run)
			j := judge(t, run, p)
			f := finding(j, gate.CalibrationIgnored)
			if tt.want == "" {
				if f != nil || j.Metrics[0].Moderation == nil {
					t.Errorf("ignored: %+v", f)
				}
				return
			}
			if f == nil || f.Severity != gate.Warning || !strings.Contains(f.Text, tt.want) || !strings.Contains(j.Calibration.Ignored, tt.want) {
				t.Fatalf("%+v, use %+v", f, j.Calibration)
			}
			if j.Metrics[0].Moderation != nil || finding(j, gate.ToleranceUnsupported) != nil || j.Verdict != plain.Verdict {
				t.Errorf("an ignored calibration has a say: %+v", j.Metrics[0])
			}
		})
	}
}

func TestCalibrationFindings(t *testing.T) {
	tests := []struct {
		name   string
		change func(*record.Calibration)
		want   []string
	}{
		{"sound", func(*record.Calibration) {}, nil},
		{"not pass", func(c *record.Calibration) { c.Verdict, c.Reason = "inconclusive", "too_noisy" }, []string{gate.CalibrationNotPass}},
		{"lag just at the limit", func(c *record.Calibration) { change(c, func(m *record.CalibratedMetric) { m.Lag1 = record.Of(0.5) }) }, nil},
		{"lag", func(c *record.Calibration) { change(c, func(m *record.CalibratedMetric) { m.Lag1 = record.Of(0.51) }) }, []string{gate.RoundsRemember}},
		{"just supported", func(c *record.Calibration) {
			change(c, func(m *record.CalibratedMetric) { m.Supported = record.Of(10 * 0.005) })
		}, nil},
		{"not supported", func(c *record.Calibration) {
			change(c, func(m *record.CalibratedMetric) { m.Supported = record.Of(0.055) })
		}, []string{gate.ToleranceUnsupported}},
		{"not gated", func(c *record.Calibration) {
			change(c, func(m *record.CalibratedMetric) {
				m.Supported, m.Lag1, m.Tolerance = record.Of(0.2), record.Of(0.9), record.NA("not gated")
			})
		}, nil},
		{"no number", func(c *record.Calibration) {
			change(c, func(m *record.CalibratedMetric) {
				m.SD, m.Supported = record.NA("not streamed"), record.NA("not streamed")
			})
		}, []string{gate.MetricMissing}},
		{"eight pairs", func(c *record.Calibration) { c.Pairs = 8 }, []string{gate.TooFewRounds}},
	}
	for _, tt := range tests {
		c := calibration(0.01)
		change(c, func(m *record.CalibratedMetric) { m.Tolerance, m.Supported = record.Of(0.05), record.Of(0.03) })
		tt.change(c)
		var got []string
		for _, f := range gate.CalibrationFindings(c) {
			got = append(got, f.ID)
			if f.Severity != gate.Warning || f.Text == "" {
				t.Errorf("%s: %+v", tt.name, f)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// change edits the one metric of a calibration.
func change(c *record.Calibration, edit func(*record.CalibratedMetric)) {
	m := c.Metrics["e2e_p95"]
	edit(&m)
	c.Metrics["e2e_p95"] = m
}
