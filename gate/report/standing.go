package report

import (
	"fmt"
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// standingLine says how servers that stay up lived and forgot; empty where each round had its own.
func (s *scribe) standingLine() block {
	d := s.run.Declared
	if d.Mode != record.ModeResident {
		return block{}
	}
	b := line(say("Servers stay up between rounds"))
	if p := d.Resident; p != nil {
		switch {
		case p.Shared:
			b.line = append(b.line, say(", both on one GPU or host"))
		case len(p.Sets) == 2:
			b.line = append(b.line, say(", on GPUs "), quote(strings.Join(p.Sets[0], ","), nameCap), say(" and "), quote(strings.Join(p.Sets[1], ","), nameCap), say(", swapped at each restart"))
		}
		b.line = append(b.line, say("; both started afresh after %s pairs", spelled(p.Restarts)))
	}
	switch {
	case d.Reset == nil:
	case d.Reset.None:
		b.line = append(b.line, say("; caches left as they are, as configured"))
	default:
		b.line = append(b.line, say("; caches emptied before each round by "), name(d.Reset.Method+" "+d.Reset.Path))
	}
	return b
}

// spelled writes counts: 2, 5, 7.
func spelled(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, ", ")
}
