package report

import (
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// provisional is the line of a session of three pairs, and of one that was measured before.
func (s *scribe) provisional() []block {
	var blocks []block
	if s.j.Provisional {
		smallest := missing("no metric")
		worst := 0.0
		for _, c := range s.j.Metrics {
			if x, ok := c.MDE80.Finite(); ok && x > worst {
				worst = x
				smallest = share(x) + " in " + label(c.Key)
			}
		}
		blocks = append(blocks, line(say("%d pairs: provisional. Smallest slowdown detectable here: %s.", s.j.Pairs, smallest)))
	}
	if n := len(s.o.Attempts); n > 0 {
		earlier := make([]string, n)
		for i, v := range s.o.Attempts {
			earlier[i] = string(v)
		}
		blocks = append(blocks, block{kind: bullet, line: words{say("attempt %d; earlier: ", n+1), quote(strings.Join(earlier, ", "), messageCap)}})
	}
	return blocks
}

// against is the line that says what was compared with what, where and how often.
func (s *scribe) against() block {
	w := s.arms()
	w = append(w, say(" · workload "), name(s.run.Workload.Name))
	if digest := s.run.Workload.Digest; digest != "" {
		w = append(w, say(" "), name(short(digest, 12)))
	}
	w = append(w, say(" · "))
	w = append(w, s.machine()...)
	if s.run.Declared.Load.HTTP2 {
		w = append(w, say(" · %s", overHTTP2))
	}
	switch {
	case s.run.Kind == record.KindURL:
		w = append(w, say(" · servers not started by tailgate"))
	case s.run.Declared.Mode == record.ModeResident:
		w = append(w, say(" · resident servers"))
	}
	w = append(w, say(" · %s", s.pairsText()))
	if order := s.order(); order != "" {
		w = append(w, say(", "), name(order))
	}
	return block{kind: bullet, line: w}
}

func (s *scribe) arms() words {
	base, head := s.run.Arms.Base, s.run.Arms.Head
	if base == nil {
		return append(words{say("one server ")}, revision(head, false)...)
	}
	if s.run.Kind == record.KindCalibrate {
		return append(append(words{say("one build ")}, revision(base, false)...), say(" against itself"))
	}
	if s.run.Kind == record.KindSwitch && head != nil {
		// Head's is the one that both arms start.
		w := append(words{say("one build ")}, revision(head, false)...)
		w = append(w, say(": base "), name(argsText(base, head)), say(" → head "), name(argsText(head, base)))
		return w
	}
	w := append(words{say("base ")}, revision(base, true)...)
	return append(append(w, say(" → head ")), revision(head, false)...)
}

// revision names an arm by its commit, else by its address.
func revision(a *record.ArmInfo, how bool) words {
	switch {
	case a == nil:
		return words{say("%s", missing("no such arm"))}
	case a.Commit == "" && a.URL != "":
		return words{name(a.URL)}
	case a.URL != "":
		return words{name(a.URL), say(" (labelled "), name(short(a.Commit, 7)), say(")")}
	case a.Commit == "":
		return words{say("%s", missing("no revision"))}
	}
	w := words{name(short(a.Commit, 7))}
	if a.Uncommitted {
		w = append(w, say(" (uncommitted)"))
	}
	if how && a.Strategy != "" {
		w = append(w, say(" ("), quote(a.Strategy, 20))
		if a.Ahead > 0 {
			w = append(w, say(", "), quote(a.Ref, nameCap), say(" is %s ahead", commits(a.Ahead)))
		}
		w = append(w, say(")"))
	}
	return w
}

func commits(n int) string {
	if n == 1 {
		return "1 commit"
	}
	return count(n) + " commits"
}

// argsText is what an arm adds to the one build: its arguments, and the variables that the other arm lacks or sets otherwise.
func argsText(a, other *record.ArmInfo) string {
	var parts []string
	if len(a.Args) > 0 {
		parts = append(parts, strings.Join(a.Args, " "))
	}
	for _, variable := range a.Env {
		switch {
		case !slices.Contains(other.Env, variable):
			parts = append(parts, "env "+variable)
		case slices.Contains(a.EnvDiffers, variable):
			parts = append(parts, "env "+variable+" (another value)")
		}
	}
	if len(parts) == 0 {
		return "as it is"
	}
	return strings.Join(parts, " ")
}

// short cuts a digest, keeping a prefix such as sha256:.
func short(digest string, n int) string {
	kind, hex, found := strings.Cut(digest, ":")
	if !found {
		kind, hex = "", digest
	} else {
		kind += ":"
	}
	if len(hex) > n {
		hex = hex[:n]
	}
	return kind + hex
}

// machine names the runner and its GPUs.
func (s *scribe) machine() words {
	env := s.run.Environment
	host := env.Runner.Name
	if host == "" {
		host = env.Host.Name
	}
	var w words
	if host == "" {
		w = words{say("runner %s", missing("no name"))}
	} else {
		w = words{say("runner "), quote(host, nameCap)}
	}
	if len(env.GPUs) == 0 {
		return append(w, say(", no GPU observed"))
	}
	var names []string
	for _, g := range env.GPUs {
		names = append(names, g.Name)
	}
	w = append(w, say(", "))
	if n := len(names); n > 1 {
		w = append(w, say("%d x ", n))
	}
	return append(w, quote(strings.Join(slices.Compact(names), ", "), nameCap))
}

func (s *scribe) pairsText() string {
	if s.j.Verdict == gate.Invalid || s.j.Verdict == "" {
		return pairs(s.run.Declared.Min) + " planned, " + count(s.j.Pairs) + " valid"
	}
	if s.j.Spare > 0 {
		return pairs(s.j.Pairs) + ", " + count(s.j.Spare) + " more measured and not judged"
	}
	return pairs(s.j.Pairs)
}

func pairs(n int) string {
	if n == 1 {
		return "1 pair"
	}
	return count(n) + " pairs"
}

// order spells the slots that were run, A for base and B for head, in groups of four.
func (s *scribe) order() string {
	var b strings.Builder
	for i, r := range s.run.Rounds {
		if i > 0 && i%4 == 0 {
			b.WriteByte(' ')
		}
		if r.Arm == record.Base {
			b.WriteByte('A')
		} else {
			b.WriteByte('B')
		}
	}
	return b.String()
}
