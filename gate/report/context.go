package report

import (
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// context is what someone needs to repeat or to doubt the run.
func (s *scribe) context() block {
	inner := []block{s.workloadLine(), s.tokensLine(), s.warmupLine(), s.standingLine(), s.armLine(record.Base), s.armLine(record.Head)}
	inner = append(inner, s.gpuLines()...)
	inner = append(inner, s.hostLine())
	inner = append(inner, s.generatorLines()...)
	inner = append(inner, s.policyLine(), s.toolLine())
	for _, n := range s.run.Notes {
		inner = append(inner, line(say("Note "), quote(n.ID, 40), say(": "), quote(n.Text, 2*messageCap)))
	}
	var kept []block
	for _, b := range inner {
		if len(b.line) > 0 {
			kept = append(kept, b)
		}
	}
	return section("Context", true, kept...)
}

func (s *scribe) workloadLine() block {
	w := s.run.Workload
	b := line(say("Workload "), name(w.Name), say(" version %d, digest ", w.Version), name(w.Digest), say(", licence "))
	if w.Licence == "" {
		b.line = append(b.line, say("missing: not stated"))
	} else {
		b.line = append(b.line, quote(w.Licence, nameCap))
	}
	if w.Source != "" {
		b.line = append(b.line, say(", from "), quote(w.Source, messageCap))
	}
	return b
}

func (s *scribe) tokensLine() block {
	w := s.run.Workload
	return line(say("%s requests a round, %s conversations; %s; prefix share expected %s; input tokens p50 %s, p95 %s, p99 %s; output %s, %s, %s",
		count(w.Requests), count(w.Conversations), "rate "+value(w.Rate, "req/s", ""), value(w.PrefixShare, "fraction", ""),
		count(w.InTokens.P50), count(w.InTokens.P95), count(w.InTokens.P99),
		count(w.OutTokens.P50), count(w.OutTokens.P95), count(w.OutTokens.P99)))
}

// length prints a configured duration as it was written.
func length(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	in := scaleFor(ms, "ms")
	if in.unit == "s" && d >= 2*time.Minute {
		return clock(d.Seconds())
	}
	return fixed(ms*in.factor, trimmed(ms*in.factor, 3)) + " " + in.unit
}

func (s *scribe) warmupLine() block {
	d := s.run.Declared
	r := d.Warmup
	least, most := 0, 0
	for _, round := range s.run.Rounds {
		if n := round.Steady.Windows; n > 0 {
			if least == 0 || n < least {
				least = n
			}
			most = max(most, n)
		}
	}
	used := "none used"
	switch {
	case most == 0:
	case least == most:
		used = "used " + count(most) + " windows"
	default:
		used = "used " + count(least) + " to " + count(most) + " windows"
	}
	skipped := ""
	if d.Conditioning.Base == 0 || d.Conditioning.Head == 0 {
		skipped += "; conditioning skipped"
	}
	if d.Cooldown == 0 {
		skipped += "; cool-down skipped"
	}
	return line(say("Warm-up rule %d x %s within %s, trend <= %s over %d; %s; measured %s, %s%s",
		r.Windows, length(r.Window), "±"+limitShare(r.Band), limitShare(r.Trend), r.TrendWindows, used, length(d.Measure), offeredAs(d.Load), skipped))
}

// offeredAs says how requests were offered, and what a closed loop keeps from the reader.
func offeredAs(l record.Load) string {
	switch {
	case l.Concurrency > 0:
		text := "closed loop of " + count(l.Concurrency) + " slots"
		if l.Think > 0 {
			text += " that rest " + length(l.Think)
		}
		return text + ": a slow service is asked less, so overload stays hidden"
	case l.MaxInFlight > 0:
		return inert(l.Kind, 20) + " loop with at most " + count(l.MaxInFlight) + " requests in flight; waiting for a place is in the latencies"
	default:
		return inert(l.Kind, 20) + " loop"
	}
}

func (s *scribe) armLine(arm record.Arm) block {
	a := s.run.Arms.Get(arm)
	if a == nil {
		return block{}
	}
	b := line(say("%s: ", arm))
	if a.Commit != "" {
		b.line = append(b.line, name(a.Commit), say(" "), quote(a.Subject, nameCap), say(", "))
	}
	if a.URL != "" && s.run.Kind == record.KindURL {
		b.line = append(b.line, say("already running at "), name(a.URL), say(", not started by tailgate"))
		return b
	}
	b.line = append(b.line, say("build "))
	if a.Build.SHA256 == "" {
		b.line = append(b.line, say("missing: no artefact"))
	} else {
		cached := ""
		if a.Build.Cached {
			cached = "cached, "
		}
		b.line = append(b.line, name(short(a.Build.SHA256, 12)), say(" (%s%s)", cached, amount(a.Build.Seconds*1000, "ms")))
	}
	if a.Build.Image != "" {
		b.line = append(b.line, say(", image "), name(short(a.Build.Image, 12)))
	}
	if a.Start != "" {
		b.line = append(b.line, say(", started as "), name(strings.TrimSpace(a.Start+" "+strings.Join(a.Args, " "))))
	}
	return b
}

func (s *scribe) gpuLines() []block {
	env := s.run.Environment
	if len(env.GPUs) == 0 {
		return []block{line(say("GPU missing: "), quote(orUnsaid(env.GPUReason), messageCap))}
	}
	var blocks []block
	for _, g := range env.GPUs {
		b := line(say("GPU "), quote(g.Name, nameCap), say(", "), name(g.UUID), say(", driver "), quote(orUnsaid(g.Driver), 40))
		if limit, ok := g.PowerLimitMW.Finite(); ok {
			b.line = append(b.line, say(", power limit %s W", fixed(limit/1000, 0)))
		}
		if mem, ok := g.MemTotalB.Finite(); ok {
			b.line = append(b.line, say(", %s", mebi(mem)))
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func (s *scribe) hostLine() block {
	h := s.run.Environment.Host
	if s.run.Kind == record.KindURL && h.Cores == 0 {
		return line(say("Host not observed: the servers were not started by tailgate and do not both run on this machine"))
	}
	b := line(say("Host "), quote(orUnsaid(h.CPU), nameCap), say(", %d cores, memory ", h.Cores))
	if mem, ok := h.MemoryB.Finite(); ok {
		b.line = append(b.line, say("%s", mebi(mem)))
	} else {
		b.line = append(b.line, say("%s", missing(h.MemoryB.Reason())))
	}
	return block{kind: bullet, line: append(b.line, say(", kernel "), quote(orUnsaid(h.Kernel), nameCap), say(", governor "), quote(orUnsaid(h.Governor), 40))}
}

func (s *scribe) policyLine() block {
	p := s.run.Declared.Policy
	b := line(say("Policy "), name(short(p.SHA256, 12)), say(" from "), name(p.Path))
	if p.Commit != "" {
		b.line = append(b.line, say(" at "), name(short(p.Commit, 12)))
	}
	if s.j.PolicySHA256 != "" && s.j.PolicySHA256 != p.SHA256 {
		b.line = append(b.line, say("; judged again under "), name(short(s.j.PolicySHA256, 12)))
	}
	return b
}

func (s *scribe) toolLine() block {
	return line(say("tailgate "), quote(s.run.Tailgate.Version, 40), say(", schema %d; order drawn from run ", s.run.Schema), name(s.run.ID),
		say(", coin %d", s.run.Declared.Coin))
}

// links ends the report: where the evidence lies and how to judge it again.
func (s *scribe) links() block {
	w := words{say("tailgate "), quote(s.run.Tailgate.Version, 40), say(" · run "), name(s.run.ID)}
	folder := s.o.RunFolder
	if folder != "" {
		w = append(w, say(" · folder "), name(folder))
	} else {
		folder = "RUN"
	}
	if s.j.RunSHA256 != "" {
		w = append(w, say(" · result "), name("sha256:"+short(s.j.RunSHA256, 12)))
	}
	w = append(w, say(" · judge again: "), name("tailgate report "+folder))
	if s.o.RunURL != "" {
		w = append(w, say(" · %s", clean(s.o.RunURL, messageCap)))
	}
	return block{kind: paragraph, line: w}
}

// marker is the last line of a comment, by which it is found again.
func (s *scribe) marker() []block {
	if s.o.Key == "" {
		return nil
	}
	text := "tailgate key=" + token(s.o.Key) + " run=" + token(s.o.RunID) + " attempt=" + count(s.o.Attempt) +
		" head=" + token(s.o.HeadSHA) + " schema=1"
	if len(s.o.History) > 0 {
		var entries []string
		for _, e := range s.o.History {
			parts := strings.Split(e, ":")
			for i := range parts {
				parts[i] = token(parts[i])
			}
			entries = append(entries, strings.Join(parts, ":"))
		}
		text += " hist=" + strings.Join(entries, ",")
	}
	return []block{{kind: markerBlock, line: words{say("%s", text)}, webOnly: true}}
}

// token keeps what cannot end an HTML comment.
func token(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.':
			return r
		case r == '-':
			return r
		default:
			return -1
		}
	}, strings.ReplaceAll(s, "--", ""))
}
