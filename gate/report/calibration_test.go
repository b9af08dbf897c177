package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// aNoise is a calibration of [aRun]'s machine.
func aNoise() *record.Calibration {
	metric := func(median float64, unit string, sd, lag, supported, tolerance float64) record.CalibratedMetric {
		m := record.CalibratedMetric{
			Median: record.Of(median), Unit: unit, SD: record.Of(sd), RoundSD: record.Of(sd / 1.4142), DF: 8, Lag1: record.Of(lag),
			Supported: record.Of(supported), Tolerance: record.NA("not gated"),
		}
		if tolerance > 0 {
			m.Tolerance = record.Of(tolerance)
		}
		return m
	}
	return &record.Calibration{
		Schema: 1, Run: "20260304-101500-k3f9", Pairs: 9, Planned: 9, Level: 0.023, MaxPairs: 8, Measure: 6 * time.Minute, Verdict: "pass",
		Workload: record.CalibratedWorkload{Name: "chat-v3", Version: 3, Digest: "sha256:9c41d07e5b12"},
		Drift:    record.CalibrationDrift{Metric: "ttft_p50", Change: record.Of(0.004), SlotEffect: record.Of(-0.002)},
		Metrics: map[string]record.CalibratedMetric{
			"ttft_p50": metric(183, "ms", 0.011, -0.21, 0.025, 0.05), "ttft_p99": metric(619, "ms", 0.052, 0.11, 0.11, 0.15),
			"output_tps": metric(1842, "tok/s", 0.003, 0.02, 0.01, 0.05), "e2e_p99": metric(9120, "ms", 0.031, 0.3, 0.065, 0),
		},
	}
}

func TestCalibrationText(t *testing.T) {
	tests := []struct {
		name   string
		change func(*record.Calibration)
	}{
		{"calibration", func(*record.Calibration) {}},
		{"calibration-noisy", func(c *record.Calibration) {
			m := c.Metrics["ttft_p99"]
			m.SD, m.RoundSD, m.Supported, m.Lag1 = record.Of(0.15), record.Of(0.106), record.Of(0.335), record.Of(0.62)
			c.Metrics["ttft_p99"] = m
			c.Metrics["itl_p50"] = record.CalibratedMetric{
				Unit: "ms", DF: 8, Median: record.NA("too few gaps"), SD: record.NA("too few gaps"), RoundSD: record.NA("too few gaps"),
				Lag1: record.NA("too few gaps"), Supported: record.NA("too few gaps"), Tolerance: record.Of(0.05),
			}
			c.Verdict, c.Reason, c.Pairs = "inconclusive", "too_noisy", 8
			c.Drift.SlotEffect = record.NA("too few pairs")
		}},
	}
	for _, tt := range tests {
		run := aRun(9)
		run.Kind = record.KindCalibrate
		c := aNoise()
		tt.change(c)
		var b bytes.Buffer
		if err := Calibration(&b, run, c, Options{RunFolder: ".tailgate/runs/20260304-101500-k3f9"}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", tt.name+".txt")
		if *update {
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		for n, l := range strings.Split(b.String(), "\n")[1:] {
			if columns(l) > minWidth {
				t.Errorf("%s: line %d has %d columns: %s", tt.name, n+2, columns(l), l)
			}
		}
	}
}

// What a calibration says of a metric moves with what is in it: hostile texts stay text.
func TestCalibrationIsHostile(t *testing.T) {
	run := aRun(9)
	run.Kind = record.KindCalibrate
	c := aNoise()
	c.Workload.Name, c.Verdict, c.Reason = "a\x1b[31m\nb", "\x1b]0;x", "\u202eevil"
	var b bytes.Buffer
	if err := Calibration(&b, run, c, Options{}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\u202e") {
		t.Errorf("steers the terminal: %q", b.String())
	}
}
