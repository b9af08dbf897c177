package gate

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// limit is an absolute limit on one metric of one arm.
type limit struct {
	metric Metric
	at     float64
	// counted is true when rounds counted what lies beyond this very limit.
	counted bool
	level   float64
}

// standing is where an arm stands with a limit.
type standing struct {
	state  SLOState
	value  record.Value
	beyond int
	n      int
	lo, up record.Value
	needs  int
}

// stand judges one arm by two kinds of evidence: how the rounds' values lie against the limit, and how many requests lie
// beyond it. It is false when neither is there.
func (l limit) stand(list []*record.Round) (standing, bool) {
	s := standing{value: record.NA(record.NotMeasured), lo: record.NA("not counted"), up: record.NA("not counted")}
	span, spanned := l.span(list)
	s.value = span.value
	counted := l.tally(list, &s)
	if !counted && !spanned {
		return l.point(s)
	}
	lo, _ := s.lo.Get()
	up, _ := s.up.Get()
	allowed := l.allowed()
	inside, outside := true, false
	if spanned && !l.rate() {
		inside, outside = span.upper <= 0, span.lower > 0
		if l.metric.Percentile > 0 {
			inside, outside = inside && span.center <= 0, outside && span.center > 0
		}
	}
	if counted {
		inside = inside && up <= allowed
		outside = outside || lo > allowed && (l.rate() || !spanned || span.center > 0)
		if need := stat.RequestsNeeded(allowed, l.level); need > s.n {
			s.needs = need
		}
	}
	switch {
	case outside:
		s.state = SLOViolated
	case inside:
		s.state = SLOMet
	case s.needs > 0:
		s.state = SLONotProvable
	default:
		s.state = SLOAtRisk
	}
	if s.state != SLONotProvable {
		s.needs = 0
	}
	return s, true
}

// point judges a single round's value that has no counts behind it: nothing bounds it, so it can break a limit but not be
// shown to keep it.
func (l limit) point(s standing) (standing, bool) {
	x, ok := s.value.Get()
	if !ok || l.rate() {
		return s, false
	}
	s.state = SLOAtRisk
	if l.metric.HigherIsBetter && x < l.at || !l.metric.HigherIsBetter && x > l.at {
		s.state = SLOViolated
	}
	return s, true
}

// rate reports whether the metric is a share of requests: only counts judge it.
func (l limit) rate() bool { return l.metric.Key == ErrorRate || l.metric.Key == goodput }

// allowed is the share of requests that may lie beyond the limit.
func (l limit) allowed() float64 {
	switch l.metric.Key {
	case ErrorRate:
		return l.at
	case goodput:
		return 1 - l.at
	default:
		return l.metric.beyond()
	}
}

// span is how the rounds' values lie against a limit, as log ratios that are positive beyond it.
type span struct {
	center, lower, upper float64
	value                record.Value
}

// span is true with two rounds or more that all have a value. The centre is the median round.
func (l limit) span(list []*record.Round) (span, bool) {
	s := l.metric.series(list)
	out := span{value: s.median(l.metric), lower: math.Inf(-1), upper: math.Inf(1)}
	if l.rate() {
		return out, false
	}
	if len(list) < 2 || s.missing > 0 {
		return out, false
	}
	at := math.Log(l.at)
	if l.metric.HigherIsBetter {
		at = -at
	}
	out.center = stat.Median(s.ys) - at
	if s.infinite == len(s.ys) {
		out.lower = math.Inf(1)
	}
	if s.finite() {
		v := make([]float64, len(s.ys))
		for i, y := range s.ys {
			v[i] = y - at
		}
		b := stat.EstimateOf(v).Bounds(l.level)
		out.lower, out.upper = b.L, b.U
	}
	return out, true
}

// tally counts requests beyond the limit and bounds their share. Counts that vary more between rounds than chance allows
// are divided by their overdispersion first. It is false when a round has no such count.
func (l limit) tally(list []*record.Round, s *standing) bool {
	var x, n []int
	for _, r := range list {
		beyond, of, ok := l.beyond(r)
		if !ok {
			return false
		}
		x, n = append(x, beyond), append(n, of)
		s.beyond += beyond
		s.n += of
	}
	if s.n == 0 {
		return false
	}
	phi := stat.Overdispersion(x, n)
	k := math.Round(float64(s.beyond) / phi)
	lo, up := stat.ClopperPearson(k, float64(s.n)/phi, l.level)
	s.lo, s.up = record.Of(lo), record.Of(up)
	if l.rate() {
		share := float64(s.beyond) / float64(s.n)
		if l.metric.Key == goodput {
			share = 1 - share
		}
		s.value = record.Of(share)
	}
	return true
}

// beyond counts one round's requests over the limit, failures included, and all of them.
func (l limit) beyond(r *record.Round) (x, n int, ok bool) {
	switch {
	case l.metric.Key == ErrorRate:
		return r.Counts.Failures(), r.Counts.Attempted(), r.Counts.Attempted() > 0
	case l.metric.Key == goodput:
		good, ok := r.Metrics[goodput].Finite()
		n = r.Counts.Scheduled
		return min(max(int(math.Round((1-good)*float64(n))), 0), n), n, ok && n > 0
	case l.metric.Percentile == 0 || !l.counted:
		return 0, 0, false
	}
	x, ok = r.Beyond[l.metric.Key]
	n = orElse(r.Metrics[l.metric.Key].N, r.Counts.Scheduled)
	if requests := r.Counts.Scheduled; l.metric.PerGap && n > requests && requests > 0 {
		// Gaps of one answer are not independent of each other: the share counts, at the size of the requests.
		x, n = int(math.Round(float64(x)/float64(n)*float64(requests))), requests
	}
	return min(max(x, 0), n), n, ok && n > 0
}

// judgeSLO judges every limit for head and, to attribute, for base. Limits that head gives no evidence for are returned
// as absent.
func (e *evidence) judgeSLO(base, head []*record.Round, metrics []compared, errs ErrorComparison, level float64) (results []SLOResult, absent []string) {
	for _, key := range slices.Sorted(maps.Keys(e.policy.SLO)) {
		m, known := MetricOf(key)
		at := e.policy.SLO[key]
		declared, same := e.run.Declared.SLO[key]
		l := limit{metric: m, at: at, counted: same && declared == at, level: level}
		s, ok := l.stand(head)
		if !known || !ok {
			absent = append(absent, key)
			continue
		}
		r := SLOResult{Key: key, Limit: at, Unit: m.Unit, State: s.state, Value: s.value, Beyond: s.beyond, N: s.n, Up: s.up, Lo: s.lo, Needs: s.needs}
		if b, ok := l.stand(base); ok && len(base) > 0 {
			r.BaseState = b.state
		}
		r.Preexisting = r.State == SLOViolated && r.BaseState == SLOViolated && holds(key, metrics, errs)
		results = append(results, r)
	}
	return results, absent
}

// holds reports whether the metric itself is no worse than tolerated; one that is not gated does not stand against it.
func holds(key string, metrics []compared, errs ErrorComparison) bool {
	if key == ErrorRate {
		return errs.Verdict == Pass
	}
	for _, c := range metrics {
		if c.Key == key {
			return c.Verdict == Pass
		}
	}
	return true
}

// ruleSLO turns the standing with each limit into rulings; whose is what [sloText] is told.
func (h *hearing) ruleSLO(p Policy, whose string) {
	for _, r := range h.slo {
		m, _ := MetricOf(r.Key)
		c, id := informs, ""
		switch r.State {
		case SLOMet:
			continue
		case SLOViolated:
			c, id = worse, SLOBroken
			if r.Preexisting && p.Preexisting == PreexistingWarn {
				c, id = warns, SLOOldBreak
			}
		case SLOAtRisk, SLONotProvable:
			c, id = warns, SLODoubtful
			if p.Burden == Proven {
				c = undecided
			}
		}
		h.add(ruling{class: c, timing: r.Key != ErrorRate, Finding: Finding{ID: id, Metric: r.Key, Arm: record.Head, Text: sloText(m, r, whose)}})
	}
}

// sloText names the limit's metric, whose it is (" of head", or nothing where there is one server) and where it stands.
func sloText(m Metric, r SLOResult, whose string) string {
	side := "at most"
	if m.HigherIsBetter {
		side = "at least"
	}
	text := fmt.Sprintf("%s%s is %s, the limit is %s %s", m.Name, whose, amount(r.Value, r.Unit), side, amount(record.Of(r.Limit), r.Unit))
	if r.N > 0 {
		text += fmt.Sprintf("; %s of %s requests lie beyond it", count(r.Beyond), count(r.N))
	}
	switch {
	case r.Preexisting:
		text += "; base breaks it too (pre-existing)"
	case r.State == SLONotProvable:
		text += fmt.Sprintf("; not provable at this size: needs %s", plural(r.Needs, "request"))
	case r.State == SLOAtRisk:
		text += "; neither kept nor broken beyond doubt"
	}
	return text
}
