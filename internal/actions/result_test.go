package actions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	baseCommit = "4be91c7a5d0f4f6f8d3a5c1b2e7f90a1b2c3d4e5"
	headCommit = "c55e8100a1b2c3d4e5f60718293a4b5c6d7e8f90"
)

// aRun is a run of six rounds whose head is a third slower.
func aRun() *record.Run {
	run := &record.Run{
		Schema: record.Schema, ID: "20260304-101500-1a2b3c4d", Kind: record.KindRevisions, Status: record.StatusComplete,
		Epoch: time.Date(2026, 3, 4, 10, 15, 0, 0, time.UTC), Finished: record.Instant(time.Hour), Tailgate: record.Tool{Version: "1.2.0"},
		Command: "tailgate action run",
		Declared: record.Declared{
			Order: []record.Arm{"base", "head", "head", "base", "base", "head"}, Looks: []int{3}, Level: 0.05, Min: 3, Max: 3, MaxVoid: 2,
			Measure: 6 * time.Minute, Load: record.Load{Kind: "open", Dialect: "openai-chat"}, Limits: record.DefaultLimits(),
			Policy: record.PolicyRef{SHA256: strings.Repeat("9f", 32), Path: ".tailgate.yaml", Commit: baseCommit},
		},
		Workload: record.WorkloadInfo{Name: "chat", Version: 3, Digest: "sha256:" + strings.Repeat("9c", 32), Requests: 5040},
		Arms: record.Arms{
			Base: &record.ArmInfo{Ref: "main", Commit: baseCommit, Strategy: "merge-base", Subject: "Tune the scheduler"},
			Head: &record.ArmInfo{Ref: headCommit, Commit: headCommit, Subject: "</details>@acme/team ![x](http://example.com/x.png)"},
		},
		Environment: record.Environment{Host: record.Host{Name: "gpu-04"}, Runner: record.Runner{Name: "gpu-04"}},
	}
	for slot, arm := range run.Declared.Order {
		p50 := 180.0
		if arm == record.Head {
			p50 = 240
		}
		run.Rounds = append(run.Rounds, record.Round{
			Slot: slot, Arm: arm, Pair: slot / 2, State: record.RoundComplete,
			Counts:  record.Counts{Scheduled: 5040, Classes: map[record.Outcome]int{record.OK: 5040}},
			Metrics: map[string]record.Metric{"ttft_p50": {Value: record.Of(p50), Unit: "ms", N: 5040}},
		})
	}
	return run
}

func aJudgement() gate.Judgement {
	return gate.Judgement{
		Schema: gate.JudgementSchema, Verdict: gate.Fail, Exit: 1, Reason: "metric_worse",
		Line:  "❌ FAIL — TTFT p50 180 → 240 ms (+33.3 %, tolerance 5 %), worse in 3 of 3 pairs",
		Level: 0.05, Look: 1, Looks: []int{3}, Pairs: 3, Provisional: true,
		Metrics: []gate.Comparison{{
			Key: "ttft_p50", Verdict: gate.Fail, Cause: "metric_worse", Unit: "ms", BaseMedian: record.Of(180), HeadMedian: record.Of(240),
			R: record.Of(0.2877), D: record.Of(0.2877), S: record.Of(0.002), L: record.Of(0.285), U: record.Of(0.29), T: 0.0488, Tolerance: 0.05,
			N: 3, Worse: 3, PairD: []float64{0.2877, 0.2877, 0.2877}, Resolution: record.Of(0.003), MDE80: record.Of(0.004),
		}},
		Errors: gate.ErrorComparison{Verdict: gate.Pass, BaseN: 15120, HeadN: 15120},
		Rounds: map[record.Arm]gate.RoundTally{"base": {Planned: 3, Run: 3}, "head": {Planned: 3, Run: 3}},
		Drift:  gate.DriftReport{Key: "ttft_p50", Change: record.Of(0.001), Limit: 0.1, SlotEffect: record.NA("3 pairs"), BaseRange: record.Of(0)},
	}
}

// aFolder writes a run folder as the run step leaves it.
func aFolder(t *testing.T, run *record.Run, j gate.Judgement) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := record.Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Save(run), w.Close()); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(index)
	j.RunSHA256 = hex.EncodeToString(sum[:])
	writeJSON(t, filepath.Join(dir, "judgement.json"), j)
	return dir
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func aResult(t *testing.T) *Result {
	t.Helper()
	r, err := OpenResult(aFolder(t, aRun(), aJudgement()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOpenResultReadsWhatRunLeft(t *testing.T) {
	r := aResult(t)
	if r.Judgement.Verdict != gate.Fail || r.Run.Arms.Head.Commit != headCommit {
		t.Errorf("read %+v", r)
	}
	summary, err := r.Summary(aJob())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(summary, "FAIL") || strings.Contains(summary, "<!--") || !strings.Contains(summary, "/actions/runs/812") {
		t.Errorf("summary:\n%s", summary)
	}
}

func TestOpenResultRefuses(t *testing.T) {
	tests := []struct {
		name   string
		spoil  func(t *testing.T, dir string)
		wanted string
	}{
		{"no judgement", func(t *testing.T, dir string) { t.Helper(); remove(t, dir, "judgement.json") }, ErrNotJudged.Error()},
		{"no run", func(t *testing.T, dir string) { t.Helper(); remove(t, dir, "run.json") }, "run.json"},
		{"another run's judgement", func(t *testing.T, dir string) {
			t.Helper()
			j := aJudgement()
			j.RunSHA256 = strings.Repeat("0", 64)
			writeJSON(t, filepath.Join(dir, "judgement.json"), j)
		}, "another run.json"},
		{"unknown field", func(t *testing.T, dir string) {
			t.Helper()
			writeJSON(t, filepath.Join(dir, "judgement.json"), map[string]any{"verdict": "pass", "surprise": 1})
		}, "surprise"},
		{"unknown verdict", func(t *testing.T, dir string) {
			t.Helper()
			writeJSON(t, filepath.Join(dir, "judgement.json"), map[string]any{"verdict": "splendid"})
		}, "splendid"},
		{"a link out of the folder", func(t *testing.T, dir string) {
			t.Helper()
			remove(t, dir, "judgement.json")
			if err := os.Symlink("/etc/hostname", filepath.Join(dir, "judgement.json")); err != nil {
				t.Fatal(err)
			}
		}, "judgement.json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := aFolder(t, aRun(), aJudgement())
			tt.spoil(t, dir)
			if _, err := OpenResult(dir); err == nil || !strings.Contains(err.Error(), tt.wanted) {
				t.Errorf("error %v, want %q", err, tt.wanted)
			}
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}
