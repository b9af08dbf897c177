package trials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/internal/simserver"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// stand is a program in tailgate's place: it leaves a recorded run and a judgement in --out and exits as told.
func stand(t *testing.T, v gate.Verdict, exit int) string {
	t.Helper()
	dir := t.TempDir()
	run, err := filepath.Abs("../../runner/record/testdata/small")
	if err != nil {
		t.Fatal(err)
	}
	judgement, err := json.Marshal(gate.Judgement{
		Verdict: v, Reason: "metric_worse", Pairs: 4,
		Metrics:  []gate.Comparison{{Key: "ttft_p50", Verdict: v, D: record.Of(0.123456789), PairD: []float64{0.1, 0.2}}},
		Findings: []gate.Finding{{ID: "metric_worse", Severity: gate.Deciding, Metric: "ttft_p50"}, {ID: "chatter", Severity: gate.Info}},
		Validity: []record.Void{{Slot: 0, Rule: "pacer_lag"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "judgement.json"), judgement, 0o600); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nset -e\nfor out; do :; done\ncp -r '%s' \"$out\"\ncp '%s/judgement.json' \"$out\"\nexit %d\n", run, dir, exit)
	path := filepath.Join(dir, "tailgate")
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func session(t *testing.T, binary string) Session {
	t.Helper()
	for _, tool := range []string{"git", "sh", "cp"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("a session is made of real commits and builds: %v", err)
		}
	}
	return Session{Binary: binary, Tool: "0123456789ab", Path: os.Getenv("PATH"), Home: t.TempDir(), Scratch: t.TempDir(), Jobs: 1}
}

// Every verdict is a result, a wrong one's folder is kept, and nothing else of a session is left behind.
func TestSession(t *testing.T) {
	sc, _ := Find("identical")
	for verdict, exit := range map[gate.Verdict]int{gate.Pass: 0, gate.Fail: 1, gate.Inconclusive: 3, gate.Invalid: 4} {
		s := session(t, stand(t, verdict, exit))
		to := filepath.Join(t.TempDir(), "kept", "one")
		s.Keep = func(r Result) string {
			if sc.Judge(r.Verdict) == Wrong {
				return to
			}
			return ""
		}
		r, err := s.Run(t.Context(), sc)
		if err != nil {
			t.Errorf("%s: %v", verdict, err)
			continue
		}
		if r.Verdict != verdict || r.Pairs != 4 || r.Void != 1 || len(r.Causes) != 1 || r.Causes[0] != "metric_worse ttft_p50" || len(r.Rounds) == 0 {
			t.Errorf("%s: the result is %+v", verdict, r)
		}
		if x, _ := r.Metrics[0].D.Finite(); x != 0.123457 {
			t.Errorf("%s: d is %g, want six figures of it", verdict, x)
		}
		if _, err := os.Stat(filepath.Join(to, "run.json")); (err == nil) != (verdict == gate.Fail) {
			t.Errorf("%s: the run folder is kept: %v", verdict, err == nil)
		}
		if left, _ := os.ReadDir(s.Scratch); len(left) != 0 {
			t.Errorf("%s: %d things left in the scratch folder", verdict, len(left))
		}
	}
}

// What is no verdict is no result, and says why.
func TestSessionWithoutVerdict(t *testing.T) {
	sc, _ := Find("identical")
	s := session(t, stand(t, gate.Pass, 2))
	if _, err := s.Run(t.Context(), sc); err == nil || !strings.Contains(err.Error(), "exited with 2") {
		t.Errorf("a usage error gives %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := session(t, stand(t, gate.Pass, 0)).Run(ctx, sc); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled session gives %v", err)
	}
}

// What a session is started with is what the command and the server take.
func TestFixtures(t *testing.T) {
	names := map[string]bool{}
	for _, sc := range Scenarios() {
		if names[sc.Name] {
			t.Errorf("%s is there twice", sc.Name)
		}
		names[sc.Name] = true
		f, err := config.Parse(".tailgate.yaml", []byte(sc.policy("/bin/tailgate", "/tmp/state")))
		if err == nil {
			err = f.Runnable()
		}
		if err != nil {
			t.Errorf("%s: %v", sc.Name, err)
		}
		var arms [2]string
		for i, arm := range []record.Arm{record.Base, record.Head} {
			text, err := sc.Config(arm)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := simserver.ParseConfig(text); err != nil {
				t.Errorf("%s, %s: %v", sc.Name, arm, err)
			}
			arms[i] = string(text)
		}
		if arms[0] == arms[1] {
			t.Errorf("%s: both arms have the same file, which is one artefact under two commits", sc.Name)
		}
		if len(sc.Right) == 0 || len(sc.Wrong) == 0 || sc.Least < 20 {
			t.Errorf("%s: right %v, wrong %v, %d sessions", sc.Name, sc.Right, sc.Wrong, sc.Least)
		}
	}
}

// A collection goes from the comparison of round noise to its sessions, counts what the comparison measured, and takes up where it
// stopped. Of the stand's two rounds one is void, so that the sessions of the comparison that ran at once count as more than the machine
// carried, and others are run for them.
func TestCollect(t *testing.T) {
	s := session(t, stand(t, gate.Pass, 0))
	same, _ := Find("identical")
	other, _ := Find("itl-half")
	var log strings.Builder
	p := Plan{
		Binary: s.Binary, Tool: s.Tool, Path: s.Path, Home: s.Home, Scratch: s.Scratch, Results: filepath.Join(t.TempDir(), "results.jsonl"),
		Scenarios: []Scenario{same, other}, Want: 5, Jobs: 2, Log: &log,
	}
	jobs, err := p.Parallel(t.Context())
	if err != nil || jobs != 1 {
		t.Fatalf("%d jobs, %v; rounds without noise to compare are no reason for two", jobs, err)
	}
	p.Jobs = jobs
	for range 2 {
		if err := p.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		results, _, err := Read(p.Results)
		n := map[string]int{}
		for _, r := range results {
			n[r.Scenario]++
		}
		if err != nil || n["identical"] != 5+probeEach || n["itl-half"] != 5 {
			t.Fatalf("%v sessions, %v; want 5 of each that ran alone, and %d that did not\n%s", n, err, probeEach, log.String())
		}
	}
}
