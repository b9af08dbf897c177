package report

import (
	"fmt"
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// gpuTally sums what was seen of all GPUs over the valid rounds. Absence of a signal is not absence of the event: a group
// is reported as quiet only when every round could read it.
type gpuTally struct {
	states  int
	loaded  int
	reasons map[string]int
	foreign int
	// unread says per group why it could not be read in some round.
	throttleNA, procsNA, tempNA string
}

func (s *scribe) gpuStates() (t gpuTally, reason string) {
	t.reasons = map[string]int{}
	for _, r := range s.run.Rounds {
		if _, isVoid := s.void[r.Slot]; isVoid {
			continue
		}
		if len(r.Machine.GPUs) == 0 {
			reason = r.Machine.GPUReason
			if reason == "" {
				reason = record.NotMeasured
			}
		}
		for _, g := range r.Machine.GPUs {
			t.add(g)
		}
	}
	if t.states == 0 && reason == "" {
		reason = s.run.Environment.GPUReason
	}
	if t.states == 0 && reason == "" {
		reason = "no valid round"
	}
	return t, reason
}

func (t *gpuTally) add(g record.GPUState) {
	t.states++
	t.loaded += g.Loaded
	for bit, n := range g.Reasons {
		t.reasons[bit] += n
	}
	if g.Reasons == nil {
		t.throttleNA = orUnsaid(g.ReasonsNA)
	}
	if g.ProcsNA != "" {
		t.procsNA = g.ProcsNA
	}
	for _, p := range g.Procs {
		if !p.Ours {
			t.foreign++
		}
	}
	if _, ok := g.TempC.Median.Finite(); !ok {
		t.tempNA = g.TempC.Median.Reason()
	}
}

func orUnsaid(reason string) string {
	if reason == "" {
		return record.NotMeasured
	}
	return reason
}

// gpu says what was seen of the GPUs, and names what could not be seen.
func (s *scribe) gpu() words {
	t, reason := s.gpuStates()
	if t.states == 0 {
		return words{say("GPU: not observed ("), quote(reason, messageCap), say(")")}
	}
	var seen []string
	var unseen words
	skip := func(group, why string) {
		if len(unseen) > 0 {
			unseen = append(unseen, say(", "))
		}
		unseen = append(unseen, say("%s (", group), quote(why, nameCap), say(")"))
	}
	if t.throttleNA == "" {
		seen = append(seen, t.slowdowns())
	} else {
		skip("throttling", t.throttleNA)
	}
	if t.procsNA == "" {
		seen = append(seen, foreignText(t.foreign))
	} else {
		skip("processes", t.procsNA)
	}
	if t.tempNA != "" {
		skip("temperature", t.tempNA)
	}
	skip("ECC errors", "not read")
	if reason != "" {
		skip("some rounds", reason)
	}
	w := words{say("GPU: ")}
	if len(seen) > 0 {
		w = append(w, say("%s. ", strings.Join(seen, ", ")))
	}
	return append(append(w, bold("Not observed:"), say(" ")), unseen...)
}

// slowdowns says how often the driver slowed the GPU down for heat or power faults, and how often for its power cap.
func (t *gpuTally) slowdowns() string {
	thermal := t.reasons["thermal_sw"] + t.reasons["thermal_hw"]
	hardware := t.reasons["hw_slowdown"] + t.reasons["power_brake"]
	text := "no thermal or hardware slowdown"
	if thermal+hardware > 0 {
		text = fmt.Sprintf("thermal slowdown in %d, hardware slowdown in %d of %s readings under load", thermal, hardware, count(t.loaded))
	}
	if capped := t.reasons["power_cap"]; capped > 0 && t.loaded > 0 {
		text += ", power-capped in " + share(float64(capped)/float64(t.loaded)) + " of them"
		if thermal+hardware == 0 {
			text = strings.Replace(text, " of them", " of readings under load", 1)
		}
	}
	return text
}

func foreignText(n int) string {
	switch n {
	case 0:
		return "no foreign process"
	case 1:
		return "1 foreign process"
	}
	return count(n) + " foreign processes"
}
