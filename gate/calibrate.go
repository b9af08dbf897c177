package gate

import (
	"errors"
	"fmt"
	"math"

	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// DefaultCalibrationPairs is how many pairs an A/A session has unless told otherwise, FewestCalibrationPairs the fewest that
// give a calibration.
const (
	DefaultCalibrationPairs = 9
	FewestCalibrationPairs  = 4
)

// Lag1Limit is the correlation between adjacent pair differences beyond which rounds are not believed to be independent.
const Lag1Limit = 0.5

// Calibrate sums up a session of base against itself: how much rounds of one build differ on this machine, and which
// tolerances that supports in a session of the policy's own looks. It is pure, as [Evaluate] is: the calibration can be made
// again from the run. The error says that too few pairs are valid.
func Calibrate(run *record.Run, p Policy) (*record.Calibration, error) {
	e := weigh(run, p)
	if n := len(e.valid); n < FewestCalibrationPairs {
		return nil, fmt.Errorf("%s valid, a calibration takes %d (%s)", plural(n, "pair"), FewestCalibrationPairs, e.voidSummary())
	}
	_, _, looks, level := Declare(p, run.ID)
	c := &record.Calibration{
		Schema: record.CalibrationSchema, Run: run.ID, Date: run.Epoch, Tailgate: run.Tailgate,
		Workload: record.CalibratedWorkload{Name: run.Workload.Name, Version: run.Workload.Version, Digest: run.Workload.Digest},
		Host: record.CalibratedHost{
			Name: run.Environment.Host.Name, CPU: run.Environment.Host.CPU, Kernel: run.Environment.Host.Kernel, Cores: run.Environment.Host.Cores,
		},
		GPUs: calibrated(run.Environment.GPUs), Measure: run.Declared.Measure,
		Pairs: len(e.valid), Planned: max(len(run.Declared.Order)/2, len(e.valid)), Level: level, MaxPairs: looks[len(looks)-1],
		Metrics: map[string]record.CalibratedMetric{},
	}
	if base := run.Arms.Base; base != nil {
		c.Commit = base.Commit
	}
	j := Evaluate(run, p)
	c.Verdict, c.Reason = string(j.Verdict), j.Reason
	drift, _ := e.drift(e.valid)
	c.Drift = record.CalibrationDrift{Metric: drift.Key, Change: drift.Change, SlotEffect: drift.SlotEffect, Range: drift.BaseRange}
	for _, m := range Metrics() {
		if n, ok := m.noise(e.valid, c.MaxPairs, level); ok && e.few[m.Key] == "" {
			c.Metrics[m.Key] = n
		}
	}
	if len(c.Metrics) == 0 {
		return nil, errors.New("no metric was a number in every valid round")
	}
	return c, nil
}

// noise is how much pairs of one build differ in a metric; false where some round has no number.
func (m Metric) noise(pairs []pair, last int, level float64) (record.CalibratedMetric, bool) {
	base, head := m.series(rounds(pairs, record.Base)), m.series(rounds(pairs, record.Head))
	if m.Key == ErrorRate || !base.finite() || !head.finite() {
		return record.CalibratedMetric{}, false
	}
	d := stat.Pairs(base.ys, head.ys)
	e := stat.EstimateOf(d)
	n := record.CalibratedMetric{
		SD: record.Of(e.S), RoundSD: record.Of(e.S / math.Sqrt2), DF: e.N - 1, Lag1: record.NA("all pairs differ alike"),
		Supported: record.Of(m.supported(e.S, last, level)),
	}
	if lag, ok := stat.Lag1(d); ok {
		n.Lag1 = record.Of(lag)
	}
	return n, true
}
