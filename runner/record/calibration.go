package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"
)

// CalibrationSchema is the version of calibration.json this package reads and writes. Keys may only be added with a greater
// one: readers refuse what they do not know.
const CalibrationSchema = 1

// CalibrationFile is the name of a calibration in a run folder: in one of kind calibrate what the run found, in any other
// the calibration it was judged with.
const CalibrationFile = "calibration.json"

// Calibration is what a session of base against itself says of a machine and a workload: how much rounds of one build differ.
// It is calibration.json. The zero value is none.
type Calibration struct {
	Schema int `json:"schema"`
	// Run is the id of the session, Date when it began, Tailgate what made it.
	Run      string    `json:"run"`
	Date     time.Time `json:"date"`
	Tailgate Tool      `json:"tailgate"`
	// Commit is the revision that was measured against itself, 40 hex.
	Commit   string             `json:"commit"`
	Workload CalibratedWorkload `json:"workload"`
	Host     CalibratedHost     `json:"host"`
	// GPUs are those of the session in order of their UUIDs; empty when none was observed.
	GPUs []CalibratedGPU `json:"gpus"`
	// Measure is the length of a measured interval, ns: longer rounds differ less.
	Measure time.Duration `json:"measure_ns"`
	// Pairs counts the valid pairs behind the figures, Planned those that were meant to be.
	Pairs   int `json:"pairs"`
	Planned int `json:"planned"`
	// Level and MaxPairs are what a comparison under the policy would be judged at: supported tolerances hold for them.
	Level    float64 `json:"level"`
	MaxPairs int     `json:"max_pairs"`
	// Verdict and Reason are those of the session judged as if its arms were two builds.
	Verdict string           `json:"verdict"`
	Reason  string           `json:"reason"`
	Drift   CalibrationDrift `json:"drift"`
	// Metrics are by key, such as ttft_p99.
	Metrics map[string]CalibratedMetric `json:"metrics"`

	// SHA256 is of the bytes that were read, 64 hex; empty for a calibration that was not.
	SHA256 string `json:"-"`
}

// CalibratedWorkload names the workload of a calibration.
type CalibratedWorkload struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	// Digest is "sha256:" and 64 hex.
	Digest string `json:"digest"`
}

// CalibratedHost names the machine of a calibration.
type CalibratedHost struct {
	Name   string `json:"name"`
	CPU    string `json:"cpu"`
	Kernel string `json:"kernel"`
	Cores  int    `json:"cores"`
}

// CalibratedGPU names a device of a calibration.
type CalibratedGPU struct {
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Driver string `json:"driver"`
}

// CalibrationDrift is how the machine moved during a calibration.
type CalibrationDrift struct {
	// Metric is the key of the metric with the largest drift, empty when none could be fitted; Change its fitted change over
	// the session, a fraction, positive when worse.
	Metric string `json:"metric"`
	Change Value  `json:"change"`
	// SlotEffect is how much worse the second round of a pair is in that metric, a log ratio. Range is the largest of its
	// rounds over the smallest, less one.
	SlotEffect Value `json:"slot_effect"`
	Range      Value `json:"range"`
}

// CalibratedMetric is the noise of one metric.
type CalibratedMetric struct {
	// Median is over all rounds that count, in Unit.
	Median Value  `json:"median"`
	Unit   string `json:"unit"`
	// SD is the standard deviation of pair differences, a log ratio, never under 0.003; RoundSD that of a round, SD/√2. DF
	// is their degrees of freedom.
	SD      Value `json:"s_d"`
	RoundSD Value `json:"round_sd"`
	DF      int   `json:"df"`
	// Lag1 is the correlation of each pair difference with the next, -1 to 1.
	Lag1 Value `json:"lag1"`
	// Supported is the smallest tolerance, a fraction, within which an unchanged build passes 99 times in a hundred, rounded
	// up to half a percent.
	Supported Value `json:"supported_tolerance"`
	// Tolerance is what the policy of the time gave the metric, a fraction; n/a when it was not gated.
	Tolerance Value `json:"tolerance"`
}

// CalibrationError is one mistake in a calibration, with its place.
type CalibrationError struct {
	// File is the name given to the reader; Line is 1-based. Field is the path of the value, such as metrics.ttft_p50.s_d;
	// empty for the file as a whole.
	File  string
	Line  int
	Field string
	Text  string
}

// Error prints "file:line: field: text".
func (e *CalibrationError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Field, e.Text)
}

// maxCalibration bounds a calibration, bytes: it may come from somebody else's commit.
const maxCalibration = 1 << 20

// ReadCalibration reads a calibration strictly: an unknown, missing or doubled key, a value of another kind and a number out of
// its range are errors. Every error is a [*CalibrationError] naming file, line and field; name stands for the file.
func ReadCalibration(name string, data []byte) (*Calibration, error) {
	if len(data) > maxCalibration {
		return nil, &CalibrationError{File: name, Line: 1, Text: fmt.Sprintf("larger than %d MiB", maxCalibration>>20)}
	}
	// The schema comes first: a newer file may give any other field another form.
	var head struct {
		Schema *json.Number `json:"schema"`
	}
	if json.Unmarshal(data, &head) == nil && head.Schema != nil {
		if n, err := head.Schema.Int64(); err == nil && n > CalibrationSchema {
			text := fmt.Sprintf("%d is newer than the %d this tailgate reads; use the version that wrote it", n, CalibrationSchema)
			return nil, &CalibrationError{File: name, Line: 1, Field: "schema", Text: text}
		}
	}
	s := newStrict(name, data)
	c := &Calibration{}
	if err := s.decode(c); err != nil {
		return nil, err
	}
	for _, r := range c.rules() {
		if r.bad {
			return nil, &CalibrationError{File: name, Line: s.lineOf(r.field), Field: r.field, Text: r.text}
		}
	}
	sum := sha256.Sum256(data)
	c.SHA256 = hex.EncodeToString(sum[:])
	return c, nil
}

// WriteCalibration writes a calibration so that a reader finds the old file or the new one, whole.
func WriteCalibration(path string, c *Calibration) error {
	data, err := encode(c)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return replace(openFile, path, data)
}

// calibrationRule is one demand on the values of a calibration.
type calibrationRule struct {
	field string
	bad   bool
	text  string
}

var (
	runName       = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	digest        = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	calibratedKey = regexp.MustCompile(`^[a-z0-9_]{1,40}$`)
)

// The smallest and largest numbers of pairs of a calibration.
const (
	fewestCalibrated = 4
	mostCalibrated   = 12
)

func (c *Calibration) rules() []calibrationRule {
	rules := []calibrationRule{
		{"schema", c.Schema != CalibrationSchema, fmt.Sprintf("%d: not a calibration", c.Schema)},
		{"run", !runName.MatchString(c.Run), "letters, digits and dashes, 1 to 64 of them"},
		{"date", c.Date.Year() < 2000 || c.Date.Year() > 9999, "no date of a calibration"},
		{"workload.digest", !digest.MatchString(c.Workload.Digest), "want sha256: and 64 hex digits"},
		{"measure_ns", c.Measure <= 0, "want more than 0"},
		{"pairs", c.Pairs < fewestCalibrated || c.Pairs > mostCalibrated, fmt.Sprintf("%d is out of range: %d to %d", c.Pairs, fewestCalibrated, mostCalibrated)},
		{"planned", c.Planned < c.Pairs || c.Planned > mostCalibrated, fmt.Sprintf("%d is out of range: pairs to %d", c.Planned, mostCalibrated)},
		{"level", !(c.Level > 0 && c.Level < 0.5), "want more than 0 and less than 0.5"},
		{"max_pairs", c.MaxPairs < 3 || c.MaxPairs > mostCalibrated, fmt.Sprintf("%d is out of range: 3 to %d", c.MaxPairs, mostCalibrated)},
		{"verdict", !slices.Contains([]string{"pass", "fail", "inconclusive", "invalid"}, c.Verdict), "want pass, fail, inconclusive or invalid"},
		{"metrics", len(c.Metrics) == 0, "no metric was calibrated"},
	}
	for i, g := range c.GPUs {
		rules = append(rules, calibrationRule{fmt.Sprintf("gpus[%d].uuid", i), g.UUID == "", "missing"})
	}
	for _, key := range slices.Sorted(maps.Keys(c.Metrics)) {
		m, at := c.Metrics[key], "metrics."+key
		rules = append(
			rules,
			calibrationRule{at, !calibratedKey.MatchString(key), "no key of a metric"},
			calibrationRule{at + ".df", m.DF < 0 || m.DF > c.Pairs-1, fmt.Sprintf("%d is out of range: 0 to one less than pairs", m.DF)},
			within(at+".s_d", m.SD, 0, 10), within(at+".round_sd", m.RoundSD, 0, 10), within(at+".lag1", m.Lag1, -1.000001, 1.000001),
			within(at+".supported_tolerance", m.Supported, 0, 1e9), within(at+".tolerance", m.Tolerance, 0, 1e9),
		)
	}
	return rules
}

// within is broken by a number outside (low, high); a missing one is as good as any.
func within(field string, v Value, low, high float64) calibrationRule {
	x, ok := v.Get()
	return calibrationRule{field, ok && !(x > low && x < high), fmt.Sprintf("%v is out of range", x)}
}
