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
	numbers := false
	for _, m := range Metrics() {
		n, ok := m.noise(e.valid, c.MaxPairs, level)
		tol, gated := e.policy.Tolerance[m.Key]
		if !ok && !gated || m.Key == ErrorRate {
			continue
		}
		n.Tolerance = record.NA("not gated")
		if gated {
			_, fraction := m.tolerate(tol, n.Median)
			n.Tolerance = record.Of(fraction)
		}
		c.Metrics[m.Key] = n
		numbers = numbers || ok
	}
	if !numbers {
		return nil, errors.New("no metric was a number in every valid round")
	}
	return c, nil
}

// noise is how much pairs of one build differ in a metric; false, with the reason in every number, where some round has none.
func (m Metric) noise(pairs []pair, last int, level float64) (record.CalibratedMetric, bool) {
	base, head := m.series(rounds(pairs, record.Base)), m.series(rounds(pairs, record.Head))
	n := record.CalibratedMetric{Unit: m.Unit, DF: len(pairs) - 1}
	if !base.finite() || !head.finite() {
		na := record.NA(orElse(orElse(base.reason, head.reason), "not a number in every round"))
		n.Median, n.SD, n.RoundSD, n.Lag1, n.Supported = na, na, na, na, na
		return n, false
	}
	d := stat.Pairs(base.ys, head.ys)
	e := stat.EstimateOf(d)
	n.Median = m.natural(stat.Median(append(base.ys, head.ys...)))
	n.SD, n.RoundSD, n.Supported = record.Of(e.S), record.Of(e.S/math.Sqrt2), record.Of(m.supported(e.S, last, level))
	n.Lag1 = record.NA("all pairs differ alike")
	if lag, ok := stat.Lag1(d); ok {
		n.Lag1 = record.Of(lag)
	}
	return n, true
}

// CalibrationFindings says what is to be doubted of a calibration, or done about it: an A/A session that did not pass, rounds
// that remember each other, tolerances of its policy below what the machine supports, too few pairs to lean on. Empty for a
// machine that carries its policy.
func CalibrationFindings(c *record.Calibration) []Finding {
	var list []Finding
	warn := func(id, metric, text string) {
		list = append(list, Finding{ID: id, Severity: Warning, Metric: metric, Text: text})
	}
	if c.Verdict != string(Pass) {
		text := "judged as two builds, this one against itself is " + c.Verdict
		if c.Reason != "" {
			text += " (" + c.Reason + ")"
		}
		warn(CalibrationNotPass, "", text+": so may be a comparison in which nothing changed")
	}
	for _, m := range Metrics() {
		n, ok := c.Metrics[m.Key]
		tolerance, gated := n.Tolerance.Finite()
		if !ok || !gated {
			continue
		}
		lag, hasLag := n.Lag1.Finite()
		if hasLag && lag > Lag1Limit {
			warn(RoundsRemember, m.Key, fmt.Sprintf("%s: each pair resembles the one before it (lag-1 correlation %.2f, more than %.1f): the cool-down is too short, lengthen cooldown.pause",
				m.Name, lag, Lag1Limit))
		}
		supported, known := n.Supported.Finite()
		switch {
		case !known:
			warn(MetricMissing, m.Key, fmt.Sprintf("%s is gated and was not calibrated (%s)", m.Name, n.SD.Reason()))
		case tolerance < supported-1e-9:
			warn(ToleranceUnsupported, m.Key, fmt.Sprintf("%s has a tolerance of %s, and %s is the smallest that at most %s support here",
				m.Name, share(tolerance), share(supported), plural(c.MaxPairs, "pair")))
		}
	}
	if c.Pairs < leastPriorDF+1 {
		warn(TooFewRounds, "", fmt.Sprintf("%s are too few for verdict.calibration, which takes %d", plural(c.Pairs, "pair"), leastPriorDF+1))
	}
	return list
}
