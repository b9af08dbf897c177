package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// scripted is a session whose rounds come from a script: slots listed in void do not count, those in partial are cut short.
type scripted struct {
	void, partial map[int]bool
	// stopAfter is the number of complete rounds at which the judge says stop; 0 for never.
	stopAfter int
	order     string
	maxVoid   int
}

// play runs the session and returns its rounds as "slot arm pair [rerun of]".
func (sc scripted) play(t *testing.T) (rounds []string, run *record.Run) {
	t.Helper()
	run = &record.Run{ID: "test", Status: record.StatusPlanned}
	run.Declared.MaxVoid = sc.maxVoid
	for _, c := range sc.order {
		run.Declared.Order = append(run.Declared.Order, map[rune]record.Arm{'A': record.Base, 'B': record.Head}[c])
	}
	w, err := record.Create(filepath.Join(t.TempDir(), "run"), run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	s := NewSession(&Plan{Run: run, Writer: w, Clock: record.NewClock(), Rules: Rules{Void: sc.voids, Next: sc.next}})
	s.do = func(_ context.Context, rd record.Round) error {
		text := fmt.Sprintf("%d %s %d", rd.Slot, rd.Arm, rd.Pair)
		if rd.RerunOf != nil {
			text += fmt.Sprintf(" for %d", *rd.RerunOf)
		}
		rounds = append(rounds, text)
		rd.State = record.RoundComplete
		if sc.partial[rd.Slot] {
			rd.State = record.RoundPartial
		}
		run.Rounds = append(run.Rounds, rd)
		return nil
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return rounds, run
}

func (sc scripted) voids(run *record.Run) []record.Void {
	var out []record.Void
	for _, rd := range run.Rounds {
		if sc.void[rd.Slot] {
			out = append(out, record.Void{Slot: rd.Slot, Rule: "hw_slowdown", Evidence: "3 of 13 ticks"})
		}
	}
	return out
}

func (sc scripted) next(run *record.Run) record.Next {
	return record.Next{Stop: sc.stopAfter > 0 && len(run.Rounds) >= sc.stopAfter, Reason: "enough"}
}

func TestOrderOfRounds(t *testing.T) {
	slots := func(ks ...int) map[int]bool {
		m := map[int]bool{}
		for _, k := range ks {
			m[k] = true
		}
		return m
	}
	tests := []struct {
		name string
		scripted
		want string
	}{
		{"as declared", scripted{order: "ABBA"}, "0 base 0, 1 head 0, 2 head 1, 3 base 1"},
		{"the judge stops", scripted{order: "ABBABAAB", stopAfter: 4}, "0 base 0, 1 head 0, 2 head 1, 3 base 1"},
		{
			"first of a pair void: the second is not run",
			scripted{order: "ABBA", void: slots(2), maxVoid: 2},
			"0 base 0, 1 head 0, 2 head 1, 3 head 2 for 2, 4 base 2",
		},
		{
			"second of a pair void: both run again, same order",
			scripted{order: "ABBA", void: slots(3), maxVoid: 2},
			"0 base 0, 1 head 0, 2 head 1, 3 base 1, 4 head 2 for 2, 5 base 2 for 3",
		},
		{
			"a round cut short counts like a void one",
			scripted{order: "AB", partial: slots(1), maxVoid: 1},
			"0 base 0, 1 head 0, 2 base 1 for 0, 3 head 1 for 1",
		},
		{
			"the budget ends the session",
			scripted{order: "ABBA", void: slots(0, 1, 2), maxVoid: 2},
			"0 base 0, 1 base 1 for 0, 2 base 2 for 1",
		},
		{"no budget", scripted{order: "ABBA", void: slots(1)}, "0 base 0, 1 head 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rounds, run := tt.play(t)
			if diff := cmp.Diff(tt.want, strings.Join(rounds, ", ")); diff != "" {
				t.Errorf("rounds (-want +got):\n%s", diff)
			}
			if run.Status != record.StatusComplete || !run.Finished.Reached() {
				t.Errorf("status %q, finished %d; want a complete run", run.Status, run.Finished)
			}
		})
	}
}

// What ends a session stands in its record: cancelled, broken by a full disk, broken by us.
func TestSessionEnds(t *testing.T) {
	tests := []struct {
		name     string
		fault    error
		status   record.Status
		incident string
	}{
		{"cancelled", context.Canceled, record.StatusCancelled, ""},
		{"disk full", fmt.Errorf("samples.jsonl: %w", record.ErrDiskFull), record.StatusBroken, record.DiskFull},
		{"a bug", errors.New("index out of range"), record.StatusBroken, record.InternalFault},
		{"stopped by an incident", errStop, record.StatusComplete, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := &record.Run{Schema: record.Schema, ID: "test", Kind: record.KindRevisions, Declared: record.Declared{Order: []record.Arm{record.Base, record.Head}}}
			w, err := record.Create(filepath.Join(t.TempDir(), "run"), run)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			ctx, cancel := context.WithCancel(t.Context())
			s := NewSession(&Plan{Run: run, Writer: w, Clock: record.NewClock()})
			s.do = func(context.Context, record.Round) error {
				if errors.Is(tt.fault, context.Canceled) {
					cancel()
				}
				return tt.fault
			}
			err = s.Run(ctx)
			if broken := tt.status == record.StatusBroken; (err != nil) != broken {
				t.Errorf("error %v with status %q", err, tt.status)
			}
			cancel()
			f, err := record.Open(w.Dir())
			if err != nil {
				t.Fatal(err)
			}
			got := f.Run()
			if got.Status != tt.status {
				t.Errorf("status on disk %q, want %q", got.Status, tt.status)
			}
			var incident string
			for _, in := range got.Incidents {
				incident = in.ID
			}
			if incident != tt.incident {
				t.Errorf("incident %q, want %q", incident, tt.incident)
			}
		})
	}
}
