package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// at is a row of a made-up table.
func at(pid int, start uint64, ppid, pgid, sid int) Process {
	return Process{ID: ID{pid, start}, PPID: ppid, PGID: pgid, SID: sid, State: 'S'}
}

func TestLeftovers(t *testing.T) {
	const self, group = 900, 890
	zombie := at(101, 50, 1, 100, 100)
	zombie.State = 'Z'
	world := []Process{at(1, 1, 0, 1, 1), at(880, 10, 1, 880, 880), at(890, 20, 880, 890, 880), at(900, 21, 890, 890, 880), at(901, 22, 900, 890, 880)}
	leader := at(100, 50, 1, 100, 100)
	tests := []struct {
		name     string
		table    []Process
		recorded []Process
		mark     int
		want     []int
	}{
		{"recorded", []Process{leader}, []Process{leader}, 0, []int{100}},
		{"pid used again", []Process{at(100, 99, 1, 100, 100)}, []Process{leader}, 0, nil},
		{"group of a pid used again", []Process{at(100, 99, 1, 100, 100), at(101, 100, 100, 100, 100)}, []Process{leader}, 0, nil},
		{"descends now", []Process{leader, at(120, 60, 100, 120, 120), at(130, 61, 120, 130, 130)}, []Process{leader}, 0, []int{100, 120, 130}},
		{"in the group of one that lives", []Process{at(102, 55, 1, 100, 100), at(103, 56, 1, 100, 100)}, []Process{leader, at(102, 55, 100, 100, 100)}, 0, []int{102, 103}},
		{"in the session of one that lives", []Process{at(102, 55, 1, 102, 100), at(103, 56, 1, 103, 100)}, []Process{at(102, 55, 100, 102, 100)}, 0, []int{102, 103}},
		{"has left its group since", []Process{at(102, 55, 1, 200, 200), at(103, 56, 1, 200, 200)}, []Process{at(102, 55, 100, 100, 100)}, 0, []int{102}},
		{"carries the folder", []Process{at(300, 70, 1, 300, 300), at(301, 71, 300, 301, 301)}, nil, 300, []int{300, 301}},
		{"zombie", []Process{zombie}, []Process{zombie}, 0, nil},
		{"nothing recorded", []Process{leader}, nil, 0, nil},
		{"init in the file", nil, []Process{at(1, 1, 0, 1, 1)}, 0, nil},
		{"ourselves in the file", nil, []Process{at(900, 21, 890, 890, 880)}, 0, nil},
		{"our group in the file", nil, []Process{at(901, 22, 900, 890, 880)}, 0, nil},
		{"our ancestor in the file", nil, []Process{at(880, 10, 1, 880, 880)}, 0, nil},
		{"folder in our own environment", nil, nil, 900, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := append(slices.Clone(world), tt.table...)
			found := leftovers(table, tt.recorded, untouchable(table, self, group), func(p Process) bool { return p.PID == tt.mark })
			var got []int
			for _, p := range found {
				got = append(got, p.PID)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %v, want %v", got, tt.want)
			}
		})
	}
}

// A table that shows a parent's end half way must not send the walk to our ancestors in circles.
func TestUntouchableEnds(t *testing.T) {
	never := untouchable([]Process{at(900, 21, 890, 900, 900), at(890, 20, 900, 890, 890)}, 900, 900)
	if !never[900] || !never[890] || !never[1] {
		t.Errorf("%v", never)
	}
}

// What a dead owner recorded is ended with all that hangs on it: two children that ignore SIGTERM, and one that left the
// session and is known by its TMPDIR alone. A stranger with the same command is not touched.
func TestEndLeftovers(t *testing.T) {
	tmp := filepath.Join(t.TempDir(), "private")
	stranger := start(t, "exec sleep 4711", nil)
	g := start(t, `trap '' TERM; sleep 4711 & (exec setsid sleep 4711) & sleep 4711; wait`, func(c *Command) {
		c.Env = testEnv("TMPDIR=" + tmp)
		c.Private = tmp
	})
	waitSleepers(t, g, 3)
	recorded, err := Table{}.Read(g.PID())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	report, err := Table{}.EndLeftovers(t.Context(), Remains{Recorded: []Process{recorded}, Private: tmp}, Ladder{Grace: 300 * time.Millisecond})
	if err != nil || len(report.Left) > 0 || report.Forced < 3 || !slices.Equal(report.Signals, []string{"SIGTERM", "SIGKILL"}) {
		t.Errorf("%+v, %v", report, err)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("forced after %v, before the grace was over", took)
	}
	if left := g.Living(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if !(Table{}).Alive(stranger.leader) {
		t.Error("a process of nobody's was ended")
	}
	again, err := Table{}.EndLeftovers(t.Context(), Remains{Recorded: []Process{recorded}, Private: tmp}, Ladder{})
	if err != nil || len(again.Signals) > 0 || len(again.Left) > 0 {
		t.Errorf("once more: %+v, %v", again, err)
	}
}

// The same pid with another start time is another process.
func TestEndLeftoversSparesAReusedPid(t *testing.T) {
	g := start(t, "exec sleep 4711", nil)
	waitSleepers(t, g, 1)
	stale := at(g.PID(), g.leader.Start-1, 1, g.PID(), g.PID())
	report, err := Table{}.EndLeftovers(t.Context(), Remains{Recorded: []Process{stale}}, Ladder{Grace: -1})
	if err != nil || len(report.Signals) > 0 || len(g.Living()) != 1 {
		t.Errorf("%+v, %v, living %v", report, err, g.Living())
	}
	if err := (Table{}).Signal(stale.ID, unix.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signalled: %v", err)
	}
}

// A cancelled sweep does not wait for the grace.
func TestEndLeftoversCancelled(t *testing.T) {
	g := start(t, `trap '' TERM; sleep 4711; wait`, nil)
	waitSleepers(t, g, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	report, err := Table{}.EndLeftovers(ctx, Remains{Recorded: g.Living()}, Ladder{Grace: time.Minute, CancelGrace: 10 * time.Millisecond})
	if err != nil || len(report.Left) > 0 || time.Since(began) > 20*time.Second {
		t.Errorf("%+v, %v after %v", report, err, time.Since(began))
	}
}

// What cannot be killed is listed with its command, and a table that cannot be read says nothing.
func TestEndLeftoversThatStay(t *testing.T) {
	child := exec.Command("sleep", "4711")
	child.Env, child.SysProcAttr = testEnv(), &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	root := t.TempDir()
	dir := filepath.Join(root, "4194303") // a pid that no process has: the signal meets nobody, the row stays
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stat := "4194303 (stuck) D 1 4194303 4194303" + " 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 77 0\n"
	for name, text := range map[string]string{"stat": stat, "cmdline": "stuck\x00--token=x\x00"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fake := Table{Root: root}
	report, err := fake.EndLeftovers(t.Context(), Remains{Recorded: []Process{at(4194303, 77, 1, 4194303, 4194303)}}, Ladder{Grace: -1, Persist: 10 * time.Millisecond})
	if err != nil || len(report.Left) != 1 || report.Left[0].Command != "stuck --token=x" || report.Left[0].State != 'D' {
		t.Errorf("%+v, %v", report, err)
	}
	_, err = Table{Root: filepath.Join(root, strconv.Itoa(1))}.EndLeftovers(t.Context(), Remains{}, Ladder{})
	if err == nil {
		t.Error("an unreadable table passes for nothing left")
	}
}
