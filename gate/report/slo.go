package report

import (
	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// sloCell is a limit and where head stands with it: "<= 800 ms met".
func sloCell(r gate.SLOResult) string {
	text := bound(r) + " " + stateText(r)
	if r.Preexisting || (r.State == gate.SLOViolated && r.BaseState == gate.SLOViolated) {
		text += " (pre-existing)"
	}
	return text
}

// bound is the limit with its direction.
func bound(r gate.SLOResult) string {
	limit, _ := limitAndValue(r)
	if moreIsBetter(r.Key) {
		return ">= " + limit
	}
	return "<= " + limit
}

// limitAndValue prints a limit and head's value on its true side; the value is "" when there is none.
func limitAndValue(r gate.SLOResult) (limit, shown string) {
	x, ok := r.Value.Finite()
	if !ok {
		limit, _ = againstLimit(r.Limit, r.Unit, r.Limit)
		if r.Value.IsFailed() {
			shown = value(r.Value, r.Unit, "")
		}
		return limit, shown
	}
	return againstLimit(r.Limit, r.Unit, x)
}

func stateText(r gate.SLOResult) string {
	switch r.State {
	case gate.SLOMet:
		return "met"
	case gate.SLOViolated:
		return "violated"
	case gate.SLOAtRisk:
		return "at risk"
	case gate.SLONotProvable:
		if r.Needs > 0 {
			return "not provable: needs " + count(r.Needs)
		}
		return "not provable"
	default:
		return "n/a (not judged)"
	}
}

// doubt orders SLO states for line 1, the one a reader must know first.
func doubt(s gate.SLOState) int {
	switch s {
	case gate.SLOViolated:
		return 3
	case gate.SLOAtRisk:
		return 2
	case gate.SLONotProvable:
		return 1
	case gate.SLOMet:
		return 0
	default:
		return 0
	}
}

// sloFact names the SLO that is furthest from met, and how many more there are in that state.
func (s *scribe) sloFact(lead string) words {
	if len(s.j.SLO) == 0 {
		return nil
	}
	worst, same := s.j.SLO[0], 0
	for _, r := range s.j.SLO {
		if doubt(r.State) > doubt(worst.State) {
			worst = r
		}
	}
	for _, r := range s.j.SLO {
		if r.State == worst.State && worst.State != gate.SLOMet {
			same++
		}
	}
	w := words{say("%sSLO %s %s", lead, label(worst.Key), sloCell(worst))}
	if _, value := limitAndValue(worst); value != "" {
		w = append(w, say(" (%s)", value))
	}
	if same > 1 {
		w = append(w, say(" (+%d more)", same-1))
	}
	return w
}

// brokenSLO lists the limits that head breaks and that count against it.
func (s *scribe) brokenSLO() []gate.SLOResult {
	var list []gate.SLOResult
	for _, r := range s.j.SLO {
		if r.State == gate.SLOViolated && !r.Preexisting {
			list = append(list, r)
		}
	}
	return list
}

// brokenFact says by how much a limit is broken.
func brokenFact(r gate.SLOResult) words {
	limit, value := limitAndValue(r)
	sign := "<="
	if moreIsBetter(r.Key) {
		sign = ">="
	}
	w := words{say("SLO %s %s %s violated", label(r.Key), sign, limit)}
	if value != "" {
		w = append(w, say(": %s", value))
	}
	if r.N > 0 && r.Beyond > 0 {
		w = append(w, say(", %s of %s requests beyond it", count(r.Beyond), count(r.N)))
	}
	if r.BaseState == gate.SLOMet {
		w = append(w, say("; base meets it"))
	}
	return w
}

// sloOnly lists the limits on metrics without a tolerance, error rate aside: they are gated too and get rows of their own.
func (s *scribe) sloOnly() []gate.SLOResult {
	compared := map[string]bool{errorRate: true}
	for _, c := range s.j.Metrics {
		compared[c.Key] = true
	}
	var list []gate.SLOResult
	for _, r := range s.j.SLO {
		if !compared[r.Key] {
			list = append(list, r)
		}
	}
	return list
}

// sloOf finds the limit on a metric, nil when there is none.
func (s *scribe) sloOf(key string) *gate.SLOResult {
	for i := range s.j.SLO {
		if s.j.SLO[i].Key == key {
			return &s.j.SLO[i]
		}
	}
	return nil
}

// errorRate is the key of the share of first-attempt failures.
const errorRate = "error_rate"

// failedShare is the share of an arm's requests that failed, for percentiles that do not exist; empty when unknown.
func (s *scribe) failedShare(arm record.Arm) string {
	failed, n := s.j.Errors.Base, s.j.Errors.BaseN
	if arm == record.Head {
		failed, n = s.j.Errors.Head, s.j.Errors.HeadN
	}
	if n == 0 {
		return ""
	}
	return share(float64(failed) / float64(n))
}
