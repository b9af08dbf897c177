package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// freshDays is how old a calibration may be at the beginning of a session, in days.
	freshDays = 14
	// leastPriorDF is how many degrees of freedom a calibration needs to stand beside a session's own.
	leastPriorDF = 8
)

// CalibrationUse says what a calibration did to a judgement.
type CalibrationUse struct {
	// SHA256 is of the file, 64 hex; Run is the A/A session it came from, Date when that began, in RFC 3339.
	SHA256 string `json:"sha256"`
	Run    string `json:"run"`
	Date   string `json:"date"`
	// Pairs counts the pairs it rests on; Verdict is that of the A/A session itself.
	Pairs   int    `json:"pairs"`
	Verdict string `json:"verdict"`
	// Ignored says why it was not used; empty when it was.
	Ignored string `json:"ignored,omitempty"`
}

// Moderation is how a calibration moved the spread of one metric's pairs.
type Moderation struct {
	// S is the deviation of the session's own pairs, S0 that of the prior, both as log ratios.
	S  float64 `json:"s"`
	S0 float64 `json:"s0"`
	// DF is the degrees of freedom of the bounds; that of the pairs alone where Dropped.
	DF int `json:"df"`
	// Dropped is true where the session was noisier than the calibration allows, which then had no part in its bounds.
	Dropped bool `json:"dropped,omitempty"`
}

// prior is a calibration as it bears on one run.
type prior struct {
	calibration *record.Calibration
	// ignored says why it is not used; empty when it is.
	ignored string
}

// priorOf decides whether a run may use the policy's calibration. An A/A session uses none: it would confirm itself.
func priorOf(run *record.Run, c *record.Calibration) prior {
	if c == nil || run.Kind == record.KindCalibrate {
		return prior{}
	}
	return prior{c, unfitCalibration(run, c)}
}

// unfitCalibration says why a calibration tells nothing of a run's noise; empty when it does.
func unfitCalibration(run *record.Run, c *record.Calibration) string {
	gpus := calibrated(run.Environment.GPUs)
	here, there := uuids(gpus), uuids(c.GPUs)
	age := run.Epoch.Sub(c.Date).Hours() / 24
	switch {
	case age > freshDays:
		return fmt.Sprintf("it is %.0f days old, more than %d", math.Floor(age), freshDays)
	case age < -1:
		return "it was made after this run"
	case c.Workload.Digest != run.Workload.Digest:
		return "it was made with another workload, or another version of it"
	case c.Measure != run.Declared.Measure:
		return fmt.Sprintf("its rounds measured %s, those of this run %s", c.Measure, run.Declared.Measure)
	case !slices.Equal(here, there):
		return fmt.Sprintf("it was made on other GPUs: %s, not %s", listed(there), listed(here))
	case !slices.Equal(drivers(gpus), drivers(c.GPUs)):
		return fmt.Sprintf("it was made under another driver: %s, not %s", listed(drivers(c.GPUs)), listed(drivers(gpus)))
	case len(here) == 0 && (c.Host.Name != run.Environment.Host.Name || c.Host.CPU != run.Environment.Host.CPU):
		return "no GPU was observed, and it was made on another host"
	case c.Pairs-1 < leastPriorDF:
		return fmt.Sprintf("%s are too few to lean on, it takes %d", plural(c.Pairs, "pair"), leastPriorDF+1)
	}
	return ""
}

// calibrated names devices as a calibration does, in order of their UUIDs.
func calibrated(gpus []record.GPU) []record.CalibratedGPU {
	list := []record.CalibratedGPU{}
	for _, g := range gpus {
		list = append(list, record.CalibratedGPU{UUID: g.UUID, Name: g.Name, Driver: g.Driver})
	}
	slices.SortFunc(list, func(a, b record.CalibratedGPU) int { return strings.Compare(a.UUID, b.UUID) })
	return list
}

func uuids(gpus []record.CalibratedGPU) []string {
	list := make([]string, len(gpus))
	for i, g := range gpus {
		list[i] = g.UUID
	}
	slices.Sort(list)
	return list
}

func drivers(gpus []record.CalibratedGPU) []string {
	var list []string
	for _, g := range gpus {
		list = append(list, g.Driver)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func listed(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// used reports whether the calibration bears on the run.
func (p prior) used() bool { return p.calibration != nil && p.ignored == "" }

// deviations are the calibrated deviations of pair differences that a session may lean on, by metric.
func (p prior) deviations() map[string]float64 {
	if !p.used() {
		return nil
	}
	list := map[string]float64{}
	for key, m := range p.calibration.Metrics {
		if s, ok := m.SD.Finite(); ok && m.DF >= leastPriorDF {
			list[key] = s
		}
	}
	return list
}

// use is the calibration's entry in the judgement; nil without one.
func (p prior) use() *CalibrationUse {
	c := p.calibration
	if c == nil {
		return nil
	}
	return &CalibrationUse{
		SHA256: c.SHA256, Run: c.Run, Date: c.Date.UTC().Format("2006-01-02T15:04:05Z"), Pairs: c.Pairs, Verdict: c.Verdict, Ignored: p.ignored,
	}
}

// moderate draws the spread of the pairs towards the calibrated one, and says so.
func (c *compared) moderate(e stat.Estimate, priors map[string]float64) stat.Estimate {
	sd, ok := priors[c.Key]
	if !ok || e.N < 2 {
		return e
	}
	s0 := stat.PriorMargin * sd
	m, drawn := e.Moderate(s0, stat.PriorDF)
	c.Moderation = &Moderation{S: e.S, S0: s0, DF: m.N - 1 + m.Prior, Dropped: !drawn}
	return m
}

// ruleCalibration says where a calibration was not used, where a session was noisier than it, and which tolerance is finer
// than what the machine was seen to support.
func (h *hearing) ruleCalibration(p prior, s schedule) {
	if !p.used() {
		return
	}
	for _, c := range h.metrics {
		if m := c.Moderation; m != nil && m.Dropped {
			h.add(ruling{class: warns, Finding: Finding{
				ID: NoisierThanCalibration, Metric: c.Key,
				Text: fmt.Sprintf("%s: noisier than calibration: pairs differ by %s, %s was calibrated; its bounds rest on this session alone",
					c.metric.Name, share(math.Expm1(m.S)), share(math.Expm1(m.S0/stat.PriorMargin))),
			}})
		}
		sd, ok := p.calibration.Metrics[c.Key].SD.Finite()
		if !ok {
			continue
		}
		if least := c.metric.supported(sd, s.last(), s.level); c.Tolerance < least-1e-9 {
			h.add(ruling{class: warns, Finding: Finding{
				ID: ToleranceUnsupported, Metric: c.Key,
				Text: fmt.Sprintf("%s has a tolerance of %s; at the calibrated noise at most %s support %s: widen it, allow more pairs or measure longer",
					c.metric.Name, share(c.Tolerance), plural(s.last(), "pair"), share(least)),
			}})
		}
	}
}

// ruleIgnored warns of a calibration that the policy names and that could not be used.
func (e *evidence) ruleIgnored(d *docket) {
	if e.prior.ignored != "" {
		d.rule(warns, CalibrationIgnored, "the calibration was ignored: "+sentence(e.prior.ignored)+"; run `tailgate calibrate` again")
	}
}

// supported is the smallest tolerance, a fraction rounded up to half a percent, that pairs of deviation s hold in at most
// last pairs at level a.
func (m Metric) supported(s float64, last int, a float64) float64 {
	x := m.change(stat.Supported(s, last, a))
	const step = 0.005
	return math.Ceil(max(x, -x)/step-1e-9) * step
}
