package target

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// noteIDs are the remarks of a server.
func noteIDs(s *Server) (ids []string) {
	for _, n := range s.Notes() {
		ids = append(ids, n.ID)
	}
	return ids
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// backgrounded puts itself into the background, with its pid in a file.
func backgrounded(t *testing.T) Spec {
	t.Helper()
	spec := serving(t)
	spec.Grace = 20 * time.Second // half of it passes before anything but the command asks
	spec.Start = "setsid " + spec.Start + " & echo $! >pid; sleep 0.2; exit 0"
	spec.StopCommand, spec.StopLog = "echo stopping $PORT; kill $(cat pid)", filepath.Join(t.TempDir(), "stop.log")
	return spec
}

func TestStopByCommand(t *testing.T) {
	spec := backgrounded(t)
	s := start(t, spec)
	if err := s.Ready(t.Context(), nil); err != nil {
		t.Fatalf("a server with a stop command may go into the background: %v", err)
	}
	select {
	case <-s.Exited():
		t.Fatal("it counts as ended with its start command")
	case <-time.After(2 * pollEvery):
	}
	report, err := s.Stop(t.Context())
	if err != nil || report.Forced != 0 || report.Signals != nil || report.Exit == nil || *report.Exit != 0 || len(s.PIDs()) != 0 {
		t.Errorf("report = %+v, %v; want no signal of ours", report, err)
	}
	if got, want := read(t, spec.StopLog), "stopping "+strconv.Itoa(s.Port())+"\n"; got != want {
		t.Errorf("stop.log = %q, want %q", got, want)
	}
	if ids := noteIDs(s); ids != nil {
		t.Errorf("notes %v", ids)
	}
	<-s.Exited()
}

func TestDetachedServerThatLeaves(t *testing.T) {
	s := start(t, backgrounded(t))
	if err := s.Ready(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.group.Living() {
		if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-s.Exited():
	case <-time.After(20 * time.Second):
		t.Fatal("its end was not noticed")
	}
	if code, text := s.Exit(); code != -1 || !strings.Contains(text, "nobody listens") {
		t.Errorf("exit %d %q", code, text)
	}
}

// A start command that fails is a failed start, stop command or not.
func TestStartCommandThatFails(t *testing.T) {
	spec := scripted(t, "echo no such image; exit 125")
	spec.StopCommand, spec.ReadyPath = "true", "/health"
	s := start(t, spec)
	if e := wantError(t, s.Ready(t.Context(), nil), record.StartFailed); e.Exit == nil || *e.Exit != 125 {
		t.Errorf("error = %+v", e)
	}
}

// What the command does not stop is asked again at the end of the grace, and then forced.
func TestStopCommandThatFails(t *testing.T) {
	spec := scripted(t, `trap "" TERM; echo up; while :; do sleep 0.05; done`)
	spec.Grace = 600 * time.Millisecond
	spec.StopCommand, spec.StopLog = "echo once; exit 9", filepath.Join(t.TempDir(), "stop.log")
	s := start(t, spec)
	for read(t, spec.LogPath) == "" {
		time.Sleep(10 * time.Millisecond)
	}
	report, err := s.Stop(t.Context())
	if err != nil || !report.Leader || !slices.Contains(report.Signals, "SIGKILL") || !report.Slow {
		t.Errorf("report = %+v, %v", report, err)
	}
	if got := read(t, spec.StopLog); got != "once\nonce\n" {
		t.Errorf("stop.log = %q, want two runs", got)
	}
	if notes := s.Notes(); len(notes) != 2 || notes[0].ID != "stop_command_failed" || !strings.Contains(notes[0].Text, "exit status 9") {
		t.Errorf("notes = %+v", notes)
	}
}

// A stop command that hangs has its own limit, and nothing of it is left.
func TestStopCommandThatHangs(t *testing.T) {
	spec := scripted(t, "exec sleep 300")
	spec.Grace = 500 * time.Millisecond
	spec.StopCommand = "sleep 301 & sleep 302"
	s := start(t, spec)
	report, err := s.Stop(t.Context())
	if err != nil || report.Seconds > 8 {
		t.Errorf("report = %+v, %v", report, err)
	}
	if left := marked(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if notes := s.Notes(); len(notes) == 0 || !strings.Contains(notes[0].Text, "did not end in time") {
		t.Errorf("notes = %+v", notes)
	}
}

func TestPIDsOfTheUser(t *testing.T) {
	other := exec.Command("sleep", "300")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	spec := scripted(t, "exec sleep 300")
	spec.PIDs = fmt.Sprintf("echo %d; echo; test -n \"$PORT\"", other.Process.Pid)
	s := start(t, spec)
	if pids := s.PIDs(); !slices.Equal(pids, []int{s.group.PID(), other.Process.Pid}) {
		t.Errorf("pids %v, want %d and %d", pids, s.group.PID(), other.Process.Pid)
	}
	if _, err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process that was only named was ended: %v", err)
	}
	spec.PIDs = "echo nobody; exit 1"
	s = start(t, spec)
	if pids := s.PIDs(); len(pids) != 1 || !slices.Equal(noteIDs(s), []string{"pids_unknown"}) {
		t.Errorf("pids %v, notes %v", pids, s.Notes())
	}
}

func TestParsePIDs(t *testing.T) {
	tests := []struct {
		name, text, bad string
		want            []int
	}{
		{name: "one a line", text: "42\n 43 \n\n44", want: []int{42, 43, 44}},
		{name: "nothing"},
		{name: "a header", text: "PID\n42\n", want: []int{42}, bad: "PID"},
		{name: "init and below", text: "1\n0\n-5\n", bad: "1"},
		{name: "beyond the kernel's", text: "99999999\n", bad: "99999999"},
		{name: "control characters", text: "\x1b[31mred\x1b[0m\n", bad: "red"},
		{name: "a line without an end", text: strings.Repeat("9", 70_000), bad: "a line without an end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, bad := parsePIDs([]byte(tt.text)); !slices.Equal(got, tt.want) || bad != tt.bad {
				t.Errorf("%v, %q; want %v, %q", got, bad, tt.want, tt.bad)
			}
		})
	}
	many, _ := parsePIDs([]byte(strings.Repeat("42\n", 2*pidsMost)))
	b := bounded{most: 10}
	if n, err := b.Write(make([]byte, 100)); len(many) != pidsMost || n != 100 || err != nil || b.Len() != 10 {
		t.Errorf("%d pids of %d lines; %d bytes kept of %d", len(many), 2*pidsMost, b.Len(), n)
	}
}

func FuzzParsePIDs(f *testing.F) {
	f.Add([]byte("42\nx\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		pids, bad := parsePIDs(text)
		for _, pid := range pids {
			if pid <= 1 || pid > 1<<22 {
				t.Errorf("pid %d", pid)
			}
		}
		if len(pids) > pidsMost || len(bad) > shownLine {
			t.Errorf("%d pids, %d bytes of a bad line", len(pids), len(bad))
		}
	})
}
