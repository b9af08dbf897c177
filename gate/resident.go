package gate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// The rules and findings of sessions whose servers stay up between rounds.
const (
	VoidResetFailed  = "cache_reset_failed"
	VoidContaminated = "cache_contaminated"
	VoidIdleBusy     = "idle_arm_busy"

	ServersNotOurs = "servers_not_started"
	CachesKept     = "caches_kept"
	ResetUnproven  = "cache_reset_unverified"
	NotRestarted   = "resident_not_restarted"
	NotSwapped     = "gpu_sets_not_swapped"
	SharedGPU      = "resident_shared"
	TooFewResident = "resident_too_few_pairs"
	MixedModes     = "resident_fell_back"
)

const (
	// fewestResident is the smallest number of pairs that servers which stay up can be judged on.
	fewestResident = 4
	// hitSlack is how far the hit rate after a reset may lie above what the workload allows: a chat template is shared too.
	hitSlack = 0.10
	// idleUtil is the utilisation, percent, from which an idle server's GPU is not idle.
	idleUtil = 1.0
)

// Restarts are the counts of pairs after which servers that stay up are started afresh: half-way to the first look, and
// half-way between each look and the next. At every look each arm has then spent half of its pairs on either side.
func Restarts(looks []int) []int {
	var at []int
	last := 0
	for _, look := range looks {
		at = append(at, last+(look-last)/2)
		last = look
	}
	return at
}

// UnequalSets says how two declared sets of GPUs differ in what a comparison across them needs to be equal: model, memory and
// power limit. Empty when they do not, or when no GPU is watched.
func UnequalSets(run *record.Run) string {
	p := run.Declared.Resident
	if p == nil || len(p.Sets) != 2 || len(run.Environment.GPUs) == 0 {
		return ""
	}
	kinds := make([][]string, len(p.Sets))
	for i, set := range p.Sets {
		for _, id := range set {
			at := slices.IndexFunc(run.Environment.GPUs, func(g record.GPU) bool { return g.UUID == id })
			if at < 0 {
				return fmt.Sprintf("GPU %s of resident.gpus is not watched: give UUIDs of this machine (%s)", id, strings.Join(watched(run.Environment.GPUs), ", "))
			}
			g := run.Environment.GPUs[at]
			kinds[i] = append(kinds[i], fmt.Sprintf("%s with %s and a limit of %s", orElse(g.Name, "a GPU without a name"), figure(g.MemTotalB, 1<<20, "MiB"), figure(g.PowerLimitMW, 1000, "W")))
		}
	}
	if slices.Equal(kinds[0], kinds[1]) {
		return ""
	}
	return fmt.Sprintf("the two sets of GPUs differ (%s; %s): name equal ones, or measure with rounds.mode restart", strings.Join(kinds[0], ", "), strings.Join(kinds[1], ", "))
}

func watched(gpus []record.GPU) []string {
	list := make([]string, len(gpus))
	for i, g := range gpus {
		list[i] = g.UUID
	}
	return list
}

// figure prints a value in a unit, or why there is none.
func figure(v record.Value, scale float64, unit string) string {
	x, ok := v.Finite()
	if !ok {
		return "n/a (" + v.Reason() + ")"
	}
	return fmt.Sprintf("%.0f %s", x/scale, unit)
}

// resetFailed: the server did not empty its cache however often it was asked.
func resetFailed(s suspect) string {
	if s.Reset == nil || s.Reset.Outcome != record.ResetFailed {
		return ""
	}
	return fmt.Sprintf("the server refused to empty its cache %s (%s)", plural(s.Reset.Tries, "time"), lastAnswer(s.Reset))
}

func lastAnswer(r *record.ResetReport) string {
	if r.Text == "" {
		return fmt.Sprintf("status %d", r.Status)
	}
	return fmt.Sprintf("status %d: %s", r.Status, r.Text)
}

// contaminated: after the reset the cache held more of the prompts than an empty one could have come to hold.
func contaminated(s suspect) string {
	if s.Reset == nil {
		return ""
	}
	hit, known := s.Reset.HitRate.Finite()
	most, bounded := s.Reset.Possible.Finite()
	if !known || !bounded || hit <= most+hitSlack {
		return ""
	}
	return fmt.Sprintf("%s of the prompts were cached in the first window after the reset, an empty cache allows %s: the reset leaves something, or a cache lies behind it",
		share(hit), share(most))
}

// idleBusy: the server that was not measured worked too.
func idleBusy(s suspect) string {
	if s.Slice == nil {
		return ""
	}
	if n := s.Slice.IdleOpen; n > 0 {
		return fmt.Sprintf("%s of ours still ran on the other server", plural(n, "request"))
	}
	for _, g := range s.Machine.GPUs {
		if busy, ok := g.UtilPct.Median.Finite(); ok && busy >= idleUtil && slices.Contains(s.Slice.Idle, g.UUID) {
			return fmt.Sprintf("%s of the idle server was busy for %.0f %% of the time", g.UUID, busy)
		}
	}
	return ""
}

// ruleServers says what kind of servers were measured. It holds at any moment of a session.
func (e *evidence) ruleServers(d *docket) {
	if e.run.Kind == record.KindURL {
		d.rule(informs, ServersNotOurs, "servers not started by tailgate: nothing was built, started, stopped or proven, and what they run is not known")
	}
	stood := slices.ContainsFunc(e.run.Rounds, func(r record.Round) bool { return r.Resident && r.State == record.RoundComplete })
	if p := e.run.Declared.Resident; stood && p != nil && p.Shared {
		d.rule(informs, SharedGPU, "both servers live on one GPU or host: the idle one's memory is part of what was measured")
	}
}

// ruleResident holds pairs whose servers stayed up against the conditions under which that says the same as fresh ones.
func (e *evidence) ruleResident(h *hearing) {
	var stood []*record.Round
	for _, p := range h.pairs {
		for _, r := range []*record.Round{p.base, p.head} {
			if r.Resident {
				stood = append(stood, r)
			}
		}
	}
	if len(stood) == 0 {
		return
	}
	e.ruleReset(h, stood)
	if e.run.Kind == record.KindURL {
		return
	}
	fresh := 2*len(h.pairs) - len(stood)
	if fresh > 0 {
		h.rule(warns, MixedModes, fmt.Sprintf("%s on servers that stayed up, %s on fresh ones: the session fell back to restarts", plural(len(stood), "round"), plural(fresh, "round")))
	}
	if n := len(h.pairs); n < fewestResident {
		h.doubt(TooFewResident, fmt.Sprintf("%s on servers that stay up, at least %d are needed", plural(n, "pair"), fewestResident))
	}
	if fresh == 0 && len(lives(stood)) < 2 {
		h.doubt(NotRestarted, "the servers were started only once: what one start brought along cannot be told from the build")
	}
	e.ruleSets(h, stood, fresh)
}

// doubt leaves a session undecided, whatever its timings say.
func (h *hearing) doubt(id, text string) {
	h.unsettle(id)
	h.rule(undecided, id, text)
}

// lives are the starts that some rounds had.
func lives(rounds []*record.Round) map[int]bool {
	seen := map[int]bool{}
	for _, r := range rounds {
		if r.Slice != nil {
			seen[r.Slice.Life] = true
		}
	}
	return seen
}

// ruleSets: GPUs of one model differ by several percent, so each arm must have run on both sets.
func (e *evidence) ruleSets(h *hearing, stood []*record.Round, fresh int) {
	p := e.run.Declared.Resident
	if p == nil || p.Shared || fresh > 0 && len(p.Sets) > 0 {
		return
	}
	had := map[record.Arm]map[string]int{record.Base: {}, record.Head: {}}
	for _, r := range stood {
		if r.Slice != nil && len(r.Slice.GPUs) > 0 {
			had[r.Arm][strings.Join(r.Slice.GPUs, ",")]++
		}
	}
	for _, arm := range []record.Arm{record.Base, record.Head} {
		if len(had[arm]) < 2 {
			h.doubt(NotSwapped, fmt.Sprintf("%s ran on one set of GPUs only (%s): GPUs of one model differ by several percent", arm,
				orElse(strings.Join(slices.Sorted(maps.Keys(had[arm])), "; "), "none on record")))
			return
		}
	}
}

// ruleReset: a cache that may hold what an earlier round left makes a pair of servers that stay up unequal.
func (e *evidence) ruleReset(h *hearing, stood []*record.Round) {
	var kept, unproven []int
	for _, r := range stood {
		switch {
		case r.Reset == nil || r.Reset.Outcome == record.ResetNone:
			kept = append(kept, r.Slot)
		case r.Reset.Outcome != record.ResetVerified && !emptied(r.Reset):
			unproven = append(unproven, r.Slot)
		}
	}
	say := h.doubt
	if e.run.Kind == record.KindURL {
		say = func(id, text string) { h.rule(warns, id, text) }
	}
	if len(kept) > 0 {
		say(CachesKept, "caches were left as they were between rounds (slots "+list(kept)+"): later rounds may find what earlier ones left")
	}
	if len(unproven) > 0 {
		say(ResetUnproven, "nothing shows that the cache was emptied (slots "+list(unproven)+"): the server answered without saying so, and its hit rate is not known")
	}
}

// emptied reports whether the hit rate shows that an unverified reset did its work.
func emptied(r *record.ResetReport) bool {
	hit, known := r.HitRate.Finite()
	most, bounded := r.Possible.Finite()
	return known && bounded && hit <= most+hitSlack
}
