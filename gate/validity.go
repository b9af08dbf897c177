package gate

import (
	"fmt"
	"slices"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// The rules that make a round void.
const (
	VoidNoSteadyState = "no_steady_state"
	VoidHWSlowdown    = "hw_slowdown"
	VoidCounts        = "counts_mismatch"
	VoidClientLimit   = "client_limit"
	VoidUnsent        = "unsent"
	VoidClientCPU     = "client_cpu"
	VoidPacerLag      = "pacer_lag"
	VoidSpan          = "off_schedule"
	VoidSendRate      = "send_rate"
	VoidCanary        = "canary"
	VoidScheduler     = "scheduler_latency"
	VoidGCPause       = "gc_pause"
	VoidWire          = "wire_digest"
)

// suspect is a round under examination, with the run it belongs to.
type suspect struct {
	*record.Round
	run *record.Run
	// wire is the digest of the requests of the session's first round.
	wire string
}

// voidRule is one reason why a round may not count. It reads no latency of the measured interval.
type voidRule struct {
	id string
	// fault says that a crashed server may cause what the rule sees: such a round is kept, its crash is the finding.
	fault bool
	// evidence is what was seen, empty when the rule does not apply.
	evidence func(suspect) string
}

// voidRules are tried in this order; the first that applies names the void.
func voidRules() []voidRule {
	rules := []voidRule{
		{VoidHWSlowdown, false, hwSlowdown},
		{VoidResetFailed, false, resetFailed},
		{VoidContaminated, false, contaminated},
		{VoidIdleBusy, false, idleBusy},
		{VoidNoSteadyState, true, noSteadyState},
	}
	for _, c := range clientRules() {
		rules = append(rules, voidRule{c.void, true, func(s suspect) string {
			if grade, evidence := c.weigh(s); grade == void {
				return evidence
			}
			return ""
		}})
	}
	return rules
}

// Validity lists the void rounds of a run, in order of slots: those whose measurement the machine or the load generator
// spoiled. It never reads a latency, so that no result can make itself valid. A round whose server crashed is not void on
// that account.
func Validity(run *record.Run) []record.Void {
	crashed := crashedSlots(run)
	wire := ""
	var voids []record.Void
	for i := range run.Rounds {
		r := &run.Rounds[i]
		if r.State == record.RoundRunning {
			continue
		}
		if wire == "" {
			wire = r.Client.WireSHA256
		}
		for _, rule := range voidRules() {
			if rule.fault && crashed[r.Slot] {
				continue
			}
			if seen := rule.evidence(suspect{r, run, wire}); seen != "" {
				voids = append(voids, record.Void{Slot: r.Slot, Rule: rule.id, Evidence: seen})
				break
			}
		}
	}
	slices.SortStableFunc(voids, func(a, b record.Void) int { return a.Slot - b.Slot })
	return voids
}

// crashedSlots tells in which slots the server left by itself, was killed for memory, or stopped giving tokens.
func crashedSlots(run *record.Run) map[int]bool {
	slots := map[int]bool{}
	for _, r := range run.Rounds {
		if r.Server.Exit != nil {
			slots[r.Slot] = true
		}
	}
	for _, in := range run.Incidents {
		if fateOf(in.ID).crash && in.Slot != nil {
			slots[*in.Slot] = true
		}
	}
	return slots
}

// hwSlowdown: the hardware lowered clocks for heat or power on its own. By polling, one loaded tick with a thermal or brake
// bit is enough; the general bit must be seen twice in a row.
func hwSlowdown(s suspect) string {
	for _, g := range s.Machine.GPUs {
		for _, bit := range []string{"thermal_hw", "power_brake"} {
			if n := g.Reasons[bit]; n >= 1 {
				return fmt.Sprintf("%s on %s in %s under load", bit, g.UUID, plural(n, "reading"))
			}
		}
		if g.SlowdownRun >= 2 {
			return fmt.Sprintf("hw_slowdown on %s in %d readings in a row under load", g.UUID, g.SlowdownRun)
		}
	}
	return ""
}

func noSteadyState(s suspect) string {
	if s.Steady.End != "cap" {
		return ""
	}
	text := plural(s.Steady.Windows, "window") + " of warm-up without the declared steady state"
	if v, ok := s.Steady.Noise.Finite(); ok && s.Steady.Unattainable {
		text += fmt.Sprintf("; it is unattainable with windows that vary by %s: lengthen warmup.window", share(v))
	}
	return text
}
