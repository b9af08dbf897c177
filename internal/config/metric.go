package config

import (
	"slices"
	"strings"
)

// Units of metrics, as the judge knows them.
const (
	unitMS       = "ms"
	unitTokens   = "tok/s"
	unitRequests = "req/s"
	unitFraction = "fraction"
)

// latencies are the stems of latency metrics; each exists at the percentiles of [percentiles].
var (
	latencies   = []string{"ttft", "ttfo", "e2e", "tpot", "itl", "icl", "stall"}
	percentiles = []string{"p50", "p90", "p95", "p99"}
)

// throughputs are the metrics of which more is better.
var throughputs = map[string]string{
	"output_tps": unitTokens, "input_tps": unitTokens, "request_tps": unitRequests, "goodput": unitFraction,
}

// errorRate is judged by rules of its own: it may have an SLO, never a tolerance.
const errorRate = "error_rate"

// toleranceKeys lists the metrics that may have a tolerance, sorted.
func toleranceKeys() []string {
	var keys []string
	for _, stem := range latencies {
		for _, p := range percentiles {
			keys = append(keys, stem+"_"+p)
		}
	}
	for key := range throughputs {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// sloKeys lists the metrics that may have an absolute limit, sorted.
func sloKeys() []string {
	keys := append(toleranceKeys(), errorRate)
	slices.Sort(keys)
	return keys
}

// unitOf is the unit of a known metric.
func unitOf(key string) string {
	if unit, ok := throughputs[key]; ok {
		return unit
	}
	if key == errorRate {
		return unitFraction
	}
	return unitMS
}

// defaultRelative is the tolerance of a metric that names none: tails are noisier than medians.
func defaultRelative(key string) Percent {
	switch {
	case strings.HasSuffix(key, "_p99"):
		return 0.15
	case strings.HasSuffix(key, "_p95"), strings.HasSuffix(key, "_p90"):
		return 0.075
	default:
		return 0.05
	}
}

// SLO holds absolute limits on head by metric key, in the metric's unit: ms for latencies, tok/s or req/s for throughput,
// a fraction for error_rate and goodput.
type SLO map[string]float64

// Tolerances holds the gated metrics by key.
type Tolerances map[string]Tolerance

// Tolerance is how much worse head may be than base in one metric.
type Tolerance struct {
	// Relative is a fraction in (0, 1).
	Relative Percent
	// Absolute is in the metric's unit; a change must exceed both to matter. 0 means none.
	Absolute float64
	// Force gates the metric although a round has too few requests for it.
	Force bool
	// Named is true when the file names the metric, false when it comes from the default list. A default metric that a
	// workload is too small for is shown; a named one is a mistake to be told.
	Named bool
}

// DefaultTolerances is the list of gated metrics of a file without a tolerance section.
func DefaultTolerances() Tolerances {
	list := Tolerances{}
	for _, key := range []string{"ttft_p50", "ttft_p95", "ttft_p99", "itl_p50", "itl_p95", "e2e_p95", "output_tps"} {
		list[key] = Tolerance{Relative: defaultRelative(key)}
	}
	return list
}
