package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Remains is what is known of a child whose owner died before it could end it.
type Remains struct {
	// Recorded holds the processes that were seen, with the group and session they were in then.
	Recorded []Process
	// Private is the TMPDIR that only this child was given; empty when it had none.
	Private string
	// Mask hides secrets in the commands of a report; nil hides nothing.
	Mask *Mask
}

// Leftovers returns the living processes of a child that its owner left behind, by rising pid. A process is one of them if
// its pid and start time are recorded, if it descends from such a one now, if it is in the group or session of a recorded
// process that still is in it, or if its environment holds the private folder. Init, this process, its ancestors and its
// own group never are.
func (t Table) Leftovers(r Remains) ([]Process, error) {
	for range emptyLooks {
		list, err := t.List(nil)
		if err != nil {
			return nil, err
		}
		var marked func(Process) bool
		if r.Private != "" {
			marked = func(p Process) bool { return t.hasVariable(p.PID, "TMPDIR="+r.Private) }
		}
		if found := leftovers(list, r.Recorded, untouchable(list, os.Getpid(), unix.Getpgrp()), marked); len(found) > 0 {
			return found, nil
		}
	}
	return nil, nil
}

// untouchable are the pids that no sweep may end: init, the process itself, those it descends from, and its group.
func untouchable(table []Process, self, group int) map[int]bool {
	never := map[int]bool{0: true, 1: true}
	parent := make(map[int]int, len(table))
	for _, p := range table {
		parent[p.PID] = p.PPID
		if p.PGID == group || p.PID <= 1 {
			never[p.PID] = true
		}
	}
	// A table that was read while it changed may hold a circle.
	for pid, walked := self, map[int]bool{}; pid > 1 && !walked[pid]; pid = parent[pid] {
		never[pid], walked[pid] = true, true
	}
	return never
}

// leftovers picks from a process table. marked, which may be nil, says whether a process carries the private folder.
func leftovers(table, recorded []Process, never map[int]bool, marked func(Process) bool) []Process {
	known := make(map[ID]Process, len(recorded))
	for _, p := range recorded {
		known[p.ID] = p
	}
	ours, groups, sessions := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for _, p := range table {
		if never[p.PID] {
			continue
		}
		if then, ok := known[p.ID]; ok {
			ours[p.PID] = true
			// A number that a recorded process still has was never given to another group meanwhile.
			groups[p.PGID] = groups[p.PGID] || p.PGID == then.PGID
			sessions[p.SID] = sessions[p.SID] || p.SID == then.SID
		}
		if marked != nil && marked(p) {
			ours[p.PID] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range table {
			if !ours[p.PID] && !never[p.PID] && (ours[p.PPID] || groups[p.PGID] || sessions[p.SID]) {
				ours[p.PID], grown = true, true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(table), func(p Process) bool { return !ours[p.PID] || p.Dead() })
}

// EndLeftovers ends what [Table.Leftovers] finds, by the same ladder as [Group.End] but without a direct child that is asked
// first: everything is asked at once, and gets SIGKILL at the grace. What still lives at the ladder's top is in the report.
// An error means that the process table could not be read: nothing is known then.
func (t Table) EndLeftovers(ctx context.Context, r Remains, l Ladder) (Report, error) {
	e := ending{table: t, remains: r, ladder: l.withDefaults(), began: time.Now(), asked: map[ID]bool{}, forced: map[ID]bool{}}
	e.remains.Recorded = slices.Clone(r.Recorded)
	err := e.run(ctx)
	e.report.Took, e.report.Forced = time.Since(e.began), len(e.forced)
	return e.report, err
}

// ending is one descent of the ladder for leftovers.
type ending struct {
	table         Table
	remains       Remains
	ladder        Ladder
	began         time.Time
	asked, forced map[ID]bool
	report        Report
}

func (e *ending) run(ctx context.Context) error {
	tick := time.NewTicker(stepEvery)
	defer tick.Stop()
	cancelled := ctx.Done()
	for {
		if ctx.Err() != nil && cancelled != nil {
			cancelled = nil
			e.ladder.Grace = min(e.ladder.Grace, time.Since(e.began)+e.ladder.CancelGrace)
			e.ladder.Persist = min(e.ladder.Persist, cancelPersist)
		}
		living, err := e.table.Leftovers(e.remains)
		if err != nil || len(living) == 0 {
			return err
		}
		// A child that its parent's end hands to init stays known.
		e.remains.Recorded = append(e.remains.Recorded, living...)
		if e.step(living) {
			return nil
		}
		select {
		case <-cancelled:
		case <-tick.C:
		}
	}
}

// step signals what is due and reports whether the ladder's top is reached.
func (e *ending) step(living []Process) bool {
	elapsed := time.Since(e.began)
	if elapsed >= e.ladder.Grace+e.ladder.Persist {
		for _, p := range living {
			e.report.Left = append(e.report.Left, Survivor{Process: p, Command: e.table.Command(p.PID, e.remains.Mask)})
		}
		return true
	}
	for _, p := range living {
		sig := e.ladder.Signal
		switch {
		case elapsed >= e.ladder.Grace:
			sig, e.forced[p.ID] = unix.SIGKILL, true
		case e.asked[p.ID]:
			continue
		}
		e.asked[p.ID] = true
		if e.table.signal(p.ID, sig) == nil {
			if name := unix.SignalName(sig); !slices.Contains(e.report.Signals, name) {
				e.report.Signals = append(e.report.Signals, name)
			}
		}
	}
	return false
}

// Alive reports whether exactly this process lives. A zombie does not.
func (t Table) Alive(id ID) bool {
	p, err := t.Read(id.PID)
	return err == nil && p.Start == id.Start && !p.Dead()
}

// Signal sends a signal to exactly the process that id names. It returns os.ErrProcessDone when that is gone, whoever has
// its pid now, and refuses init and this process.
func (t Table) Signal(id ID, sig syscall.Signal) error {
	err := t.signal(id, sig)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("pid %d: %w", id.PID, err)
	}
	return err
}
