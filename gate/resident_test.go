package gate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestRestarts(t *testing.T) {
	for _, tt := range []struct{ looks, want []int }{
		{[]int{4}, []int{2}},
		{[]int{4, 6, 8}, []int{2, 5, 7}},
		{[]int{5, 6}, []int{2, 5}},
		{[]int{12}, []int{6}},
	} {
		got := gate.Restarts(tt.looks)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("looks %v (-want +got):\n%s", tt.looks, diff)
		}
		// At each look either side of the restarts has half of the pairs.
		for _, look := range tt.looks {
			sides := [2]int{}
			for k := range look {
				side := 0
				for _, at := range got {
					if k >= at {
						side++
					}
				}
				sides[side%2]++
			}
			if d := sides[0] - sides[1]; d < -1 || d > 1 {
				t.Errorf("looks %v: at %d pairs the sides have %v", tt.looks, look, sides)
			}
		}
	}
}

// resident is a clean session of four pairs whose servers stayed up, restarted half-way.
func resident(change func(*record.Run)) *record.Run {
	run := quiet(4)
	run.Declared.Mode = record.ModeResident
	run.Declared.Reset = &record.ResetPlan{Method: "POST", Path: "/reset", Status: 200}
	run.Declared.Resident = &record.ResidentPlan{Shared: true, Restarts: []int{2, 5, 7}}
	for i := range run.Rounds {
		r := &run.Rounds[i]
		r.Resident, r.Slice = true, &record.Slice{Life: 1 + i/4}
		r.Reset = &record.ResetReport{Tries: 1, Status: 200, Outcome: record.ResetVerified, HitRate: record.Of(0.3), Possible: record.Of(0.3)}
	}
	if change != nil {
		change(run)
	}
	return run
}

func resets(run *record.Run, change func(*record.ResetReport)) {
	for i := range run.Rounds {
		change(run.Rounds[i].Reset)
	}
}

// swap gives both arms GPUs of their own, swapped in the second half.
func swap(run *record.Run) {
	run.Declared.Resident = &record.ResidentPlan{Sets: [][]string{{"GPU-a"}, {"GPU-b"}}, Restarts: []int{2}}
	for i := range run.Rounds {
		r := &run.Rounds[i]
		sets := [][]string{{"GPU-a"}, {"GPU-b"}}
		if r.Arm == record.Head != (r.Slice.Life == 2) {
			slices.Reverse(sets)
		}
		r.Slice.GPUs, r.Slice.Idle = sets[0], sets[1]
		r.Machine.GPUs[0].UUID = "GPU-a"
	}
}

// What section by section keeps a session of servers that stay up from a pass, and the sentence that says so.
func TestConditionsOfResidentServers(t *testing.T) {
	url := func(run *record.Run) { run.Kind, run.Declared.Resident = record.KindURL, nil }
	tests := map[string]struct {
		change   func(*record.Run)
		verdict  gate.Verdict
		id, says string
	}{
		"all hold":                  {nil, gate.Pass, gate.SharedGPU, "both servers live on one GPU or host"},
		"own GPUs, swapped":         {swap, gate.Pass, "", ""},
		"own GPUs, not swapped":     {func(run *record.Run) { swap(run); keepSets(run) }, gate.Inconclusive, gate.NotSwapped, "base ran on one set of GPUs only (GPU-a)"},
		"no place declared":         {func(run *record.Run) { run.Declared.Resident.Shared = false }, gate.Inconclusive, gate.NotSwapped, "(none on record)"},
		"never restarted":           {func(run *record.Run) { eachSlice(run, func(s *record.Slice) { s.Life = 1 }) }, gate.Inconclusive, gate.NotRestarted, "started only once"},
		"three pairs":               {func(run *record.Run) { three(run) }, gate.Inconclusive, gate.TooFewResident, "3 pairs on servers that stay up, at least 4"},
		"unverified, rate unknown":  {func(run *record.Run) { resets(run, unverified(record.NA("not said"))) }, gate.Inconclusive, gate.ResetUnproven, "slots 0, 1, 2, 3, 4, 5, 6 and 7"},
		"unverified, rate as hoped": {func(run *record.Run) { resets(run, unverified(record.Of(0.31))) }, gate.Pass, "", ""},
		"no reset":                  {func(run *record.Run) { resets(run, func(r *record.ResetReport) { r.Outcome = record.ResetNone }) }, gate.Inconclusive, gate.CachesKept, "later rounds may find what earlier ones left"},
		"fell back":                 {fellBack, gate.Pass, gate.MixedModes, "2 rounds on servers that stayed up, 6 rounds on fresh ones"},

		"running servers": {url, gate.Pass, gate.ServersNotOurs, "servers not started by tailgate"},
		"running servers, no reset": {func(run *record.Run) {
			url(run)
			resets(run, func(r *record.ResetReport) { r.Outcome = record.ResetNone })
		}, gate.Pass, gate.CachesKept, "caches were left as they were"},
		"running servers, unverified": {func(run *record.Run) { url(run); resets(run, unverified(record.NA("not said"))) }, gate.Pass, gate.ResetUnproven, "its hit rate is not known"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			run := resident(tt.change)
			j := gate.Evaluate(run, named("e2e_p95"))
			if j.Verdict != tt.verdict {
				t.Errorf("verdict %s (%s), want %s: %+v", j.Verdict, j.Reason, tt.verdict, j.Findings)
			}
			if tt.verdict == gate.Inconclusive && j.Reason != tt.id {
				t.Errorf("reason %s, want %s", j.Reason, tt.id)
			}
			if tt.id == "" {
				return
			}
			i := slices.IndexFunc(j.Findings, func(f gate.Finding) bool { return f.ID == tt.id })
			if i < 0 || !strings.Contains(j.Findings[i].Text, tt.says) {
				t.Errorf("findings %+v, want %s saying %q", j.Findings, tt.id, tt.says)
			}
		})
	}
}

// Without its conditions a session is at most inconclusive: it does not fail either.
func TestUnswappedSetsDoNotFail(t *testing.T) {
	run := resident(func(run *record.Run) {
		swap(run)
		keepSets(run)
		for _, r := range of(run, record.Head) {
			x, _ := r.Metrics["e2e_p95"].Get()
			r.Metrics["e2e_p95"] = metricOf("e2e_p95", 1.5*x)
		}
	})
	if j := gate.Evaluate(run, named("e2e_p95")); j.Verdict != gate.Inconclusive {
		t.Errorf("verdict %s (%s), want inconclusive", j.Verdict, j.Reason)
	}
	run = resident(func(run *record.Run) {
		for _, r := range of(run, record.Head) {
			x, _ := r.Metrics["e2e_p95"].Get()
			r.Metrics["e2e_p95"] = metricOf("e2e_p95", 1.5*x)
		}
	})
	if j := gate.Evaluate(run, named("e2e_p95")); j.Verdict != gate.Fail {
		t.Errorf("with all conditions: verdict %s (%s), want fail", j.Verdict, j.Reason)
	}
}

func eachSlice(run *record.Run, change func(*record.Slice)) {
	for i := range run.Rounds {
		change(run.Rounds[i].Slice)
	}
}

// keepSets undoes the swap: each arm stays where it began.
func keepSets(run *record.Run) {
	for i := range run.Rounds {
		r := &run.Rounds[i]
		r.Slice.GPUs, r.Slice.Idle = []string{"GPU-a"}, []string{"GPU-b"}
		if r.Arm == record.Head {
			r.Slice.GPUs, r.Slice.Idle = r.Slice.Idle, r.Slice.GPUs
		}
	}
}

func three(run *record.Run) {
	run.Rounds = run.Rounds[:6]
	run.Declared.Looks, run.Declared.Min, run.Declared.Max = []int{3}, 3, 3
}

// fellBack: from the second pair on each round had a fresh server.
func fellBack(run *record.Run) {
	for i := 2; i < len(run.Rounds); i++ {
		r := &run.Rounds[i]
		r.Resident, r.Slice, r.Reset = false, nil, nil
	}
}

func unverified(rate record.Value) func(*record.ResetReport) {
	return func(r *record.ResetReport) { r.Outcome, r.HitRate = record.ResetUnverified, rate }
}

func TestVoidOfResidentRounds(t *testing.T) {
	tests := map[string]struct {
		spoil      func(*record.Round)
		rule, says string
	}{
		"reset refused": {func(r *record.Round) {
			r.State, r.Reset = record.RoundPartial, &record.ResetReport{Tries: 6, Status: 200, Outcome: record.ResetFailed, Text: `{"success":false}`}
		}, gate.VoidResetFailed, `refused to empty its cache 6 times (status 200: {"success":false})`},
		"reset refused in silence": {func(r *record.Round) {
			r.State, r.Reset = record.RoundPartial, &record.ResetReport{Tries: 6, Status: 429, Outcome: record.ResetFailed}
		}, gate.VoidResetFailed, "(status 429)"},
		"a full cache":         {func(r *record.Round) { r.Reset.HitRate = record.Of(0.96) }, gate.VoidContaminated, "96 % of the prompts were cached in the first window after the reset, an empty cache allows 30 %"},
		"a template's share":   {func(r *record.Round) { r.Reset.HitRate = record.Of(0.39) }, "", ""},
		"no rate":              {func(r *record.Round) { r.Reset.HitRate = record.NA("not said") }, "", ""},
		"no bound":             {func(r *record.Round) { r.Reset.HitRate, r.Reset.Possible = record.Of(1), record.NA("real text") }, "", ""},
		"requests on the idle": {func(r *record.Round) { r.Slice.IdleOpen = 2 }, gate.VoidIdleBusy, "2 requests of ours still ran on the other server"},
		"a busy idle GPU": {func(r *record.Round) {
			r.Slice.Idle = []string{"GPU-a"}
			r.Machine.GPUs[0].UtilPct.Median = record.Of(7)
		}, gate.VoidIdleBusy, "GPU-a of the idle server was busy for 7 % of the time"},
		"an idle GPU": {func(r *record.Round) {
			r.Slice.Idle = []string{"GPU-a"}
			r.Machine.GPUs[0].UtilPct.Median = record.Of(0.9)
		}, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			run := resident(nil)
			tt.spoil(&run.Rounds[3])
			got := gate.Validity(run)
			if tt.rule == "" {
				if len(got) != 0 {
					t.Errorf("void: %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Slot != 3 || got[0].Rule != tt.rule || !strings.Contains(got[0].Evidence, tt.says) {
				t.Errorf("void %+v, want slot 3 by %s saying %q", got, tt.rule, tt.says)
			}
		})
	}
}

// A round in which the session fell back costs nothing of the budget for void pairs.
func TestFallingBackSpendsNoBudget(t *testing.T) {
	run := resident(fellBack)
	run.Declared.MaxVoid = 0
	run.Rounds[0].State, run.Rounds[0].Reset = record.RoundPartial, &record.ResetReport{Tries: 1, Status: 404, Outcome: record.ResetUnavailable}
	run.Rounds = append(run.Rounds[:1], run.Rounds[2:]...)
	if next := gate.Decide(run, named("e2e_p95")); next.Stop {
		t.Errorf("stopped: %s", next.Reason)
	}
}

func TestUnequalSets(t *testing.T) {
	gpu := func(id, name string, watt float64) record.GPU {
		return record.GPU{UUID: id, Name: name, MemTotalB: record.Of(80 << 30), PowerLimitMW: record.Of(watt * 1000)}
	}
	run := resident(swap)
	for _, tt := range []struct {
		gpus []record.GPU
		says string
	}{
		{nil, ""},
		{[]record.GPU{gpu("GPU-a", "H100", 700), gpu("GPU-b", "H100", 700)}, ""},
		{[]record.GPU{gpu("GPU-a", "H100", 700), gpu("GPU-b", "H100", 350)}, "the two sets of GPUs differ (H100 with 81920 MiB and a limit of 700 W; H100 with 81920 MiB and a limit of 350 W)"},
		{[]record.GPU{gpu("GPU-a", "H100", 700), gpu("GPU-b", "A100", 700)}, "A100"},
		{[]record.GPU{gpu("GPU-a", "H100", 700)}, "GPU GPU-b of resident.gpus is not watched: give UUIDs of this machine (GPU-a)"},
	} {
		run.Environment.GPUs = tt.gpus
		got := gate.UnequalSets(run)
		if (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%v: %q, want %q", tt.gpus, got, tt.says)
		}
	}
}

// Whom a server that is gone, or a reset that is not there, is blamed on.
func TestBlameForRunningServers(t *testing.T) {
	tests := []struct {
		id      string
		arms    []record.Arm
		verdict gate.Verdict
		reason  string
	}{
		{record.ServerGone, []record.Arm{record.Head}, gate.Fail, record.ServerGone},
		{record.ServerGone, []record.Arm{record.Base}, gate.Invalid, "base_" + record.ServerGone},
		{record.ServerGone, []record.Arm{record.Base, record.Head}, gate.Invalid, "base_" + record.ServerGone},
		{record.ResetMissing, []record.Arm{record.Head}, gate.Invalid, record.ResetMissing},
		{record.GPUsDiffer, []record.Arm{""}, gate.Invalid, record.GPUsDiffer},
	}
	for _, tt := range tests {
		run := resident(func(run *record.Run) { run.Kind, run.Declared.Resident = record.KindURL, nil })
		for _, arm := range tt.arms {
			run.Incidents = append(run.Incidents, record.Incident{ID: tt.id, Arm: arm, Text: "it is gone, with a sentence"})
		}
		j := gate.Evaluate(run, named("e2e_p95"))
		if j.Verdict != tt.verdict || j.Reason != tt.reason || !strings.Contains(j.Findings[0].Text, "it is gone, with a sentence") {
			t.Errorf("%s of %v: %s (%s): %+v", tt.id, tt.arms, j.Verdict, j.Reason, j.Findings[0])
		}
	}
}
