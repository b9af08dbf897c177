package report

import (
	"strings"
	"unicode/utf8"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// lineCap is the longest line 1, in characters, glyph and word included.
const lineCap = 200

// disclaimer ends line 1 of every invalid run: a sick machine says nothing about a change.
const disclaimer = ". Says nothing about the pull request."

// loadDisclaimer ends line 1 of an invalid load.
const loadDisclaimer = ". Says nothing about the server."

// word is the glyph and the word of the verdict.
func (s *scribe) word() string {
	switch s.j.Verdict {
	case gate.Pass:
		return "✅ PASS"
	case gate.Fail:
		return "❌ FAIL"
	case gate.Inconclusive:
		return "❔ INCONCLUSIVE"
	case gate.Invalid:
		return "⛔ INVALID"
	default:
		if s.run.Kind == record.KindLoad && s.loaded() != nil {
			return "MEASURED"
		}
		return "NO VERDICT"
	}
}

// rest is line 1 after the word: the deciding fact, then a second one, then how many more there are.
func (s *scribe) rest() words {
	var fact words
	end := ""
	switch load := s.run.Kind == record.KindLoad; s.j.Verdict {
	case gate.Pass:
		fact = s.passFact()
		if load {
			fact = s.keptFact()
		}
	case gate.Fail:
		fact = s.failFact()
	case gate.Inconclusive:
		fact = s.openFact()
	case gate.Invalid:
		fact, end = s.invalidFact(), disclaimer
		switch {
		case load:
			end = loadDisclaimer
		case s.run.Kind == record.KindCalibrate:
			end = ""
		}
	default:
		fact = words{say("nothing was judged")}
		if load {
			fact = s.loadFact()
		}
	}
	fact = append(s.prefix(), fact...)
	return fit(fact, end, lineCap-utf8.RuneCountInString(s.word())-3)
}

// prefix says what a reader must know before the fact.
func (s *scribe) prefix() words {
	var w words
	switch s.run.Status {
	case record.StatusCancelled:
		w = append(w, say("cancelled %s: ", s.lastSlot()))
	case record.StatusDeadline:
		w = append(w, say("out of time %s: ", s.lastSlot()))
	case record.StatusBroken:
		if len(s.run.Rounds) > 0 {
			w = append(w, say("broke off %s: ", s.lastSlot()))
		}
	case record.StatusPlanned, record.StatusRunning, record.StatusComplete:
	}
	if s.run.Declared.Policy.First {
		w = append(w, say("first policy: "))
	}
	return w
}

func (s *scribe) lastSlot() string {
	last := -1
	for _, r := range s.run.Rounds {
		if r.State == record.RoundComplete {
			last = max(last, r.Slot)
		}
	}
	if last < 0 {
		return "before slot 0 was complete"
	}
	return "after slot " + count(last)
}

// passFact names the gated item closest to its tolerance, then the worst SLO.
func (s *scribe) passFact() words {
	gated := len(s.j.Metrics)
	if s.j.Errors.Verdict != "" {
		gated++
	}
	w := words{say("%d gated metrics within tolerance", gated)}
	if worst := s.closest(); worst != nil {
		c := shownChange(*worst)
		w = append(w, say("; largest slowdown %s %s (tolerance %s)", label(worst.Key), c.change, c.tolerance))
	} else if len(s.j.Metrics) > 0 {
		w = append(w, say("; none slower"))
	}
	return append(w, s.sloFact("; ")...)
}

// closest is the gated metric that is slower by the largest share of its tolerance, nil when none is slower.
func (s *scribe) closest() *gate.Comparison {
	var worst *gate.Comparison
	most := 0.0
	for i, c := range s.j.Metrics {
		if r, ok := c.R.Finite(); ok && c.T > 0 && r/c.T > most {
			worst, most = &s.j.Metrics[i], r/c.T
		}
	}
	return worst
}

// failFact leads with what is surest: a head that does not run, requests that fail, a broken SLO, then latency.
func (s *scribe) failFact() words {
	failing := s.withVerdict(gate.Fail)
	broken := s.brokenSLO()
	more := len(failing) + len(broken)
	var w words
	switch incident := s.decidingIncident(record.Head); {
	case incident != nil:
		return incidentFact(*incident)
	case s.decidedAlone():
		return s.findingFact()
	case s.j.Errors.Verdict == gate.Fail:
		w = s.errorFact()
	case len(broken) > 0:
		w, more = brokenFact(broken[0]), more-1
	case len(failing) > 0:
		w, more = s.slowerFact(failing[0]), more-1
	default:
		return s.findingFact()
	}
	if more > 0 {
		w = append(w, say(" (+%d more)", more))
	}
	return w
}

// decidedAlone reports whether a rule about no single metric decided, such as a server that crashed: its own sentence
// says it best.
func (s *scribe) decidedAlone() bool {
	if len(s.j.Findings) == 0 {
		return false
	}
	first := s.j.Findings[0]
	return first.Severity == gate.Deciding && first.Metric == ""
}

func (s *scribe) withVerdict(v gate.Verdict) []gate.Comparison {
	var list []gate.Comparison
	for _, c := range sortedMetrics(s.j.Metrics) {
		if c.Verdict == v {
			list = append(list, c)
		}
	}
	return list
}

// slowerFact says by how much a failing metric moved.
func (s *scribe) slowerFact(c gate.Comparison) words {
	shown := shownChange(c)
	base, head := s.medians(c)
	if b, h, ok := sharedUnit(base, head); ok {
		base, head = b, h
	}
	w := words{say("%s %s → %s (%s, tolerance %s), worse in %d of %d pairs", label(c.Key), base, head, shown.change, shown.tolerance, c.Worse, c.N)}
	if c.SLO != nil && c.SLO.State != gate.SLOMet {
		w = append(w, say("; SLO %s", sloCell(*c.SLO)))
	}
	return w
}

// sharedUnit drops the unit of the first value when the second has the same: "59 → 70 ms".
func sharedUnit(a, b string) (first, second string, ok bool) {
	x, unit, found := strings.Cut(a, " ")
	_, other, _ := strings.Cut(b, " ")
	if !found || unit != other || strings.HasPrefix(unit, "(") {
		return a, b, false
	}
	return x, b, true
}

// openFact says what could not be told.
func (s *scribe) openFact() words {
	open := s.withVerdict(gate.Inconclusive)
	if len(open) == 0 || s.decidedAlone() {
		return s.findingFact()
	}
	c := open[0]
	shown := shownChange(c)
	if shown.low == "" {
		return words{say("%s %s after %d of at most %d pairs (%s)", label(c.Key), shown.change, c.N, s.lastLook(), causeText(c))}
	}
	w := words{say("%s %s, between %s and %s %% after %d of at most %d pairs; tolerance %s (%s)",
		label(c.Key), shown.change, shown.low, shown.high, c.N, s.lastLook(), shown.tolerance, causeText(c))}
	if len(open) > 1 {
		w = append(w, say(" (+%d more)", len(open)-1))
	}
	return w
}

func (s *scribe) lastLook() int {
	if n := len(s.j.Looks); n > 0 {
		return s.j.Looks[n-1]
	}
	return s.run.Declared.Max
}

// invalidFact says what could not be trusted.
func (s *scribe) invalidFact() words {
	for _, arm := range []record.Arm{record.Base, record.Head} {
		if incident := s.decidingIncident(arm); incident != nil {
			return incidentFact(*incident)
		}
	}
	return s.findingFact()
}

// decidingIncident is the incident of an arm that decided the run, nil when something else did.
func (s *scribe) decidingIncident(arm record.Arm) *record.Incident {
	for i, incident := range s.run.Incidents {
		switch incident.ID {
		case record.BuildFailed, record.StartFailed, record.StartTimeout, record.Daemonised, record.ProbeFailed:
		default:
			continue
		}
		last := &s.run.Incidents[i]
		if incident.Arm != arm || (s.j.Reason != incident.ID && s.j.Reason != string(arm)+"_"+incident.ID) {
			continue
		}
		for k := i + 1; k < len(s.run.Incidents); k++ {
			if next := &s.run.Incidents[k]; next.ID == incident.ID && next.Arm == arm {
				last = next
			}
		}
		return last
	}
	return nil
}

// incidentFact says in our words what an arm did not do.
func incidentFact(incident record.Incident) words {
	did := map[string]string{
		record.BuildFailed: "does not build", record.StartFailed: "does not start", record.StartTimeout: "is not ready in time",
		record.Daemonised: "leaves its server in the background", record.ProbeFailed: "does not answer the probe",
	}[incident.ID]
	w := words{say("%s %s", incident.Arm, did)}
	if incident.Try > 1 {
		w = append(w, say(" in %d tries", incident.Try))
	}
	if incident.Exit != nil {
		w = append(w, say(" (exit %d)", *incident.Exit))
	}
	if incident.Text != "" {
		w = append(w, say(": "), quote(strings.TrimRight(incident.Text, ". "), messageCap))
	}
	return w
}

// findingFact is the judge's own sentence.
func (s *scribe) findingFact() words {
	for _, f := range s.j.Findings {
		if f.Text != "" {
			return words{quote(strings.TrimRight(f.Text, ". "), messageCap)}
		}
	}
	if s.j.Reason != "" {
		return words{quote(s.j.Reason, nameCap)}
	}
	return words{say("no reason was given")}
}

// fit shortens a line to a number of characters: foreign text first, never a number of ours. End is kept whole.
func fit(w words, end string, limit int) words {
	room := limit - utf8.RuneCountInString(end)
	for i := len(w) - 1; i >= 0; i-- {
		over := utf8.RuneCountInString(w.plain()) - room
		if over <= 0 {
			break
		}
		if w[i].kind == foreign || w[i].kind == code {
			w[i].text = clean(w[i].text, max(12, utf8.RuneCountInString(w[i].text)-over))
		}
	}
	if utf8.RuneCountInString(w.plain()) > room {
		w = words{{foreign, cutAtWord(w.plain(), room)}}
	}
	if end != "" {
		w = append(w, say("%s", end))
	}
	return w
}

// cutAtWord shortens a line at a space, so that no number is cut.
func cutAtWord(s string, limit int) string {
	runes := []rune(s)
	cut := limit - 1
	for cut > 0 && runes[cut] != ' ' {
		cut--
	}
	if cut == 0 {
		cut = limit - 1
	}
	return strings.TrimRight(string(runes[:cut]), " ;,") + "…"
}
