package gate

import (
	"fmt"
	"maps"
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
	VoidPacerLag      = "pacer_lag"
	VoidSpan          = "off_schedule"
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
	return []voidRule{
		{VoidHWSlowdown, false, hwSlowdown},
		{VoidNoSteadyState, true, noSteadyState},
		{VoidClientLimit, true, clientLimit},
		{VoidUnsent, true, unsent},
		{VoidCounts, true, countsMismatch},
		{VoidPacerLag, true, pacerLag},
		{VoidSpan, true, offSchedule},
		{VoidGCPause, true, gcPause},
		{VoidWire, true, wireDiffers},
	}
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
	return fmt.Sprintf("%s of warm-up without the declared steady state", plural(s.Steady.Windows, "window"))
}

func clientLimit(s suspect) string {
	n := s.Counts.Classes[record.ClientLimit]
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s hit a limit of the load generator's own machine (files, ports, memory)", plural(n, "request"))
}

func unsent(s suspect) string {
	n := s.Counts.Classes[record.Unsent]
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("the load generator did not send %s", plural(n, "request"))
}

func countsMismatch(s suspect) string {
	if s.State != record.RoundComplete {
		return ""
	}
	sum := 0
	for _, class := range slices.Sorted(maps.Keys(s.Counts.Classes)) {
		sum += s.Counts.Classes[class]
	}
	if sum == s.Counts.Scheduled {
		return ""
	}
	return fmt.Sprintf("%s scheduled, %s accounted for", plural(s.Counts.Scheduled, "request"), count(sum))
}

// pacerLag: from 1,000 requests up the 99th percentile and the share of very late ones tell; below, any very late one does.
func pacerLag(s suspect) string {
	const many, p99Limit, lateLimit = 1000, 10.0, 0.001
	n, late := s.Counts.Scheduled, s.Client.Late100
	if n < many {
		if late > 0 {
			return fmt.Sprintf("%s of %s released more than 100 ms late", count(late), count(n))
		}
		return ""
	}
	if float64(late) > lateLimit*float64(n) {
		return fmt.Sprintf("%s of %s requests released more than 100 ms late, the limit is %s", count(late), count(n), share(lateLimit))
	}
	if lag, ok := s.Client.PacerLagP99.Get(); ok && lag > p99Limit {
		return fmt.Sprintf("requests were released late: p99 %s ms, the limit is %s ms", number(lag), number(p99Limit))
	}
	return ""
}

func offSchedule(s suspect) string {
	if x, ok := s.Client.Span.Get(); ok && (x < 0.98 || x > 1.02) {
		return fmt.Sprintf("the requests took %s of the planned time to send; 98 to 102 %% is allowed", share(x))
	}
	return ""
}

func gcPause(s suspect) string {
	pause, ok := s.Client.GCPause.Get()
	measured := 1000 * s.run.Declared.Measure.Seconds()
	if !ok || measured <= 0 || pause <= measured/100 {
		return ""
	}
	return fmt.Sprintf("the load generator stood still for %s ms of garbage collection, more than 1 %% of the interval", number(pause))
}

func wireDiffers(s suspect) string {
	if s.State != record.RoundComplete || s.Client.WireSHA256 == "" || s.Client.WireSHA256 == s.wire {
		return ""
	}
	return "the requests sent differ from those of the first round: their digests are not equal"
}
