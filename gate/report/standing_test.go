package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// rendered is the report of a run, folded sections included.
func rendered(t *testing.T, run *record.Run) string {
	t.Helper()
	var out bytes.Buffer
	if err := Markdown(&out, run, gate.Judgement{Verdict: gate.Pass, Pairs: 4}, Options{}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	flat := strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "`", "")
	for _, part := range parts {
		if !strings.Contains(flat, part) {
			t.Errorf("the report does not say %q:\n%s", part, text)
		}
	}
}

func TestReportOfResidentServers(t *testing.T) {
	run := aRun(4)
	run.Declared.Mode = record.ModeResident
	run.Declared.Reset = &record.ResetPlan{Method: "POST", Path: "/reset_prefix_cache", Status: 200}
	run.Declared.Resident = &record.ResidentPlan{Shared: true, Restarts: []int{2, 5, 7}}
	for i := range run.Rounds {
		run.Rounds[i].Resident, run.Rounds[i].Slice = true, &record.Slice{Life: 1 + i/4}
		run.Rounds[i].Reset = &record.ResetReport{Tries: 1, Outcome: record.ResetVerified}
	}
	run.Rounds[3].Reset.Tries = 3
	want(t, rendered(t, run), "resident servers", "Servers stay up between rounds, both on one GPU or host; both started afresh after 2, 5, 7 pairs; caches emptied before each round by POST /reset_prefix_cache",
		"resident, cache reset verified", "resident, cache reset verified after 3 calls")

	run.Declared.Resident = &record.ResidentPlan{Sets: [][]string{{"GPU-a"}, {"GPU-b"}}, Restarts: []int{2}}
	want(t, rendered(t, run), "on GPUs GPU-a and GPU-b, swapped at each restart")
}

func TestReportOfRunningServers(t *testing.T) {
	run := aRun(4)
	run.Kind, run.Declared.Mode, run.Declared.Reset = record.KindURL, record.ModeResident, &record.ResetPlan{None: true}
	run.Environment = record.Environment{GPUReason: "not observed: elsewhere"}
	run.Arms.Base.URL, run.Arms.Head.URL, run.Arms.Head.Commit = "http://10.0.0.1:8000", "http://10.0.0.2:8000", ""
	text := rendered(t, run)
	want(t, text, "servers not started by tailgate", "http://10.0.0.1:8000 (labelled 4be91c7)", "head http://10.0.0.2:8000", "already running at http://10.0.0.2:8000, not started by tailgate",
		"Host not observed", "caches left as they are, as configured", "GPU missing: not observed: elsewhere")
	if strings.Contains(text, "0 cores") {
		t.Error("an unknown host has a number of cores")
	}
}
