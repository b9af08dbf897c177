package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/baseline/build"
	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/internal/state"
)

// wreck is what a run leaves that was killed in mid-round: a worktree, a server's process, its temporary folder.
type wreck struct {
	parent, path, repo, tree, tmp string
	server                        *exec.Cmd
	file                          state.File
}

// newWreck makes one. Its owner is this test at another time: dead.
func newWreck(t *testing.T, script string) *wreck {
	t.Helper()
	j := newGitJob(t)
	w := &wreck{parent: filepath.Join(j.temp, "tailgate"), repo: j.repo}
	root := filepath.Join(w.parent, "20260304-101500-0badcafe")
	w.path, w.tree = filepath.Join(root, state.Name), filepath.Join(root, "base")
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := build.AddWorktree(t.Context(), w.repo, w.tree, j.git(t, "rev-parse", "HEAD"), build.WorktreeOptions{}); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.tmp, err = proc.PrivateDir(""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(w.tmp) })
	w.server = exec.CommandContext(t.Context(), "/bin/bash", "-c", script)
	w.server.Env, w.server.Dir = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + w.tmp}, w.tree
	w.server.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := w.server.Start(); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan struct{})
	go func() { _ = w.server.Wait(); close(reaped) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-w.server.Process.Pid, syscall.SIGKILL)
		<-reaped
	})
	self, err := proc.Table{}.Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	leader, err := proc.Table{}.Read(w.server.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	boot, namespace := state.Here(proc.Table{})
	w.file = state.File{
		Schema: state.Schema, Run: filepath.Base(root), Boot: boot, Namespace: namespace, Owner: state.Process{PID: self.PID, Start: self.Start + 1},
		Repository: w.repo, Worktrees: []string{w.tree}, Rounds: []state.Round{{
			State: "running", Log: filepath.Join(j.dir, "rounds", "03-head", "server.log"), Dir: w.tree, TMPDIR: w.tmp,
			Processes: []state.Process{{PID: leader.PID, Start: leader.Start, PGID: leader.PGID, SID: leader.SID}},
		}},
	}
	w.write(t)
	return w
}

func (w *wreck) write(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(w.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// living counts the processes that carry the wreck's temporary folder.
func (w *wreck) living(t *testing.T) int {
	t.Helper()
	found, err := proc.Table{}.Leftovers(proc.Remains{Recorded: w.file.Rounds[0].Recorded(), Private: w.tmp})
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// gone wants that nothing of the wreck is left, nor registered.
func (w *wreck) gone(t *testing.T) {
	t.Helper()
	if n := w.living(t); n > 0 {
		t.Errorf("%d processes live", n)
	}
	for _, path := range []string{w.path, w.tree, filepath.Dir(w.path), w.tmp} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	list := exec.CommandContext(t.Context(), "git", "-C", w.repo, "worktree", "list")
	if out, err := list.CombinedOutput(); err != nil || strings.Contains(string(out), w.tree) {
		t.Errorf("git worktree list, %v: %s", err, out)
	}
}

func (w *wreck) settle(t *testing.T, env ...string) (settlement, bool) {
	t.Helper()
	return settle(t.Context(), w.path, &app{environ: append([]string{"PATH=" + os.Getenv("PATH")}, env...)})
}

// Children that ignore SIGTERM, one of them in a session of its own, and a tree with a read-only folder: all of it goes.
func TestSettle(t *testing.T) {
	w := newWreck(t, `mkdir -p out && touch out/f && chmod 500 out; trap '' TERM; sleep 4711 & (exec setsid sleep 4711) & wait; wait`)
	awaitSleepers(t, w, 3)
	if _, err := proc.PrivateDir(filepath.Dir(w.path)); err != nil { // a compile cache
		t.Fatal(err)
	}
	s, ok := w.settle(t)
	if !ok || s.skipped != "" || len(s.left) > 0 || s.ended != 3 || s.removed != 3 {
		t.Errorf("%+v", s)
	}
	if want := "run 20260304-101500-0badcafe, which died: 3 processes ended, 3 folders removed"; s.String() != want {
		t.Errorf("says %q, want %q", s, want)
	}
	w.gone(t)
	if s, ok := w.settle(t); ok {
		t.Errorf("once more: %+v", s)
	}
}

func awaitSleepers(t *testing.T, w *wreck, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); w.living(t) < n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d processes", w.living(t), n)
		}
	}
}

// What a file says of the living, the others, and another boot.
func TestSettleLeavesAlone(t *testing.T) {
	w := newWreck(t, "exec sleep 4711")
	awaitSleepers(t, w, 1)
	alive := w.file.Owner.Start - 1
	tests := []struct {
		name    string
		edit    func(*state.File)
		ok      bool
		skipped string
	}{
		{"owner lives", func(f *state.File) { f.Owner.Start = alive }, false, ""},
		{"another container", func(f *state.File) { f.Namespace = "pid:[1]" }, true, "another container"},
		{"newer schema", func(f *state.File) { f.Schema = 99 }, true, "schema: 99"},
		{"init", func(f *state.File) { f.Rounds[0].Processes[0].PID = 1 }, true, "rounds[0].processes[0]"},
	}
	sound := w.file
	for _, tt := range tests {
		w.file = sound
		w.file.Rounds = []state.Round{sound.Rounds[0]}
		w.file.Rounds[0].Processes = []state.Process{sound.Rounds[0].Processes[0]}
		tt.edit(&w.file)
		w.write(t)
		s, ok := w.settle(t)
		if ok != tt.ok || !strings.Contains(s.skipped, tt.skipped) || (s.skipped == "") != (tt.skipped == "") {
			t.Errorf("%s: %t, %+v", tt.name, ok, s)
		}
		w.file = sound
		if _, err := os.Stat(w.tree); err != nil || w.living(t) != 1 {
			t.Errorf("%s: something was done: %v, %d processes", tt.name, err, w.living(t))
		}
	}
	w.write(t)
	taken, err := state.Take(w.path)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := w.settle(t); ok {
		t.Errorf("two clean up at a time: %+v", s)
	}
	taken.Release()
	// After another boot the pids are strangers'; only files go.
	w.file.Boot = "0b0a4d0c-6d3a-4a5a-9f53-2a1d1c7e9a10"
	w.write(t)
	s, ok := w.settle(t)
	if !ok || s.ended != 0 || s.removed != 2 || len(s.left) > 0 || w.living(t) != 1 {
		t.Errorf("another boot: %+v, %d processes", s, w.living(t))
	}
}

// A folder elsewhere is not removed on the file's word, a process with a recorded pid but another start time not ended; both
// stay on record, as does a port that a stranger holds.
func TestSettleTrustsNoWord(t *testing.T) {
	w := newWreck(t, "exec sleep 4711")
	awaitSleepers(t, w, 1)
	outside := filepath.Join(t.TempDir(), "base")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(err, os.Mkdir(outside, 0o700)); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.file.Worktrees = append(w.file.Worktrees, outside)
	w.file.Rounds[0].Processes[0].Start++
	w.file.Rounds[0].TMPDIR = filepath.Join(filepath.Dir(w.tmp), "tailgate-ffffffffffffffff")
	w.file.Rounds[0].Port = l.Addr().(*net.TCPAddr).Port
	w.write(t)
	s, ok := w.settle(t)
	if !ok || s.ended != 0 || len(s.left) != 2 || !strings.Contains(s.left[0], "port "+strconv.Itoa(w.file.Rounds[0].Port)) || !strings.Contains(s.left[1], outside) {
		t.Errorf("%+v", s)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error("a folder elsewhere was removed")
	}
	if _, err := os.Stat(w.path); err != nil {
		t.Error("the state file went although something is left")
	}
	if w.server.ProcessState != nil || !(proc.Table{}).Alive(processOf(t, w.server.Process.Pid)) {
		t.Error("a process with another start time was ended")
	}
}

func processOf(t *testing.T, pid int) proc.ID {
	t.Helper()
	p, err := proc.Table{}.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p.ID
}

// The saved stop command runs in the server's folder, with the port, the run's id and the variables that were named.
func TestSettleRunsTheStopCommand(t *testing.T) {
	w := newWreck(t, "exec sleep 4711")
	awaitSleepers(t, w, 1)
	out := filepath.Join(t.TempDir(), "said")
	w.file.Rounds[0].Stop = `echo "$PWD $PORT $TAILGATE_RUN $MODEL ${OTHER-unset}" >` + proc.Quote(out)
	w.file.Rounds[0].Env, w.file.Rounds[0].Port = []string{"MODEL"}, 9
	w.write(t)
	s, ok := w.settle(t, "MODEL=tiny", "OTHER=secret")
	if !ok || len(s.left) > 0 {
		t.Errorf("%+v", s)
	}
	if got := read(t, out); got != w.tree+" 9 20260304-101500-0badcafe tiny unset\n" {
		t.Errorf("said %q", got)
	}
	w.gone(t)
	failing := newWreck(t, "exec sleep 4711")
	failing.file.Rounds[0].Stop = "exit 3"
	failing.write(t)
	if s, _ := failing.settle(t); len(s.left) != 1 || !strings.Contains(s.left[0], "stop command of 03-head: exit status 3") {
		t.Errorf("%+v", s)
	}
}

// A repository that is gone, as a demo's, takes its worktree's registration with it.
func TestSettleWithoutRepository(t *testing.T) {
	w := newWreck(t, "exec sleep 4711")
	if err := os.RemoveAll(w.repo); err != nil {
		t.Fatal(err)
	}
	s, ok := w.settle(t)
	if _, err := os.Stat(w.tree); !ok || len(s.left) > 0 || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSettleAnotherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a file to another user")
	}
	w := newWreck(t, "exec sleep 4711")
	if err := os.Chown(w.path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if s, ok := w.settle(t); !ok || s.skipped != "it belongs to another user" || !strings.Contains(s.String(), w.path) || w.living(t) != 1 {
		t.Errorf("%t, %+v", ok, s)
	}
}

// `action cleanup` finds the job's runs by itself, can be called again, and fails nobody's job unless it is strict.
func TestCleanup(t *testing.T) {
	w := newWreck(t, "exec sleep 4711")
	env := []string{"RUNNER_TEMP=" + filepath.Dir(w.parent), "PATH=" + os.Getenv("PATH"), "GITHUB_ACTIONS=true"}
	code, out, errOut := ran(env, "action", "cleanup", "--strict")
	if code != 0 || !strings.Contains(errOut, "cleanup: run 20260304-101500-0badcafe, which died: 1 process ended, 2 folders removed") || strings.Contains(out, "::warning") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	w.gone(t)
	if code, out, errOut := ran(env, "action", "cleanup", "--strict"); code != 0 || out+errOut != "" {
		t.Errorf("once more: exit %d\n%s%s", code, out, errOut)
	}
	if code, _, errOut := ran(nil, "action", "cleanup"); code != 2 || !strings.Contains(errOut, "--state") {
		t.Errorf("without a job: exit %d\n%s", code, errOut)
	}
	if code, out, errOut := ran(nil, "action", "cleanup", "--state", w.path); code != 0 || out+errOut != "" {
		t.Errorf("a file that is gone: exit %d\n%s%s", code, out, errOut)
	}
	broken := filepath.Join(t.TempDir(), state.Name)
	if err := os.WriteFile(broken, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for strict, want := range map[string]int{"--strict=false": 0, "--strict": 4} {
		if code, out, _ := ran(env, "action", "cleanup", "--state", broken, strict); code != want || !strings.Contains(out, "::warning::tailgate cleanup: ") {
			t.Errorf("%s: exit %d\n%s", strict, code, out)
		}
	}
}

// ran runs a command line in an environment.
func ran(env []string, args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = command(args, &o, &e, env)
	return code, o.String(), e.String()
}
