package proc

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// stubborn is a script whose parent ends on SIGTERM while its two children ignore it.
const stubborn = `
trap "exit 0" TERM
(trap "" TERM; exec sleep 300) &
(trap "" TERM; exec sleep 300) &
wait`

// trapped starts a script with a log and waits until it has said that its trap is set.
func trapped(t *testing.T, script string) (g *Group, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	g = start(t, script, func(c *Command) { c.Log = log })
	eventually(t, "the trap is set", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.HasPrefix(string(text), "set\n")
	})
	return g, log
}

func TestStartGivesTheChildNothingOfOurs(t *testing.T) {
	t.Setenv("GITHUB_TOKEN", "ghs_canary")
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, `env; ls -l /proc/self/fd/0; ps -o sid= -p $$ | tr -d ' '; echo $$; echo to stderr >&2; exit 3`, func(c *Command) {
		c.Log = log
		c.Env = testEnv("A=1")
	})
	if got := g.Wait(); got != (Exit{3, "exit status 3"}) {
		t.Errorf("exit = %+v", got)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n", "A=1\n", "/dev/null\n", "to stderr\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("log lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "canary") {
		t.Errorf("the child saw our token:\n%s", text)
	}
	lines := strings.Fields(string(text))
	if n := len(lines); lines[n-4] != lines[n-3] {
		t.Errorf("the child does not lead its session: sid %s, pid %s", lines[n-4], lines[n-3])
	}
}

func TestStartErrors(t *testing.T) {
	if _, err := Start(t.Context(), Command{Path: "/no/such/program"}); err == nil {
		t.Error("a missing program started")
	}
	if _, err := Start(t.Context(), Command{Path: "/bin/true", Log: "/no/such/folder/log"}); err == nil {
		t.Error("a log that cannot be opened")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Command{Path: "/bin/true"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled start: %v", err)
	}
}

func TestExitTexts(t *testing.T) {
	for script, want := range map[string]Exit{
		"exit 0":     {0, "exit status 0"},
		"kill -9 $$": {137, "signal: killed"},
	} {
		if got := start(t, script, nil).Wait(); got != want {
			t.Errorf("%s: %+v, want %+v", script, got, want)
		}
	}
}

func TestStdoutThroughAWriter(t *testing.T) {
	var out bytes.Buffer
	// A descendant keeps the pipe open; the end must be noticed all the same.
	g := start(t, `echo one; sleep 300 & echo two`, func(c *Command) { c.Stdout = &out })
	began := time.Now()
	g.Wait()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("waited %v for the pipe", took)
	}
	g.Stop(syscall.SIGTERM, time.Second)
	if got := out.String(); got != "one\ntwo\n" {
		t.Errorf("output = %q", got)
	}
}

func TestEndForcesChildrenThatIgnoreTheSignal(t *testing.T) {
	foreign := start(t, `trap "" TERM; exec sleep 300`, nil) // the same command, but not of this group
	waitSleepers(t, foreign, 1)
	g := start(t, stubborn, nil)
	waitSleepers(t, g, 2)
	const grace = 600 * time.Millisecond
	report := g.Stop(syscall.SIGTERM, grace)
	if report.Forced != 2 || len(report.Left) != 0 {
		t.Errorf("report = %+v; want 2 forced, none left", report)
	}
	if diff := cmp.Diff([]string{"SIGTERM", "SIGKILL"}, report.Signals); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
	if report.Took < grace || report.Took > grace+2*time.Second {
		t.Errorf("took %v with a grace of %v", report.Took, grace)
	}
	if got := g.Wait(); got.Code != 0 {
		t.Errorf("the parent ended with %+v, want its own exit 0", got)
	}
	if len(foreign.Living()) != 1 {
		t.Error("a process of the same command was ended too")
	}
}

func TestEndIsPoliteFirst(t *testing.T) {
	g, _ := trapped(t, `trap "exit 7" TERM; echo set; while :; do sleep 0.02; done`)
	report := g.Stop(syscall.SIGTERM, 5*time.Second)
	if report.Forced != 0 || g.Wait().Code != 7 || report.Took > 3*time.Second {
		t.Errorf("report = %+v, exit %+v", report, g.Wait())
	}
	if again := g.Stop(syscall.SIGTERM, 5*time.Second); again.Signals != nil || again.Took > time.Second {
		t.Errorf("a second stop did something: %+v", again)
	}
}

func TestEndAsksEachProcessOnce(t *testing.T) {
	// Many servers take a second SIGTERM for "at once": it must not come while the first still works.
	g, log := trapped(t, `trap 'echo asked' TERM; echo set; i=0; while [ $i -lt 40 ]; do sleep 0.02; i=$((i+1)); done`)
	g.Stop(syscall.SIGTERM, 600*time.Millisecond)
	if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "asked") != 1 {
		t.Errorf("log %q, %v; want one line", text, err)
	}
}

func TestEndFindsWhatLeftTheSession(t *testing.T) {
	// The daemon's parent is gone by the time of the stop; only the recorded tree knows the daemon.
	g := start(t, `(setsid bash -c 'exec -a innocent sleep 300' & sleep 0.3) ; exec sleep 300`, nil)
	eventually(t, "the daemon is orphaned", func() bool {
		for _, p := range g.Living() {
			if p.SID != g.PID() && p.PPID != g.PID() && g.table.Command(p.PID, nil) == "innocent 300" {
				parent, err := g.table.Read(p.PPID)
				return err != nil || parent.PGID != g.PID()
			}
		}
		return false
	})
	report := g.Stop(syscall.SIGTERM, 2*time.Second)
	if diff := cmp.Diff([]string{"innocent 300"}, report.Escaped); diff != "" || len(report.Left) > 0 {
		t.Errorf("escaped (-want +got):\n%s%+v", diff, report)
	}
}

func TestEndFindsByPrivateFolder(t *testing.T) {
	dir := t.TempDir()
	g := start(t, `exec sleep 300`, func(c *Command) { c.Private = dir })
	stranger := start(t, `exec sleep 300`, func(c *Command) { c.Env = testEnv("TMPDIR=" + dir) })
	g.Stop(syscall.SIGTERM, time.Second)
	if living := stranger.Living(); len(living) != 0 {
		t.Errorf("a process with our private TMPDIR is ours, but lives: %v", living)
	}
}

func TestEndCancelled(t *testing.T) {
	g := start(t, stubborn, nil)
	waitSleepers(t, g, 2)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	report := g.End(ctx, Ladder{Grace: time.Minute, CancelGrace: 300 * time.Millisecond})
	if report.Took > 2*time.Second || report.Forced != 2 {
		t.Errorf("report = %+v; want the grace cut to 0.3 s", report)
	}
}

func TestKillDuringEnd(t *testing.T) {
	g := start(t, stubborn, nil)
	waitSleepers(t, g, 2)
	var report Report
	var wg sync.WaitGroup
	wg.Go(func() { report = g.Stop(syscall.SIGTERM, time.Minute) })
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	g.Kill()
	if took := time.Since(began); took > 300*time.Millisecond+raceAllowance {
		t.Errorf("Kill took %v", took)
	}
	wg.Wait()
	if report.Took > 5*time.Second || len(g.Living()) != 0 {
		t.Errorf("after Kill: %+v, living %v", report, g.Living())
	}
}

// raceAllowance is for shared test machines, where a scan of the process table may be slow.
const raceAllowance = 700 * time.Millisecond

func TestEndListsWhatSurvives(t *testing.T) {
	g := start(t, `exec sleep 300`, nil)
	// A pid beyond the kernel's limit stands for a process in state D: no signal has an effect on it.
	stuck := Process{ID: ID{1<<22 + 5, g.leader.Start + 1}, PPID: 1, PGID: g.PID(), SID: g.PID(), State: 'D', Comm: "stuck"}
	g.mu.Lock()
	g.list = func(skip func(int) bool) ([]Process, error) {
		list, err := g.table.List(skip)
		return append(list, stuck), err
	}
	g.mu.Unlock()
	report := g.End(t.Context(), Ladder{Grace: -1, Persist: 300 * time.Millisecond})
	if len(report.Left) != 1 || report.Left[0].Process != stuck {
		t.Errorf("left = %+v, want the stuck process", report.Left)
	}
	g.mu.Lock()
	g.list = g.table.List
	g.mu.Unlock()
}

func TestUnreadableTableIsNotGone(t *testing.T) {
	g := start(t, `exec sleep 300`, nil)
	g.mu.Lock()
	g.list = func(func(int) bool) ([]Process, error) { return nil, os.ErrPermission }
	g.mu.Unlock()
	if living := g.Living(); len(living) != 1 {
		t.Errorf("living = %v, want what was known", living)
	}
	g.mu.Lock()
	g.list = g.table.List
	g.mu.Unlock()
}

func TestSignalComparesTheStartTime(t *testing.T) {
	g := start(t, `exec sleep 300`, nil)
	reused := ID{g.PID(), g.leader.Start + 1}
	if err := g.table.signal(reused, syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to a reused pid: %v", err)
	}
	for _, id := range []ID{{-1, 0}, {0, 0}, {1, 0}, {os.Getpid(), 0}} {
		if err := g.table.signal(id, syscall.SIGKILL); !errors.Is(err, errForbidden) {
			t.Errorf("signal to pid %d: %v", id.PID, err)
		}
	}
	if err := killGroup(ID{PID: syscall.Getpgrp()}); !errors.Is(err, errForbidden) {
		t.Errorf("kill of our own group: %v", err)
	}
	if len(g.Living()) != 1 {
		t.Error("the process was signalled")
	}
}

func TestAProcessThatForksDuringALookIsFound(t *testing.T) {
	g := start(t, `exec sleep 300`, nil)
	g.mu.Lock()
	looks := 0
	g.list = func(skip func(int) bool) ([]Process, error) {
		if looks++; looks == 1 {
			return nil, nil // the parent ended and its child began after the folder was listed
		}
		return g.table.List(skip)
	}
	g.mu.Unlock()
	if living := g.Living(); len(living) != 1 {
		t.Errorf("living = %v after one empty reading", living)
	}
}

func TestWatchEndsByItself(t *testing.T) {
	before := len(marked())
	for range 5 {
		start(t, `exit 0`, nil).Wait()
	}
	eventually(t, "no process of the five is left", func() bool { return len(marked()) == before })
}
