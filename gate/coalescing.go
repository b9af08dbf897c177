package gate

import (
	"fmt"
	"math"
	"strings"

	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// cutLimit is how far the arms may differ in the way their answers are cut into events and reads, a fraction. Beyond it a
// gap between tokens means something else on either arm.
const cutLimit = 0.05

// differentCut says how the arms differ in events a read or tokens an event, by the median of their valid rounds; empty
// when they do not, or when it cannot be told.
func (e *evidence) differentCut() string {
	for _, kind := range []struct{ key, name string }{{"tokens_per_event", "tokens an event"}, {"events_per_read", "events a read"}} {
		base, okBase := e.medianOf(kind.key, record.Base)
		head, okHead := e.medianOf(kind.key, record.Head)
		if okBase && okHead && math.Abs(head-base) > cutLimit*base {
			return fmt.Sprintf("answers are cut differently: %.3g %s on base, %.3g on head; TPOT stands in, and the longest stall is shown", base, kind.name, head)
		}
	}
	return ""
}

// medianOf is the middle of an arm's valid rounds, false when any of them lacks the number.
func (e *evidence) medianOf(key string, arm record.Arm) (float64, bool) {
	var xs []float64
	for _, r := range rounds(e.valid, arm) {
		x, ok := r.Metrics[key].Finite()
		if !ok {
			return 0, false
		}
		xs = append(xs, x)
	}
	if len(xs) == 0 {
		return 0, false
	}
	return stat.Median(xs), true
}

// standIn puts TPOT in the place of an inter-token latency that different cuts take off the table, at the same percentile
// and tolerance: a time per token needs no instant of a single one.
func (e *evidence) standIn(gated map[string]Tolerance, m Metric, reason string) {
	if m.stem() != "itl" || reason != e.differentCut() {
		return
	}
	tpot, _ := MetricOf(strings.Replace(m.Key, "itl", "tpot", 1))
	if _, there := gated[tpot.Key]; !there && e.lacking(tpot) == "" {
		gated[tpot.Key] = gated[m.Key]
	}
}
