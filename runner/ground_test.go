package runner

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/target"
)

// sick is a session of which the second slot's server ends with an error of the target.
func sick(t *testing.T, te *target.Error) (*record.Run, []int) {
	t.Helper()
	run := &record.Run{ID: "test", Status: record.StatusPlanned}
	run.Declared.Order = []record.Arm{record.Base, record.Head, record.Head, record.Base}
	w, err := record.Create(filepath.Join(t.TempDir(), "run"), run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	s := NewSession(&Plan{Run: run, Writer: w, Clock: record.NewClock(), Rules: Rules{Void: gate.Validity, Next: func(run *record.Run) record.Next { return gate.Decide(run, gate.Policy{}) }}})
	var slots []int
	s.do = func(_ context.Context, rd record.Round) error {
		slots = append(slots, rd.Slot)
		if s.ground == nil {
			t.Error("no ground was taken before the first round")
		}
		rd.State = record.RoundComplete
		run.Rounds = append(run.Rounds, rd)
		if rd.Slot == 1 {
			return errors.Join(s.failed(te, rd.Arm, rd.Slot, 0, ""), errStop)
		}
		return nil
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return run, slots
}

// P-02 and P-03: a runner that is not clean ends the session as invalid, exit 4, and no further round is begun, whatever arm it
// struck.
func TestP02NoRoundOnADirtyRunner(t *testing.T) {
	for id, text := range map[string]string{
		record.RunnerDirty:    "SIGKILL does not end pid 4711 (gpu worker, state D); GPU-1 holds 40.0 GiB of 80.0 GiB; the runner needs a restart",
		record.MemoryNotFreed: "GPU-1 holds 12.1 GiB of 80.0 GiB",
	} {
		run, slots := sick(t, &target.Error{ID: id, Text: text})
		if !slices.Equal(slots, []int{0, 1}) {
			t.Errorf("%s: slots %v, want none after 1", id, slots)
		}
		j := gate.Evaluate(run, gate.Policy{})
		if j.Verdict != gate.Invalid || j.Reason != id || j.Exit != 4 {
			t.Errorf("%s: %s, %s, exit %d", id, j.Verdict, j.Reason, j.Exit)
		}
		if !slices.ContainsFunc(run.Incidents, func(in record.Incident) bool { return in.ID == id && in.Text == text }) {
			t.Errorf("%s is not on record: %+v", id, run.Incidents)
		}
	}
}

// A stop that was to be clean: a finding where it was not, nothing where it was cut short, and a note in any case.
func TestStopThatWasToBeClean(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	forced := record.StopReport{Forced: 2, Escaped: []string{"worker"}}
	tests := []struct {
		name     string
		clean    bool
		ctx      context.Context
		report   record.StopReport
		incident bool
		notes    []string
	}{
		{"clean", true, t.Context(), record.StopReport{Seconds: 1}, false, nil},
		{"forced", true, t.Context(), forced, true, []string{"stop_forced"}},
		{"slow", true, t.Context(), record.StopReport{Seconds: 12, Slow: true}, true, []string{"stop_slow"}},
		{"forced, not asked to be clean", false, t.Context(), forced, false, []string{"stop_forced"}},
		{"forced by a cancellation", true, cancelled, forced, false, []string{"stop_forced"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := &record.Run{ID: "test", Status: record.StatusPlanned}
			w, err := record.Create(filepath.Join(t.TempDir(), "run"), run)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.Close() })
			rw, err := w.Round(1, record.Head)
			if err != nil {
				t.Fatal(err)
			}
			s := NewSession(&Plan{Run: run, Writer: w, Clock: record.NewClock(), Arms: map[record.Arm]Target{record.Head: {CleanStop: tt.clean}}})
			r := newRound(s, record.Round{Slot: 1, Arm: record.Head, Stop: tt.report}, rw)
			err = r.parted(tt.ctx, &target.Server{})
			if errors.Is(err, errStop) != tt.incident || len(run.Incidents) != map[bool]int{true: 1}[tt.incident] {
				t.Errorf("%v, incidents %+v", err, run.Incidents)
			}
			if tt.incident && (run.Incidents[0].ID != record.StopNotClean || run.Incidents[0].Arm != record.Head || *run.Incidents[0].Slot != 1) {
				t.Errorf("incident = %+v", run.Incidents[0])
			}
			var notes []string
			for _, n := range run.Notes {
				notes = append(notes, n.ID)
			}
			if !slices.Equal(notes, tt.notes) {
				t.Errorf("notes = %+v", run.Notes)
			}
			if tt.report.Forced == 2 && run.Notes[0].Text != "2 children needed force; had left the session: worker" {
				t.Errorf("note = %q", run.Notes[0].Text)
			}
			if got := r.stopLogPath(); got != "rounds/01-head/stop.log" {
				t.Errorf("stop log at %s", got)
			}
		})
	}
	if got := (&round{log: "servers/2-base.log"}).stopLogPath(); got != "servers/2-base-stop.log" {
		t.Errorf("stop log of a server that stays up at %s", got)
	}
}

func TestPartingText(t *testing.T) {
	for want, report := range map[string]record.StopReport{
		"": {MemoryWait: record.NA("no GPU is watched")},
		"2 children needed force, waited 5.0 s for the port, 12.0 s for GPU memory": {Forced: 2, PortWait: 5, MemoryWait: record.Of(12)},
		"waited 0.0 s for the port, 0.6 s for GPU memory":                           {MemoryWait: record.Of(0.6)},
		"waited 1.0 s for the port":                                                 {PortWait: 1},
	} {
		if got := partingText(report); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := orSlow(record.StopReport{Seconds: 12.5}); !strings.Contains(got, "12.5 s") {
		t.Errorf("slow: %q", got)
	}
}
