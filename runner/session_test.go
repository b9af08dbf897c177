package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	// deadline is when the session must be over; 0 for never. slow is how long each slot takes, by slot.
	deadline time.Duration
	slow     map[int]time.Duration
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
	s := NewSession(&Plan{Run: run, Writer: w, Clock: record.NewClock(), Rules: Rules{Void: sc.voids, Next: sc.next}, Deadline: record.Instant(sc.deadline)})
	s.do = func(_ context.Context, rd record.Round) error {
		time.Sleep(sc.slow[rd.Slot])
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

// A session begins no pair that would not be over by its deadline, and keeps what it has: the judge judges the looks it
// reached.
func TestDeadline(t *testing.T) {
	// A pair takes 20 s unless said otherwise; the next one is allowed 24.
	each := func(slots map[int]time.Duration) map[int]time.Duration {
		all := map[int]time.Duration{}
		for i := range 16 {
			all[i] = 10 * time.Second
		}
		maps.Copy(all, slots)
		return all
	}
	tests := []struct {
		name string
		scripted
		rounds int
		status record.Status
	}{
		{"no deadline", scripted{slow: each(nil)}, 8, record.StatusComplete},
		{"time for all", scripted{slow: each(nil), deadline: 85 * time.Second}, 8, record.StatusComplete},
		{"a second too few", scripted{slow: each(nil), deadline: 83 * time.Second}, 6, record.StatusDeadline},
		{"the longest pair counts", scripted{slow: each(map[int]time.Duration{1: 20 * time.Second}), deadline: 85 * time.Second}, 4, record.StatusDeadline},
		{"nothing is known before the first pair", scripted{slow: each(nil), deadline: time.Second}, 2, record.StatusDeadline},
		{"a re-run takes its time too", scripted{slow: each(nil), deadline: 85 * time.Second, void: map[int]bool{1: true}, maxVoid: 2}, 8, record.StatusDeadline},
		{"the judge was first", scripted{slow: each(nil), deadline: 60 * time.Second, stopAfter: 4}, 4, record.StatusComplete},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.order = "ABBABAAB"
				rounds, run := tt.play(t)
				if len(rounds) != tt.rounds || run.Status != tt.status || !run.Finished.Reached() {
					t.Errorf("%d rounds, status %s, finished %d; want %d, %s", len(rounds), run.Status, run.Finished, tt.rounds, tt.status)
				}
				if tt.deadline > 20*time.Second && tt.status == record.StatusDeadline && time.Duration(run.Finished) > tt.deadline {
					t.Errorf("over at %s, the deadline was %s", time.Duration(run.Finished), tt.deadline)
				}
				if len(run.Rounds) != len(rounds) {
					t.Errorf("%d of %d rounds are kept", len(run.Rounds), len(rounds))
				}
			})
		})
	}
}

// How many warm-up windows count as one is chosen by the session's first warm-up and holds for both arms in every round. One
// that was cut short before it could choose leaves the choice to the next.
func TestFirstWarmupChoosesForAll(t *testing.T) {
	report := func(joined int, end string, unattainable bool) record.SteadyReport {
		return record.SteadyReport{Joined: joined, End: end, Unattainable: unattainable, Noise: record.Of(0.061)}
	}
	tests := map[string]struct {
		reports []record.SteadyReport
		want    int
		note    string
	}{
		"the plain rule stays": {[]record.SteadyReport{report(1, "confirmed", false), report(3, "confirmed", false)}, 1, ""},
		"joined ones stay":     {[]record.SteadyReport{report(3, "confirmed", false), report(2, "confirmed", false)}, 3, "windows_joined"},
		"cut before it chose":  {[]record.SteadyReport{report(1, "cut", false), report(2, "cap", false)}, 2, "windows_joined"},
		"cut after it chose":   {[]record.SteadyReport{report(4, "cut", false), report(2, "cap", false)}, 4, "windows_joined"},
		"unattainable":         {[]record.SteadyReport{report(1, "cap", true)}, 1, "unattainable"},
		"not chosen yet":       {[]record.SteadyReport{report(1, "cut", false)}, 0, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewSession(&Plan{Run: &record.Run{}})
			s.run.Declared.Warmup.Band = 0.05
			for slot, r := range tt.reports {
				s.join(slot, r)
			}
			if s.joined != tt.want {
				t.Errorf("%d windows are joined, want %d", s.joined, tt.want)
			}
			said := ""
			for _, n := range s.run.Notes {
				said += n.ID
				if !strings.Contains(n.Text, "6.1 %") {
					t.Errorf("the note does not say how noisy: %s", n.Text)
				}
			}
			if said != tt.note {
				t.Errorf("notes %q, want %q", said, tt.note)
			}
		})
	}
}
