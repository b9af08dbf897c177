package gate

import (
	"math"
	"strconv"
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Metric is what the judge knows of one number of a round: how it is called, measured and read.
type Metric struct {
	// Key names it in policies and records, e.g. "ttft_p99"; Name in sentences, e.g. "TTFT p99".
	Key, Name string
	// Unit is "ms", "tok/s", "req/s" or "fraction".
	Unit string
	// HigherIsBetter is true for throughput and goodput. Direction is a property of the metric, never of a caller.
	HigherIsBetter bool
	// Percentile is 50, 90, 95 or 99; 0 for a metric that is no percentile.
	Percentile int
	// Stream is true when only a streamed answer has it, Tokens when it needs token counts.
	Stream, Tokens bool
	// PerGap is true when the samples are gaps inside answers, which are not independent of each other.
	PerGap bool
}

// ErrorRate is the key of the share of requests whose one attempt failed. It has no tolerance, only rules of its own and
// possibly a limit.
const ErrorRate = "error_rate"

const goodput = "goodput"

// Metrics lists every metric that can be judged, in the order reports list them.
func Metrics() []Metric {
	latencies := []Metric{
		{Key: "ttft", Name: "TTFT", Stream: true},
		{Key: "ttfo", Name: "TTFO", Stream: true},
		{Key: "e2e", Name: "E2E"},
		{Key: "tpot", Name: "TPOT", Stream: true, Tokens: true},
		{Key: "itl", Name: "ITL", Stream: true, Tokens: true, PerGap: true},
		{Key: "icl", Name: "ICL", Stream: true, PerGap: true},
		{Key: "stall", Name: "Longest stall", Stream: true},
	}
	var list []Metric
	for _, m := range latencies {
		stem, name := m.Key, m.Name
		m.Unit = "ms"
		for _, p := range []int{50, 90, 95, 99} {
			m.Percentile = p
			m.Key, m.Name = stem+"_p"+strconv.Itoa(p), name+" p"+strconv.Itoa(p)
			list = append(list, m)
		}
	}
	return append(list,
		Metric{Key: "output_tps", Name: "Output throughput", Unit: "tok/s", HigherIsBetter: true, Tokens: true},
		Metric{Key: "input_tps", Name: "Input throughput", Unit: "tok/s", HigherIsBetter: true, Tokens: true},
		Metric{Key: "request_tps", Name: "Request throughput", Unit: "req/s", HigherIsBetter: true},
		Metric{Key: goodput, Name: "Goodput", Unit: "fraction", HigherIsBetter: true},
		Metric{Key: ErrorRate, Name: "Error rate", Unit: "fraction"},
	)
}

// MetricOf finds a metric by its key.
func MetricOf(key string) (Metric, bool) {
	for _, m := range Metrics() {
		if m.Key == key {
			return m, true
		}
	}
	return Metric{}, false
}

// Needs is how many requests a round must have before the metric is gated by default: the tail beyond the percentile must
// hold 50 of them. 0 for a metric that is no percentile.
func (m Metric) Needs() int {
	switch m.Percentile {
	case 50:
		return 100
	case 90:
		return 500
	case 95:
		return 1000
	case 99:
		return 5000
	default:
		return 0
	}
}

// Smallest is how many requests a round must have for the percentile to be a number at all, 6.64/(1-q) of them.
func (m Metric) Smallest() int {
	switch m.Percentile {
	case 50:
		return 11
	case 90:
		return 64
	case 95:
		return 130
	case 99:
		return 662
	default:
		return 0
	}
}

// beyond is the share of requests that may lie over a limit on the percentile, a fraction.
func (m Metric) beyond() float64 { return float64(100-m.Percentile) / 100 }

// stem is the key without its percentile.
func (m Metric) stem() string {
	stem, _, _ := strings.Cut(m.Key, "_p")
	return stem
}

// defaultRelative is the tolerance of a metric that names none: tails are noisier than medians.
func (m Metric) defaultRelative() float64 {
	switch m.Percentile {
	case 99:
		return 0.15
	case 90, 95:
		return 0.075
	default:
		return 0.05
	}
}

// badness is the metric of a round as a logarithm that is larger when worse, so that one rule serves latency and
// throughput. It is +Inf for a percentile among failed requests and for no throughput at all; false, with the reason, when
// there is no number.
func (m Metric) badness(r *record.Round) (y float64, reason string, ok bool) {
	v := r.Metrics[m.Key]
	x, present := v.Get()
	switch {
	case !present:
		return 0, v.Reason(), false
	case m.HigherIsBetter && x == 0, !m.HigherIsBetter && math.IsInf(x, 1):
		return math.Inf(1), "", true
	case x <= 0 || math.IsInf(x, 0) || math.IsNaN(x):
		return 0, "not a positive number", false
	case m.HigherIsBetter:
		return -math.Log(x), "", true
	default:
		return math.Log(x), "", true
	}
}

// natural turns a badness back into the metric's unit; [record.Failed] for one that is infinitely bad.
func (m Metric) natural(y float64) record.Value {
	if m.HigherIsBetter {
		return record.Of(math.Exp(-y))
	}
	if math.IsInf(y, 1) {
		return record.Failed()
	}
	return record.Of(math.Exp(y))
}

// change turns a log ratio that is positive when worse into the metric's own relative change: -0.06 is 6 % less.
func (m Metric) change(y float64) float64 {
	if m.HigherIsBetter {
		return math.Expm1(-y)
	}
	return math.Expm1(y)
}
