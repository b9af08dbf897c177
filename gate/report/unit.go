package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// scale is a unit for people and the factor from the unit in memory.
type scale struct {
	unit   string
	factor float64
}

// scaleFor picks the unit in which x, held in unit, reads best: time by size, everything else as it is.
func scaleFor(x float64, unit string) scale {
	x = math.Abs(x)
	switch {
	case unit == "fraction":
		return scale{"%", 100}
	case unit == "tok/s", unit == "req/s":
		return scale{unit, 1}
	case unit != "ms":
		return scale{inert(unit, 12), 1}
	case x != 0 && x < 1:
		return scale{"µs", 1000}
	case x < 1000:
		return scale{"ms", 1}
	default:
		return scale{"s", 0.001}
	}
}

// amount prints x, held in unit, with three significant digits.
func amount(x float64, unit string) string { return amountIn(x, scaleFor(x, unit)) }

func amountIn(x float64, in scale) string {
	x *= in.factor
	if in.unit == "s" && math.Abs(x) >= 120 {
		return clock(x)
	}
	return fixed(x, decimals3(x)) + " " + in.unit
}

// clock prints seconds as m:ss.
func clock(seconds float64) string {
	whole := int(math.Round(seconds))
	return fmt.Sprintf("%d:%02d", whole/60, whole%60)
}

// againstLimit prints a limit, as it was written, and a value on the right side of it. Both are held in unit.
func againstLimit(limit float64, unit string, x float64) (limitText, valueText string) {
	in := scaleFor(max(math.Abs(limit), math.Abs(x)), unit)
	l, v := limit*in.factor, x*in.factor
	limitD, valueD := beside(l, trimmed(l, maxDigits), decimals3(v), v)
	return fixed(l, limitD) + " " + in.unit, fixed(v, valueD[0]) + " " + in.unit
}

// value prints a number or why there is none. FailedShare explains an infinite one; empty when it is not known.
func value(v record.Value, unit, failedShare string) string {
	floor, bounded := v.AtLeast()
	switch x, ok := v.Get(); {
	case !ok:
		return missing(v.Reason())
	case bounded:
		limit, _ := againstLimit(floor, unit, floor)
		return ">= " + limit
	case v.IsFailed() && failedShare != "":
		return "failed (" + failedShare + " of requests)"
	case v.IsFailed():
		return "failed"
	default:
		return amount(x, unit)
	}
}

// missing is how every absent number reads.
func missing(reason string) string { return "n/a (" + inert(reason, nameCap) + ")" }

// mebi prints bytes in KiB, MiB or GiB.
func mebi(bytes float64) string {
	for _, unit := range []string{"KiB", "MiB"} {
		bytes /= 1024
		if bytes < 1024 {
			return fixed(bytes, decimals3(bytes)) + " " + unit
		}
	}
	return fixed(bytes/1024, decimals3(bytes/1024)) + " GiB"
}

// seconds prints a span between two instants, n/a when one was not reached.
func seconds(from, to record.Instant) string {
	if !from.Reached() || !to.Reached() || to < from {
		return missing("not reached")
	}
	return amount(float64(to-from)/1e6, "ms")
}

// metricNames are the names people use for the stems of metric keys.
var metricNames = map[string]string{ //nolint:gosec // tokens of text, no credentials
	"ttft": "TTFT", "ttfo": "TTFO", "e2e": "E2E", "tpot": "TPOT", "itl": "ITL", "icl": "ICL", "stall": "Longest stall",
	"e2e_last": "E2E to the last token", "tail": "End of answer after the last token", "offered_rps": "Requests planned",
	"sent_rps": "Requests sent", "achieved_rps": "Requests finished", "in_flight_mean": "In flight, mean", "in_flight_max": "In flight, most",
	"events_per_read": "Events per read", "tokens_per_event": "Tokens per event",
	"output_tps": "Output throughput", "output_tps_all": "Output throughput, failures included", "input_tps": "Input throughput",
	"request_tps": "Request throughput", "goodput": "Goodput", "error_rate": "Error rate",
}

// label is the name of a metric: ttft_p99 is "TTFT p99". A key we do not know is cleaned and shown as it is.
func label(key string) string {
	if name, ok := metricNames[key]; ok {
		return name
	}
	stem, rest, _ := strings.Cut(key, "_p")
	name, ok := metricNames[stem]
	percentile, suffix, _ := strings.Cut("p"+rest, "_")
	if !ok || rest == "" {
		return inert(key, 40)
	}
	if percentile == "p999" {
		percentile = "p99.9"
	}
	switch suffix {
	case "":
		return name + " " + percentile
	case "send":
		return name + " " + percentile + " from send"
	case "ok":
		return name + " " + percentile + " of successes"
	default:
		return inert(key, 40)
	}
}

// moreIsBetter reports whether a limit on the metric is a lower one.
func moreIsBetter(key string) bool {
	return strings.HasSuffix(key, "_tps") || strings.HasSuffix(key, "_tps_all") || key == "goodput"
}
