package gate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// pair is two adjacent rounds, one per arm: the unit of evidence.
type pair struct{ base, head *record.Round }

func (p pair) of(arm record.Arm) *record.Round {
	if arm == record.Base {
		return p.base
	}
	return p.head
}

func (p pair) first() int { return min(p.base.Slot, p.head.Slot) }

// evidence is a run laid out for judging.
type evidence struct {
	run    *record.Run
	policy Policy
	schedule
	notGated []NotGated
	// few holds the reason for metrics that the policy names although a round is too small for them.
	few     map[string]string
	streams bool
	prior   prior

	voids []record.Void
	void  map[int]bool
	// crashed lists, per arm, the slots of rounds that are not void and whose server left or stalled.
	crashed map[record.Arm][]int
	// valid are the pairs that count; complete those that were measured whole, void ones included. Both in time order.
	valid, complete []pair
	// spoiled counts the pairs that had to be measured again.
	spoiled int
}

// weigh lays out a run. It reads no latency to decide what counts.
func weigh(run *record.Run, p Policy) *evidence {
	p = p.withDefaults()
	e := &evidence{
		run: run, schedule: scheduleOf(run, p), voids: Validity(run), void: map[int]bool{}, few: map[string]string{}, streams: streams(run),
		prior: priorOf(run, p.Calibration),
	}
	for _, v := range e.voids {
		e.void[v.Slot] = true
	}
	var problems []*PolicyError
	e.policy, e.notGated, problems = sift(p, requestsOf(run), e.streams)
	for _, problem := range problems {
		if problem.few {
			e.few[problem.Key] = problem.Text
		}
	}
	e.countCrashes()
	e.pairUp()
	e.sortOut()
	return e
}

func (e *evidence) countCrashes() {
	e.crashed = map[record.Arm][]int{}
	crashed := crashedSlots(e.run)
	for _, r := range e.run.Rounds {
		if crashed[r.Slot] && !e.void[r.Slot] {
			e.crashed[r.Arm] = append(e.crashed[r.Arm], r.Slot)
			delete(crashed, r.Slot)
		}
	}
	// A server may leave before its round is on record.
	for _, in := range e.run.Incidents {
		if in.Slot != nil && crashed[*in.Slot] && !e.void[*in.Slot] {
			e.crashed[in.Arm] = append(e.crashed[in.Arm], *in.Slot)
			delete(crashed, *in.Slot)
		}
	}
}

func (e *evidence) pairUp() {
	byPair := map[int][]*record.Round{}
	for i := range e.run.Rounds {
		r := &e.run.Rounds[i]
		byPair[r.Pair] = append(byPair[r.Pair], r)
	}
	for _, number := range slices.Sorted(maps.Keys(byPair)) {
		var p pair
		spoiled, whole, fellBack := false, true, false
		for _, r := range byPair[number] {
			spoiled = spoiled || e.void[r.Slot] || r.State == record.RoundPartial
			whole = whole && r.State == record.RoundComplete
			// The session went on in another way: that is no disturbance.
			fellBack = fellBack || r.Reset != nil && r.Reset.Outcome == record.ResetUnavailable
			if r.Arm == record.Base {
				p.base = r
			} else {
				p.head = r
			}
		}
		if spoiled && !fellBack {
			e.spoiled++
		}
		if whole && p.base != nil && p.head != nil && len(byPair[number]) == 2 {
			e.complete = append(e.complete, p)
			if !spoiled {
				e.valid = append(e.valid, p)
			}
		}
	}
	inTime := func(a, b pair) int { return a.first() - b.first() }
	slices.SortStableFunc(e.complete, inTime)
	slices.SortStableFunc(e.valid, inTime)
}

// sortOut takes metrics of the default list off the table that this service does not have on its base: absent in every
// base round, counted by estimate, or blurred by bunched streams.
func (e *evidence) sortOut() {
	if len(e.valid) == 0 {
		return
	}
	gated := maps.Clone(e.policy.Tolerance)
	for _, key := range slices.Sorted(maps.Keys(gated)) {
		m, known := MetricOf(key)
		if reason := e.lacking(m); known && reason != "" && !gated[key].Named {
			e.standIn(gated, m, reason)
			delete(gated, key)
			e.notGated = append(e.notGated, NotGated{Key: key, Reason: reason})
		}
	}
	e.policy.Tolerance = gated
}

// lacking says why base cannot have a metric gated; empty when it can.
func (e *evidence) lacking(m Metric) string {
	reason, absent, estimated := "", true, true
	for _, p := range e.valid {
		_, why, ok := m.badness(p.base)
		absent = absent && !ok
		reason = orElse(reason, why)
		estimated = estimated && p.base.Tokens == record.Estimated
	}
	switch {
	case absent:
		return orElse(reason, record.NotMeasured)
	case m.Tokens && estimated:
		return "the server reports no token counts; estimated ones are not gated"
	case bunchable(m) && e.bunched(record.Base) && e.bunched(record.Head):
		return "answers arrive bunched, so the instants of their tokens are not the server's"
	case m.stem() == "itl" && e.bunched(record.Base) == e.bunched(record.Head):
		return e.differentCut()
	}
	return ""
}

// bunchable metrics mean nothing when a proxy or the server holds a stream back.
func bunchable(m Metric) bool {
	return slices.Contains([]string{"ttft", "ttfo", "itl", "icl", "stall"}, m.stem())
}

// bunched reports whether a valid round of the arm says that its streams were.
func (e *evidence) bunched(arm record.Arm) bool {
	return slices.ContainsFunc(e.valid, func(p pair) bool { return slices.Contains(p.of(arm).Flags, BunchedStream) })
}

// rounds lists one arm's rounds of some pairs.
func rounds(pairs []pair, arm record.Arm) []*record.Round {
	list := make([]*record.Round, len(pairs))
	for i, p := range pairs {
		list[i] = p.of(arm)
	}
	return list
}

// layout is the slots of some pairs' rounds in time order, and which arm each belongs to.
func layout(pairs []pair) (list []*record.Round, slots []int, head []bool) {
	list = append(rounds(pairs, record.Base), rounds(pairs, record.Head)...)
	slices.SortFunc(list, func(a, b *record.Round) int { return a.Slot - b.Slot })
	for _, r := range list {
		slots, head = append(slots, r.Slot), append(head, r.Arm == record.Head)
	}
	return list, slots, head
}

// streams reports whether the service streams its answers: some complete round has a TTFT, or lacks it for another reason.
func streams(run *record.Run) bool {
	seen := false
	for i := range run.Rounds {
		r := &run.Rounds[i]
		if r.State != record.RoundComplete {
			continue
		}
		seen = true
		ttft, there := r.Metrics["ttft_p50"]
		if !there || !unstreamed(ttft.Reason()) {
			return true
		}
	}
	return !seen
}

// unstreamed recognises the reason for which a service that does not stream has no TTFT.
func unstreamed(reason string) bool {
	return strings.Contains(reason, "not stream") || strings.Contains(reason, "not_stream")
}

// requestsOf is how many requests a round has: as declared, else as scheduled in the rounds, else as many as one likes.
func requestsOf(run *record.Run) int {
	if run.Workload.Requests > 0 {
		return run.Workload.Requests
	}
	most := 0
	for _, r := range run.Rounds {
		most = max(most, r.Counts.Scheduled)
	}
	return orElse(most, math.MaxInt)
}

// tally counts rounds planned, run and void per arm.
func (e *evidence) tally() map[record.Arm]RoundTally {
	t := map[record.Arm]RoundTally{}
	arms := []record.Arm{record.Base, record.Head}
	if e.run.Kind == record.KindLoad {
		arms = arms[1:]
	}
	for _, arm := range arms {
		var n RoundTally
		for _, a := range e.run.Declared.Order {
			if a == arm {
				n.Planned++
			}
		}
		for _, r := range e.run.Rounds {
			if r.Arm != arm || r.State == record.RoundRunning {
				continue
			}
			n.Run++
			if e.void[r.Slot] {
				n.Void++
			}
		}
		t[arm] = n
	}
	return t
}

// uneven reports whether void rounds follow one build: its void rounds outnumber the other arm's by two or more, and the
// other arm had as many chances. When the first round of a pair is void the second is not run, so an arm that happens to
// come first in a disturbed minute collects void rounds that the other never had the chance to.
func (e *evidence) uneven() bool {
	t := e.tally()
	more, fewer := t[record.Base], t[record.Head]
	if fewer.Void > more.Void {
		more, fewer = fewer, more
	}
	return more.Void-fewer.Void >= 2 && fewer.Run >= more.Run
}

// overBudget reports whether more pairs had to be measured again than the session may.
func (e *evidence) overBudget() bool { return e.spoiled > e.maxVoid }

// leak is the share of a linear drift that the judged rounds let into the difference of the arms.
func leak(pairs []pair) float64 {
	_, slots, head := layout(pairs)
	return stat.Leak(slots, head)
}

// voidSummary names how many rounds were void by which rule: "2 hw_slowdown, 1 no_steady_state".
func (e *evidence) voidSummary() string {
	n := map[string]int{}
	for _, v := range e.voids {
		n[v.Rule]++
	}
	var parts []string
	for _, rule := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%d %s", n[rule], rule))
	}
	return orElse(strings.Join(parts, ", "), "none void")
}
