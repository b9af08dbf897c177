package report

import "github.com/tailgate-ci/tailgate/runner/record"

// fidelity says how far the replay differs from its source, and which way that bends absolute numbers.
func (s *scribe) fidelity() []block {
	rows := s.run.Fidelity
	direction := overall(rows)
	var blocks []block
	if direction != record.Neutral {
		w := words{say("Fidelity: absolute numbers %s", direction)}
		for _, r := range rows {
			if r.Direction != record.Neutral {
				w = append(w, say(" ("), quote(r.Measure, nameCap))
				if r.Reason != "" {
					w = append(w, say(": "), quote(r.Reason, messageCap))
				}
				w = append(w, say(")"))
				break
			}
		}
		if len(rows) == 0 {
			w = append(w, say(" (the workload says nothing of its source)"))
		}
		end := "; the comparison shares it."
		if s.run.Kind == record.KindLoad {
			end = "."
		}
		blocks = append(blocks, block{kind: bullet, line: append(w, say("%s", end))})
	}
	if len(rows) == 0 {
		return blocks
	}
	g := &grid{head: []string{"measure", "source", "replay", "limit", "direction"}, align: "lrrll"}
	for _, r := range rows {
		limit := r.Limit
		if limit == "" {
			limit = "-"
		}
		way := words{quote(string(r.Direction), 20)}
		if r.Reason != "" {
			way = append(way, say(", "), quote(r.Reason, messageCap))
		}
		g.add(words{quote(r.Measure, nameCap)}, cell("%s", bare(r.Source)), cell("%s", bare(r.Replay)), words{quote(limit, nameCap)}, way)
	}
	end := block{kind: paragraph, line: words{say("Absolute numbers: %s.", direction)}}
	if s.run.Kind != record.KindLoad {
		end.line = append(end.line, say(" The comparison of the arms shares these distortions."))
	}
	return append(blocks, section("Fidelity", true, table(g), end))
}

// bare prints a number without a unit.
func bare(v record.Value) string {
	x, ok := v.Finite()
	if !ok {
		return value(v, "", "")
	}
	return fixed(x, min(decimals3(x), trimmed(x, maxDigits)))
}

// overall joins directions: one direction and neutral ones keep it; opposed or unknown ones are unknown.
func overall(rows []record.Fidelity) record.Direction {
	if len(rows) == 0 {
		return record.Unknown
	}
	seen := record.Neutral
	for _, r := range rows {
		switch {
		case r.Direction == record.Neutral || r.Direction == seen:
		case seen == record.Neutral && (r.Direction == record.Optimistic || r.Direction == record.Pessimistic):
			seen = r.Direction
		default:
			return record.Unknown
		}
	}
	return seen
}
