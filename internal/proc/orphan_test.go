package proc

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// hermit leaves, by a double fork, a process in a session of its own whose title and environment say nothing of its origin.
const hermit = `(env -i PATH="$PATH" setsid bash -c 'exec -a innocent sleep 300' &); exec sleep 300`

// orphaned waits until the hermit is our own child and returns it.
func orphaned(t *testing.T) (found Process) {
	t.Helper()
	var table Table
	eventually(t, "the kernel hangs the orphan below us", func() bool {
		list, err := table.List(nil)
		i := slices.IndexFunc(list, func(p Process) bool {
			return p.PPID == os.Getpid() && table.Command(p.PID, nil) == "innocent 300"
		})
		if err != nil || i < 0 {
			return false
		}
		found = list[i]
		return true
	})
	return found
}

// Nothing was recorded of the tree, the session is another and the environment is empty: only its adoption tells whose it is.
func TestEndFindsAnAdoptedOrphan(t *testing.T) {
	g := start(t, hermit, func(c *Command) { c.Adopt, c.Alone = true, true })
	orphan := orphaned(t)
	report := g.Stop(syscall.SIGTERM, 2*time.Second)
	if len(report.Left) > 0 || !slices.Equal(report.Escaped, []string{"innocent 300"}) {
		t.Errorf("report = %+v", report)
	}
	if p, err := g.table.Read(orphan.PID); err == nil && p.ID == orphan.ID {
		t.Errorf("the orphan was not reaped: %+v", p)
	}
	if i := slices.IndexFunc(g.Seen(), func(p Process) bool { return p.ID == orphan.ID }); i < 1 || g.Seen()[0].PID != g.PID() {
		t.Errorf("seen = %v: want the child first and the orphan after it", g.Seen())
	}
}

// Git, sensors and witnesses are children of ours too: they are neither ended nor waited for by anybody else.
func TestAdoptionSparesOurOtherChildren(t *testing.T) {
	g := start(t, `exec sleep 300`, func(c *Command) { c.Adopt = true })
	git := exec.Command("/bin/bash", "-c", "sleep 0.3; exit 3")
	sensor := exec.Command("/bin/bash", "-c", "sleep 0.3; exit 4")
	sensor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, cmd := range []*exec.Cmd{git, sensor} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	witness := start(t, `sleep 0.3; exit 5`, nil)
	for _, p := range g.Living() {
		if p.PID == git.Process.Pid || p.PID == sensor.Process.Pid || p.PID == witness.PID() {
			t.Errorf("%+v counts as the server's", p)
		}
	}
	if report := g.Stop(syscall.SIGTERM, 5*time.Second); len(report.Escaped) != 0 || len(report.Left) != 0 {
		t.Errorf("report = %+v", report)
	}
	for cmd, want := range map[*exec.Cmd]int{git: 3, sensor: 4} {
		err := cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != want {
			t.Errorf("%v ended with %v, want exit code %d", cmd.Args, err, want)
		}
	}
	if got := witness.Wait(); got.Code != 5 {
		t.Errorf("the witness ended with %+v", got)
	}
}

func TestOrphansOfWhom(t *testing.T) {
	self, leader := os.Getpid(), ID{1<<22 + 1, 1000}
	orphan := row(1<<22+2, self, 1<<22+9, 1<<22+9, 1001)
	table := []Process{
		{ID: leader, PPID: self, PGID: leader.PID, SID: leader.PID, State: 'S'},
		orphan,
		row(1<<22+3, self, session(), session(), 1001),
		row(1<<22+4, 1, 1<<22+9, 1<<22+9, 1001),
	}
	c := children{own: map[ID]bool{leader: true}, adopters: 1}
	if got := c.orphans(table); len(got) != 1 || !got[orphan.PID] {
		t.Errorf("orphans = %v, want %d alone: not what we started, nor what is in our session, nor init's", got, orphan.PID)
	}
	for _, adopters := range []int{0, 2} {
		c.adopters = adopters
		if got := c.orphans(table); len(got) != 0 {
			t.Errorf("%d groups take orphans in: whose is %v?", adopters, got)
		}
	}
}

func TestWhoWasThereBeforeIsNeverOurs(t *testing.T) {
	g := start(t, `exec sleep 300`, nil)
	var table Table
	census, err := table.Census()
	if err != nil || !census.Has(g.leader) || census.Has(ID{g.PID(), g.leader.Start + 1}) {
		t.Fatalf("census %v, %v", census.Has(g.leader), err)
	}
	tr := newTree(ID{100, 1000}, 50)
	old := row(101, 100, 100, 100, 1000)
	tr.before = Census{map[ID]bool{old.ID: true}}
	if got := tr.observe([]Process{row(100, 50, 100, 100, 1000), old}, func(Process) bool { return true }); len(got) != 1 {
		t.Errorf("ours: %v; want the leader alone, although the other is in its group, below it and marked", got)
	}
	late := &Group{before: census}
	if err := late.signal(g.leader, syscall.SIGKILL); !errors.Is(err, errForbidden) {
		t.Errorf("signal to one that was there: %v", err)
	}
	if len(g.Living()) != 1 {
		t.Error("it was signalled")
	}
}

func TestHistoryIsBounded(t *testing.T) {
	var h history
	lasting := row(7, 1, 7, 7, 1)
	for i := range uint64(seenLimit + 10) {
		h.add([]Process{lasting, row(8, 7, 7, 7, 10+i)})
	}
	if len(h.order) != seenLimit || len(h.known) != seenLimit || h.order[0] != lasting || h.order[1].Start != 10+11 {
		t.Errorf("%d kept, %d known, first %v: want the living kept and the oldest forgotten", len(h.order), len(h.known), h.order[:2])
	}
}
