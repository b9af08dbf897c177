package proc

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// imagined is a group that exists in a made-up process table only. Pids beyond the kernel's limit stand for its processes: no
// signal reaches anybody. Its direct child has ended.
func imagined(list func() []Process) *Group {
	leader := ID{1<<22 + 1, 1000}
	g := &Group{leader: leader, tree: newTree(leader, 50), exited: make(chan struct{}), older: map[int]bool{}}
	g.list = func(func(int) bool) ([]Process, error) { return list(), nil }
	close(g.exited)
	return g
}

// member is a process of an imagined group.
func member(n int, state byte, comm string) Process {
	return Process{ID: ID{1<<22 + n, 1000 + uint64(n)}, PPID: 1, PGID: 1<<22 + 1, SID: 1<<22 + 1, State: state, Comm: comm}
}

// P-02: a process in state D stays for ever. The wait for it is bounded: 60 s after SIGKILL it is named.
func TestEndGivesUpOnWhatDoesNotDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := member(2, 'D', "gpu worker")
		g := imagined(func() []Process { return []Process{stuck} })
		report := g.End(t.Context(), Ladder{Grace: 20 * time.Second})
		if report.Took < 80*time.Second || report.Took > 81*time.Second {
			t.Errorf("took %v; want a grace of 20 s and 60 s more", report.Took)
		}
		if len(report.Left) != 1 || report.Left[0].Process != stuck || report.Left[0].Command != "[gpu worker]" || report.Leader {
			t.Errorf("report = %+v", report)
		}
	})
}

// A stop command stands in for the first signal and is called once more before force; its time is no part of the 60 s.
func TestEndAsksByCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var calls []time.Duration
		gone := false
		g := imagined(func() []Process {
			if gone {
				return nil
			}
			return []Process{member(2, 'S', "client")}
		})
		note := func() { calls = append(calls, time.Since(began).Round(100*time.Millisecond)) }
		report := g.End(t.Context(), Ladder{Grace: 4 * time.Second, Ask: note, Last: func(context.Context) {
			note()
			time.Sleep(3 * time.Second)
			gone = true
		}})
		if !slices.Equal(calls, []time.Duration{0, 4 * time.Second}) || report.Forced != 0 || len(report.Left) != 0 {
			t.Errorf("called at %v, report %+v", calls, report)
		}
		if report.Took < 7*time.Second || report.Took > 7500*time.Millisecond {
			t.Errorf("took %v", report.Took)
		}
	})
}

// A cancelled stop has no time for a last call.
func TestEndCancelledMakesNoLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		g := imagined(func() []Process { return []Process{member(2, 'D', "stuck")} })
		report := g.End(ctx, Ladder{Grace: time.Minute, Last: func(context.Context) { t.Error("called") }})
		if len(report.Left) != 1 || report.Took > 6*time.Second {
			t.Errorf("report = %+v", report)
		}
	})
}
