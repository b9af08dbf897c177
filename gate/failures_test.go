package gate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestFailures(t *testing.T) {
	tests := map[string]struct {
		base, head [4]int
		verdict    gate.Verdict
		reason     string
	}{
		"none":                      {[4]int{}, [4]int{}, gate.Pass, ""},
		"six of 20,000":             {[4]int{}, [4]int{3, 3, 0, 0}, gate.Pass, ""},
		"significant but tiny":      {[4]int{}, [4]int{4, 4, 0, 0}, gate.Pass, ""},
		"ten in two rounds":         {[4]int{}, [4]int{5, 5, 0, 0}, gate.Fail, gate.MoreFailures},
		"ten in one round":          {[4]int{}, [4]int{10, 0, 0, 0}, gate.Inconclusive, gate.FailuresOneRound},
		"ten of both":               {[4]int{5, 5, 0, 0}, [4]int{5, 5, 0, 0}, gate.Pass, ""},
		"base fails more":           {[4]int{50, 50, 50, 50}, [4]int{0, 0, 0, 0}, gate.Pass, ""},
		"a little more than base":   {[4]int{10, 10, 10, 10}, [4]int{12, 12, 12, 12}, gate.Pass, ""},
		"much more than much":       {[4]int{10, 10, 10, 10}, [4]int{20, 20, 20, 20}, gate.Fail, gate.MoreFailures},
		"one bad round on each arm": {[4]int{20, 0, 0, 0}, [4]int{0, 60, 0, 0}, gate.Inconclusive, gate.FailuresOneRound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			run := quiet(4)
			for i := range 4 {
				fail(of(run, record.Base)[i], record.Timeout, tt.base[i])
				fail(of(run, record.Head)[i], record.HTTP503, tt.head[i])
			}
			j := judge(t, run, named("e2e_p95"))
			want(t, j, tt.verdict, tt.reason)
			sum := tt.head[0] + tt.head[1] + tt.head[2] + tt.head[3]
			if j.Errors.Head != sum || j.Errors.HeadKinds[record.HTTP503] != sum || j.Errors.HeadN != 4*requests {
				t.Errorf("counted %+v", j.Errors)
			}
		})
	}
}

// What was never sent, because its conversation had failed before, is neither an attempt nor a failure.
func TestAbortedTurnsAreNoAttempts(t *testing.T) {
	run := quiet(4)
	fail(of(run, record.Head)[0], record.ConversationAborted, 100)
	j := judge(t, run, named("e2e_p95"))
	if j.Errors.Head != 0 || j.Errors.HeadN != 4*requests-100 {
		t.Errorf("%+v", j.Errors)
	}
}

// Failing is never an improvement, nor is doing less.
func TestFasterBecauseBroken(t *testing.T) {
	fast := func() *record.Run { return newRun(map[string]values{"e2e_p95": {b4, same(300, 4)}}) }
	if j := judge(t, fast(), named("e2e_p95")); j.Metrics[0].Note != "improved" {
		t.Fatalf("a faster head: %+v", j.Metrics[0])
	}
	run := fast()
	for _, r := range of(run, record.Head) {
		fail(r, record.EmptyOutput, 100)
	}
	j := judge(t, run, named("e2e_p95"))
	want(t, j, gate.Fail, gate.MoreFailures)
	if j.Metrics[0].Note != "" {
		t.Errorf("improved by failing: %+v", j.Metrics[0])
	}
	run = fast()
	for _, r := range of(run, record.Head) {
		r.OutTokens = record.Of(0.5e6)
	}
	j = judge(t, run, named("e2e_p95"))
	f := finding(j, gate.OutputDiffers)
	if j.Metrics[0].Note != "" || f == nil || f.Severity != gate.Warning || !strings.Contains(f.Text, "50 % fewer") {
		t.Errorf("half the output: note %q finding %+v", j.Metrics[0].Note, f)
	}
	for _, r := range of(run, record.Head) {
		r.OutTokens = record.NA("no usage")
	}
	if j = judge(t, run, named("e2e_p95")); finding(j, gate.OutputDiffers) != nil {
		t.Error("unknown tokens read as fewer")
	}
}

func TestAssertions(t *testing.T) {
	full := make([]string, 100)
	for i := range full {
		full[i] = fmt.Sprintf("a%03d", i)
	}
	tests := map[string]struct {
		base, head [][]string
		verdict    gate.Verdict
	}{
		"twice in head":         {nil, [][]string{{"q7"}, nil, {"q7"}}, gate.Fail},
		"once in head":          {nil, [][]string{{"q7"}}, gate.Pass},
		"different ones":        {nil, [][]string{{"q7"}, {"q8"}}, gate.Pass},
		"in base too":           {[][]string{{"q7"}}, [][]string{{"q7"}, {"q7"}}, gate.Pass},
		"base's list is full":   {[][]string{full}, [][]string{{"q7"}, {"q7"}}, gate.Pass},
		"full, but it is known": {[][]string{full}, [][]string{{"a0005x"}, {"a0005x"}}, gate.Fail},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			run := quiet(4)
			for i, ids := range tt.base {
				of(run, record.Base)[i].FailedIDs = ids
			}
			for i, ids := range tt.head {
				of(run, record.Head)[i].FailedIDs = ids
			}
			j := judge(t, run, named("e2e_p95"))
			if j.Verdict != tt.verdict {
				t.Errorf("%s: %+v", j.Verdict, j.Findings)
			}
			if tt.verdict == gate.Fail && (j.Reason != gate.AssertionBroke || !strings.Contains(j.Findings[0].Text, tt.head[0][0])) {
				t.Errorf("%s: %s", j.Reason, j.Findings[0].Text)
			}
		})
	}
}

func TestCrashes(t *testing.T) {
	tests := map[string]struct {
		base, head []int
		verdict    gate.Verdict
		reason     string
	}{
		"head twice":           {nil, []int{0, 2}, gate.Fail, gate.CrashedTwice},
		"head once":            {nil, []int{1}, gate.Inconclusive, gate.CrashedOnce},
		"both once":            {[]int{0}, []int{1}, gate.Inconclusive, gate.CrashedOnce},
		"head twice, base too": {[]int{0}, []int{1, 2}, gate.Inconclusive, gate.CrashedOnce},
		"base twice":           {[]int{0, 3}, nil, gate.Invalid, gate.BaseCrashed},
		"base once":            {[]int{0}, nil, gate.Pass, ""},
	}
	for name, tt := range tests {
		for _, how := range []string{"exit", record.EngineStalled, "oom"} {
			t.Run(name+" "+how, func(t *testing.T) {
				run := quiet(4)
				for arm, list := range map[record.Arm][]int{record.Base: tt.base, record.Head: tt.head} {
					for _, i := range list {
						r := of(run, arm)[i]
						if how == "exit" {
							r.Server.Exit = new(139)
							continue
						}
						run.Incidents = append(run.Incidents, record.Incident{ID: how, Arm: arm, Slot: new(r.Slot), Text: "gone"})
					}
				}
				want(t, judge(t, run, named("e2e_p95")), tt.verdict, tt.reason)
			})
		}
	}
}

// A crash is one finding, though the round and an incident both tell of it; one in conditioning belongs to no round.
func TestCrashIsCountedOnce(t *testing.T) {
	run := quiet(4)
	r := of(run, record.Head)[0]
	r.Server.Exit = new(1)
	run.Incidents = []record.Incident{
		{ID: record.Crashed, Arm: record.Head, Slot: new(r.Slot), Text: "gone"},
		{ID: record.Crashed, Arm: record.Head, Text: "gone while conditioning"},
	}
	want(t, judge(t, run, named("e2e_p95")), gate.Inconclusive, gate.CrashedOnce)
	r.Machine.GPUs[0].Reasons["thermal_hw"] = 4
	run.Declared.MaxVoid = 4
	if j := judge(t, run, named("e2e_p95")); finding(j, gate.CrashedOnce) != nil {
		t.Errorf("a void round's crash is held against head: %+v", j.Findings)
	}
}

func TestIncidents(t *testing.T) {
	const head, base = record.Head, record.Base
	tests := []struct {
		id      string
		arm     record.Arm
		try     int
		verdict gate.Verdict
		reason  string
	}{
		{record.BuildFailed, head, 0, gate.Fail, record.BuildFailed},
		{record.BuildFailed, base, 0, gate.Invalid, "base_build_failed"},
		{record.StartFailed, head, 2, gate.Fail, record.StartFailed},
		{record.StartFailed, head, 1, gate.Pass, ""},
		{record.StartFailed, base, 2, gate.Invalid, "base_start_failed"},
		{record.StartTimeout, head, 2, gate.Fail, record.StartTimeout},
		{record.StartTimeout, base, 2, gate.Invalid, "base_start_timeout"},
		{record.ProbeFailed, head, 1, gate.Fail, record.ProbeFailed},
		{record.ProbeFailed, base, 1, gate.Invalid, "base_probe_failed"},
		{record.ProbeUnfit, head, 0, gate.Inconclusive, record.ProbeUnfit},
		{record.ProbeUnfit, base, 0, gate.Invalid, record.ProbeUnfit},
		{record.PortsShort, head, 0, gate.Invalid, record.PortsShort},
		{record.SameArtifact, "", 0, gate.Invalid, record.SameArtifact},
		{record.PortTaken, head, 0, gate.Invalid, record.PortTaken},
		{record.PortStolen, head, 0, gate.Invalid, record.PortStolen},
		{record.PortNotFreed, head, 0, gate.Invalid, record.PortNotFreed},
		{record.RunnerDirty, head, 0, gate.Invalid, record.RunnerDirty},
		{record.Daemonised, head, 0, gate.Invalid, record.Daemonised},
		{record.DiskFull, "", 0, gate.Invalid, record.DiskFull},
		{record.WriteFailed, "", 0, gate.Invalid, record.WriteFailed},
		{record.TelemetryMissing, "", 0, gate.Invalid, record.TelemetryMissing},
		{record.GPULocked, "", 0, gate.Invalid, record.GPULocked},
		{record.GPUNotUsed, head, 0, gate.Invalid, record.GPUNotUsed},
		{record.MemoryNotFreed, head, 0, gate.Invalid, record.MemoryNotFreed},
		{record.StopNotClean, head, 0, gate.Fail, record.StopNotClean},
		{record.StopNotClean, base, 0, gate.Invalid, "base_stop_not_clean"},
		{record.WorktreeFailed, head, 0, gate.Invalid, record.WorktreeFailed},
		{record.InternalFault, "", 0, gate.Invalid, record.InternalFault},
		{record.Cancelled, "", 0, gate.Invalid, record.Cancelled},
		{"meteor", head, 0, gate.Invalid, gate.UnknownIncident},
	}
	for _, tt := range tests {
		t.Run(tt.id+" "+string(tt.arm), func(t *testing.T) {
			run := quiet(4)
			if tt.verdict != gate.Pass {
				run.Rounds = nil
			}
			run.Incidents = []record.Incident{{ID: tt.id, Arm: tt.arm, Try: tt.try, Exit: new(2), Text: "make: *** [server] Error 2."}}
			j := judge(t, run, named("e2e_p95"))
			want(t, j, tt.verdict, tt.reason)
			if next := gate.Decide(run, named("e2e_p95")); next.Stop != (tt.verdict != gate.Pass) && len(run.Rounds) == 0 {
				t.Errorf("the session goes on: %+v", next)
			}
		})
	}
}

// A start that fails in the end is told beside those that did not.
func TestStartsOfAnArmAreCounted(t *testing.T) {
	run := quiet(4)
	run.Rounds = []record.Round{
		{Slot: 0, Arm: record.Base, Phases: record.Phases{Ready: 1}},
		{Slot: 1, Arm: record.Head, Phases: record.Phases{Ready: 1}},
		{Slot: 2, Arm: record.Head, Phases: record.Phases{Ready: 1}},
		{Slot: 3, Arm: record.Head, State: record.RoundPartial},
	}
	run.Incidents = []record.Incident{{ID: record.StartTimeout, Arm: record.Head, Try: 2, Slot: new(3), Text: "not ready within 10m0s"}}
	j := judge(t, run, named("e2e_p95"))
	want(t, j, gate.Fail, record.StartTimeout)
	if text := j.Findings[0].Text; !strings.HasSuffix(text, "not ready within 10m0s; head started in 2 of 3 slots") {
		t.Errorf("text: %s", text)
	}
	run.Rounds = run.Rounds[3:]
	if text := judge(t, run, named("e2e_p95")).Findings[0].Text; strings.Contains(text, "slots") {
		t.Errorf("text of a first start: %s", text)
	}
}

// Head is blamed only where base could be measured.
func TestBaseTroubleComesFirst(t *testing.T) {
	run := quiet(4)
	run.Rounds = nil
	run.Incidents = []record.Incident{
		{ID: record.BuildFailed, Arm: record.Head, Text: "error"}, {ID: record.BuildFailed, Arm: record.Base, Text: "error"},
	}
	want(t, judge(t, run, named("e2e_p95")), gate.Invalid, "base_build_failed")
	run.Incidents = run.Incidents[:1]
	run.Status = record.StatusCancelled
	want(t, judge(t, run, named("e2e_p95")), gate.Invalid, record.Cancelled)
	run.Status = record.StatusBroken
	want(t, judge(t, run, named("e2e_p95")), gate.Fail, record.BuildFailed)
}
