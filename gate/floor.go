package gate

import (
	"fmt"
	"math"

	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// floorShare is how much of a metric's change the load generator's own error may differ by between the arms.
const floorShare = 0.2

// floorOf picks the part of the load generator's own error that a metric is exposed to: its time to the first token, or
// its gaps; the middle or the tail. Rates are not exposed.
func (m Metric) floorOf(f record.Floor) record.Value {
	middle := m.Percentile == 50
	switch m.stem() {
	case "ttft", "ttfo", "e2e":
		if middle {
			return f.TTFTP50
		}
		return f.TTFTP99
	case "itl", "icl", "tpot":
		if middle {
			return f.GapP50
		}
		return f.GapP99
	default:
		return record.NA("not exposed")
	}
}

// floor is the load generator's own error on one arm: the median over the judged rounds, ms; false when a round lacks it.
func (m Metric) floor(list []*record.Round) (float64, bool) {
	var xs []float64
	for _, r := range list {
		x, ok := m.floorOf(r.Client.Floor).Finite()
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

// doubtClient takes back a failure that the load generator itself could explain: its own error, measured just before each
// round, differs between the arms by more than a fifth of the change. A metric that passes is left alone: at no change any
// difference would be more than its share.
func (c *compared) doubtClient(pairs []pair) {
	if c.Verdict != Fail {
		return
	}
	base, okBase := c.metric.floor(rounds(pairs, record.Base))
	head, okHead := c.metric.floor(rounds(pairs, record.Head))
	from, okFrom := c.BaseMedian.Finite()
	to, okTo := c.HeadMedian.Finite()
	if !okBase || !okHead || !okFrom || !okTo || math.Abs(head-base) <= floorShare*math.Abs(to-from) {
		return
	}
	c.undecide(ClientExplains)
	c.open = true
	c.client = fmt.Sprintf("the client could explain this: its own error was %s on base and %s on head (self-test), which differ by more than %s of the change",
		amount(record.Of(base), "ms"), amount(record.Of(head), "ms"), share(floorShare))
}
