package report

import (
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// stops tells how the servers went away, where any needed force, was slow, left its session or was waited for. A stop that was
// none of these takes no row.
func (s *scribe) stops() []block {
	g := &grid{head: []string{"slot", "arm", "stopped in", "force", "wait for the port", "wait for GPU memory", "left the session"}, align: "rlrlrrl"}
	rows := 0
	for _, r := range s.run.Rounds {
		if !eventful(r.Stop) {
			continue
		}
		rows++
		force := r.Stop.Force()
		switch {
		case force == "" && r.Stop.Slow:
			force = "none, but slow"
		case force == "":
			force = "none"
		}
		left := words{say("nobody")}
		if len(r.Stop.Escaped) > 0 {
			left = words{quote(strings.Join(r.Stop.Escaped, ", "), messageCap)}
		}
		g.add(cell("%d", r.Slot), words{quote(string(r.Arm), 8)}, cell("%s", amount(1e3*r.Stop.Seconds, "ms")), cell("%s", force),
			cell("%s", amount(1e3*r.Stop.PortWait, "ms")), cell("%s", waitCell(r.Stop.MemoryWait)), left)
	}
	if rows == 0 {
		return nil
	}
	return []block{section("Stops", true, table(g))}
}

// eventful reports whether a stop is worth a row.
func eventful(r record.StopReport) bool {
	memory, _ := r.MemoryWait.Finite()
	return r.Forced > 0 || r.Slow || len(r.Escaped) > 0 || r.PortWait > 0 || memory > 0
}

// waitCell is a wait in seconds, which may be missing.
func waitCell(v record.Value) string {
	seconds, ok := v.Finite()
	if !ok {
		return missing(v.Reason())
	}
	return amount(1e3*seconds, "ms")
}
