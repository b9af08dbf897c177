package gate

import (
	"fmt"
	"math"

	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// driftKeys are the metrics by which the machine's drift is judged: medians only, since tails are too noisy for it.
func (e *evidence) driftKeys() []string {
	if e.streams {
		return []string{"ttft_p50", "itl_p50"}
	}
	return []string{"e2e_p50"}
}

// drift fits how far the machine moved under both arms, by the metric that moved most. The returned log ratio is 0 when
// it cannot be told.
func (e *evidence) drift(pairs []pair) (DriftReport, float64) {
	report := DriftReport{
		Limit: e.policy.MaxBaseDrift, Change: record.NA("too few rounds with a number"), SlotEffect: record.NA("too few pairs"), BaseRange: record.NA("not measured"),
	}
	worst := 0.0
	for _, key := range e.driftKeys() {
		m, _ := MetricOf(key)
		d, ok := fitDrift(m, pairs)
		if !ok || report.Key != "" && math.Abs(d) <= math.Abs(worst) {
			continue
		}
		worst = d
		report.Key, report.Change = key, record.Of(math.Expm1(d))
		report.BaseRange = rangeOf(m, rounds(pairs, record.Base))
		report.SlotEffect = record.NA("too few pairs")
		if w, _, ok := slotEffect(m, pairs); ok {
			report.SlotEffect = record.Of(w)
		}
	}
	return report, worst
}

// fitDrift fits a metric over the rounds in which it is a number.
func fitDrift(m Metric, pairs []pair) (float64, bool) {
	list, slots, head := layout(pairs)
	var s []int
	var h []bool
	var ys []float64
	for i, r := range list {
		if y, _, ok := m.badness(r); ok && !math.IsInf(y, 0) {
			s, h, ys = append(s, slots[i]), append(h, head[i]), append(ys, y)
		}
	}
	return stat.Drift(s, h, ys)
}

// rangeOf is the largest of some rounds over the smallest, less one.
func rangeOf(m Metric, list []*record.Round) record.Value {
	s := m.series(list)
	if !s.finite() || len(s.ys) == 0 {
		return record.NA("not a number in every base round")
	}
	lo, hi := s.ys[0], s.ys[0]
	for _, y := range s.ys {
		lo, hi = min(lo, y), max(hi, y)
	}
	return record.Of(math.Expm1(hi - lo))
}

// slotEffect is how much worse the second round of a pair is, and its standard error: that of the pairs' mean difference
// once the effect itself is taken out, which would else hide behind the spread it makes.
func slotEffect(m Metric, pairs []pair) (w, se float64, ok bool) {
	base, head := m.series(rounds(pairs, record.Base)), m.series(rounds(pairs, record.Head))
	if !base.finite() || !head.finite() {
		return 0, 0, false
	}
	d := stat.Pairs(base.ys, head.ys)
	first := make([]bool, len(pairs))
	for i, p := range pairs {
		first[i] = p.base.Slot < p.head.Slot
	}
	w, ok = stat.SlotEffect(d, first)
	for i := range d {
		if first[i] {
			d[i] -= w
		} else {
			d[i] += w
		}
	}
	return w, stat.EstimateOf(d).SE(), ok
}

// ruleDrift makes a session invalid whose machine moved too far, and warns halfway there.
func (h *hearing) ruleDrift() {
	d := h.drift
	x, ok := d.Change.Get()
	if !ok || math.Abs(x) <= d.Limit/2 {
		return
	}
	m, _ := MetricOf(d.Key)
	f := Finding{ID: BaseDrift, Metric: d.Key, Text: fmt.Sprintf("the machine drifted %s during the session (%s of both arms; the limit is %s)", change(x, d.Limit, -d.Limit), m.Name, share(d.Limit))}
	if math.Abs(x) > d.Limit {
		f.Text += ": the arms were not measured on the same ground"
		h.add(ruling{class: untrusted, Finding: f})
		return
	}
	h.add(ruling{class: warns, Finding: f})
}

// ruleSlotEffect warns when the second round of a pair is slower by more than the noise explains.
func (h *hearing) ruleSlotEffect() {
	worst, key := 0.0, ""
	for _, c := range h.metrics {
		w, se, ok := slotEffect(c.metric, h.pairs)
		if ok && math.Abs(w) > c.T/2 && math.Abs(w) > 2*se && math.Abs(w) > math.Abs(worst) {
			worst, key = w, c.Key
		}
	}
	if key == "" {
		return
	}
	m, _ := MetricOf(key)
	order, advice := "slower", "lengthen the cool-down"
	if worst < 0 {
		order, advice = "faster", "warm the machine up for longer before the first round"
	}
	h.add(ruling{class: warns, Finding: Finding{
		ID: SlotPenalty, Metric: key,
		Text: fmt.Sprintf("the second round of a pair is %s (%s %s): %s", order, m.Name, change(m.change(worst)), advice),
	}})
}
