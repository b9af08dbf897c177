package report

import (
	"fmt"
	"slices"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// loadValidity says whether the figures can be believed.
func (s *scribe) loadValidity() []block {
	rd := s.loaded()
	if rd == nil {
		return nil
	}
	w := words{say("Validity: the round counts; ")}
	if len(s.j.Validity) > 0 {
		v := s.j.Validity[0]
		w = words{say("Validity: "), bold("the round does not count"), say(", by rule "), quote(v.Rule, 40), say(": "), quote(v.Evidence, messageCap), say("; ")}
	}
	w = append(w, say("%s; %s", warmed(rd), lag(rd)))
	if !slices.ContainsFunc(s.j.Findings, func(f gate.Finding) bool { return f.ID == gate.GPUUnseen && f.Severity == gate.Warning }) {
		w = append(append(w, say("; ")), s.gpu()...)
	}
	return []block{{kind: bullet, line: append(w, say("."))}}
}

// warmed says how the warm-up ended.
func warmed(rd *record.Round) string {
	windows := count(rd.Steady.Windows) + " warm-up windows"
	switch rd.Steady.End {
	case "confirmed":
		return "steady after " + windows
	case "started_with_failures":
		return "requests still failed after " + windows
	default:
		return "not steady after " + windows
	}
}

// lag vouches for the load: were requests released when they were due?
func lag(rd *record.Round) string {
	x, ok := rd.Client.PacerLagP99.Finite()
	also := vouched(func(unit string, figure func(*record.ClientReport) record.Value) (text, reason string) {
		y, there := figure(&rd.Client).Finite()
		if !there {
			return "", figure(&rd.Client).Reason()
		}
		return figureText(y, unit), ""
	})
	switch {
	case !ok:
		return "generator lag " + missing(rd.Client.PacerLagP99.Reason())
	case x > lateWarning:
		return fmt.Sprintf("generator late: p99 lag %s (warned from %d ms; %s)", amount(x, "ms"), lateWarning, also)
	default:
		return "generator on time (p99 lag " + amount(x, "ms") + ", " + also + ")"
	}
}
