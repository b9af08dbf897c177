package report

import (
	"math"
	"slices"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// judged reports whether the arms were compared. Numbers of a session that cannot be trusted are not set side by side as
// if they had been.
func (s *scribe) judged() bool { return s.j.Verdict != gate.Invalid && s.j.Verdict != "" }

// decision is the table of what was gated, and nothing else. Empty when nothing was judged.
func (s *scribe) decision() []block {
	if !s.judged() {
		return nil
	}
	g := &grid{
		head:  []string{"metric", "base", "head", "change [low, high]", "tolerance", "pairs worse", "SLO", "verdict"},
		align: "lrrrrcll",
		spare: []int{4, 5, 6},
	}
	type row struct {
		rank  int
		cells []words
	}
	var rows []row
	for _, c := range sortedMetrics(s.j.Metrics) {
		rows = append(rows, row{rank(c.Verdict), s.metricRow(c)})
	}
	for _, r := range s.sloOnly() {
		rows = append(rows, row{sloRank(r), sloRow(r)})
	}
	if s.j.Errors.Verdict != "" {
		rows = append(rows, row{rank(s.j.Errors.Verdict), s.errorRow()})
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.rank - b.rank })
	for _, r := range rows {
		g.add(r.cells...)
	}
	return []block{table(g)}
}

func (s *scribe) metricRow(c gate.Comparison) []words {
	shown := shownChange(c)
	base, head := s.medians(c)
	text := shown.change
	if shown.low != "" {
		text += " [" + shown.low + ", " + shown.high + "]"
	}
	slo := "-"
	if r := c.SLO; r != nil {
		slo = sloCell(*r)
	} else if r := s.sloOf(c.Key); r != nil {
		slo = sloCell(*r)
	}
	return []words{
		cell("%s", label(c.Key)), cell("%s", base), cell("%s", head), cell("%s", text), cell("%s", shown.tolerance),
		cell("%d/%d", c.Worse, c.N), cell("%s", slo), verdictCell(c),
	}
}

// medians prints both arms in one unit, that of the larger value.
func (s *scribe) medians(c gate.Comparison) (base, head string) {
	b, hasB := c.BaseMedian.Finite()
	h, hasH := c.HeadMedian.Finite()
	if hasB && hasH {
		in := scaleFor(max(math.Abs(b), math.Abs(h)), c.Unit)
		return amountIn(b, in), amountIn(h, in)
	}
	return value(c.BaseMedian, c.Unit, s.failedShare(record.Base)), value(c.HeadMedian, c.Unit, s.failedShare(record.Head))
}

func verdictCell(c gate.Comparison) words {
	switch c.Verdict {
	case gate.Fail:
		return words{bold("FAIL")}
	case gate.Inconclusive:
		return words{bold("inconclusive")}
	case gate.Pass:
		switch c.Note {
		case "improved":
			return cell("pass, faster")
		case "":
			return cell("pass")
		default:
			return cell("pass, slower within tolerance")
		}
	case gate.Invalid:
		return cell("%s", missing(causeText(c)))
	default:
		return cell("%s", missing(causeText(c)))
	}
}

// sloRank and sloRow show a limit on a metric that has no tolerance.
func sloRank(r gate.SLOResult) int {
	if r.State == gate.SLOViolated && !r.Preexisting {
		return 0
	}
	return 2
}

func sloRow(r gate.SLOResult) []words {
	_, shown := limitAndValue(r)
	if shown == "" {
		shown = missing(r.Value.Reason())
	}
	verdict := cell("see SLO")
	switch {
	case sloRank(r) == 0:
		verdict = words{bold("FAIL")}
	case r.State == gate.SLOMet:
		verdict = cell("pass")
	}
	return []words{cell("%s", label(r.Key)), cell("-"), cell("%s", shown), cell("-"), cell("-"), cell("-"), cell("%s", sloCell(r)), verdict}
}

// errorRow shows counts and percentage points, never a ratio: zero failures have no ratio.
func (s *scribe) errorRow() []words {
	e := s.j.Errors
	slo := "-"
	if r := s.sloOf(errorRate); r != nil {
		slo = sloCell(*r)
	}
	points := "n/a (nothing attempted)"
	if e.BaseN > 0 && e.HeadN > 0 {
		points = signed((float64(e.Head)/float64(e.HeadN)-float64(e.Base)/float64(e.BaseN))*100, 2) + " points"
	}
	return []words{
		cell("Error rate"), cell("%s", ofAll(e.Base, e.BaseN)), cell("%s", ofAll(e.Head, e.HeadN)), cell("%s", points),
		cell("0.05 points"), cell("-"), cell("%s", slo), verdictCell(gate.Comparison{Verdict: e.Verdict}),
	}
}

func ofAll(k, n int) string {
	if n == 0 {
		return "n/a (nothing attempted)"
	}
	return count(k) + " of " + count(n)
}
