package target

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// stubborn ends on SIGTERM and leaves two children that ignore it (P-01).
const stubborn = `
(trap "" TERM; exec sleep 300) &
(trap "" TERM; exec sleep 300) &
trap "exit 0" TERM
echo up
wait`

// waitSleepers waits until n processes of the server have become sleep.
func waitSleepers(t *testing.T, s *Server, n int) {
	t.Helper()
	for range 200 {
		found := 0
		for _, p := range s.group.Living() {
			if p.Comm == "sleep" {
				found++
			}
		}
		if found == n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no %d sleeping processes: %v", n, s.PIDs())
}

func TestStopGentle(t *testing.T) {
	s := start(t, serving(t))
	if err := s.Ready(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	report, err := s.Stop(t.Context())
	if err != nil || report.Forced != 0 || report.Exit == nil || *report.Exit != 0 || report.PortWait != 0 {
		t.Errorf("report = %+v, %v", report, err)
	}
	if diff := cmp.Diff([]string{"SIGTERM"}, report.Signals); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(s.tmp); err == nil {
		t.Error("TMPDIR is left")
	}
	select {
	case <-s.Exited():
	default:
		t.Error("Exited is not closed after a stop")
	}
	again, err := s.Stop(t.Context())
	if diff := cmp.Diff(report, again); diff != "" || err != nil {
		t.Errorf("a second stop: %v\n%s", err, diff)
	}
}

func TestStopForcesChildren(t *testing.T) {
	spec := scripted(t, stubborn)
	spec.Grace = 500 * time.Millisecond
	s := start(t, spec)
	waitSleepers(t, s, 2)
	report, err := s.Stop(t.Context())
	if err != nil || report.Force() != "2 children needed force" || report.Exit == nil || *report.Exit != 0 || report.Seconds > 2.5 || len(s.PIDs()) != 0 {
		t.Errorf("report = %+v, %v; left %v", report, err, s.PIDs())
	}
}

// P-08: the runner sends SIGINT; children ignore SIGTERM; all must be dead within 5 s although the grace is long.
func TestStopCancelled(t *testing.T) {
	t.Parallel()
	spec := scripted(t, stubborn)
	spec.Grace = time.Minute
	s := start(t, spec)
	waitSleepers(t, s, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	report, err := s.Stop(ctx)
	if took := time.Since(began); err != nil || took > 5*time.Second || report.Forced != 2 || len(s.PIDs()) != 0 {
		t.Errorf("took %v: %+v, %v; left %v", took, report, err, s.PIDs())
	}
}

func TestKillEndsAStopUnderWay(t *testing.T) {
	spec := scripted(t, stubborn)
	spec.Grace = time.Minute
	s := start(t, spec)
	waitSleepers(t, s, 2)
	done := make(chan error, 1)
	go func() { _, err := s.Stop(context.Background()); done <- err }()
	time.Sleep(100 * time.Millisecond)
	s.Kill()
	select {
	case err := <-done:
		if err != nil || len(s.PIDs()) != 0 {
			t.Errorf("%v; left %v", err, s.PIDs())
		}
	case <-time.After(5 * time.Second):
		t.Error("the stop goes on after Kill")
	}
}

func TestStopWaitsForThePort(t *testing.T) {
	s := start(t, scripted(t, "sleep 300"))
	l := listen(t, strings.TrimPrefix(s.URL(), "http://"))
	time.AfterFunc(700*time.Millisecond, func() { _ = l.Close() })
	report, err := s.Stop(t.Context())
	if err != nil || report.PortWait < 0.3 || report.PortWait > 5 {
		t.Errorf("report = %+v, %v; want a wait of some 0.6 s", report, err)
	}
}

func TestStopPortNotFreed(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		spec := scripted(t, "sleep 300")
		spec.PortWait = 300 * time.Millisecond
		s := start(t, spec)
		_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		l := listen(t, net.JoinHostPort(addr, port))
		report, err := s.Stop(t.Context())
		e := wantError(t, err, record.PortNotFreed)
		if !strings.Contains(e.Text, "target.test") || report.PortWait < 0.3 {
			t.Errorf("%s: report %+v, %s: want the holder named", addr, report, e.Text)
		}
		_ = l.Close()
	}
}

func TestStopPortNotFreedCancelled(t *testing.T) {
	s := start(t, scripted(t, "sleep 300"))
	l := listen(t, strings.TrimPrefix(s.URL(), "http://"))
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	_, err := s.Stop(ctx)
	wantError(t, err, record.PortNotFreed)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %v with a cancelled context", took)
	}
}

func TestDirtyNamesEverything(t *testing.T) {
	got := (&Server{}).dirty([]proc.Survivor{{Process: proc.Process{ID: proc.ID{PID: 42}, State: 'D'}, Command: "server --gpu"}})
	for _, want := range []string{"pid 42", "server --gpu", "state D", "restart"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}

// Eight slots: never two servers at once, and the port is free between all of them.
func TestStartOrder(t *testing.T) {
	seen := map[int]bool{}
	for slot := range 8 {
		s := start(t, serving(t))
		if err := s.Ready(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if living := marked(); len(living) != len(s.PIDs()) {
			t.Errorf("slot %d: living %q, ours %v", slot, living, s.PIDs())
		}
		if _, err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if living := marked(); len(living) != 0 {
			t.Errorf("slot %d: %q is left", slot, living)
		}
		listen(t, strings.TrimPrefix(s.URL(), "http://")).Close()
		seen[s.Port()] = true
	}
	if len(seen) < 2 {
		t.Errorf("ports %v: want fresh ones", seen)
	}
}

func TestFixedPortIsUsedAgain(t *testing.T) {
	port, err := choosePort("/proc/sys", pickRandom)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second start meets connections of the first that linger in TIME_WAIT
		spec := serving(t)
		spec.Port = port
		s := start(t, spec)
		if err := s.Ready(t.Context(), nil); err != nil || s.Port() != port {
			t.Fatal(err)
		}
		if _, err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServerSeesOnlyItsEnvironment(t *testing.T) {
	for _, name := range []string{"GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "INPUT_TOKEN", "GITHUB_OUTPUT"} {
		t.Setenv(name, "canary-1234")
	}
	var sizes []int
	for range 2 {
		spec := serving(t)
		spec.Env = proc.Environ(os.LookupEnv, os.Environ(), proc.Server, map[string]string{role: "serve", "MODEL": "m", "TARGET_TEST_RUN": strings.TrimPrefix(mark, "TARGET_TEST_RUN=")}, nil)
		spec.Args = []string{"--flag=a b", "it's", "$HOME"}
		s := start(t, spec)
		if err := s.Ready(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(spec.LogPath)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"env MODEL=m\n", "env TMPDIR=" + filepath.Join(os.TempDir(), "tailgate-"), "env CI=true\n", "args [--flag=a b it's $HOME]\n"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("log lacks %q:\n%s", want, text)
			}
		}
		if strings.Contains(string(text), "canary") {
			t.Errorf("the server saw a canary:\n%s", text)
		}
		sizes = append(sizes, len(text))
	}
	if sizes[0] != sizes[1] {
		t.Errorf("two starts have environments of %d and %d bytes", sizes[0], sizes[1])
	}
}

func TestStartErrors(t *testing.T) {
	for name, edit := range map[string]func(*Spec){
		"no folder": func(s *Spec) { s.Dir = "/no/such/folder" },
		"no log":    func(s *Spec) { s.LogPath = "/no/such/folder/log" },
		"no shell":  func(s *Spec) { s.Env = []string{"PATH=/no/such/folder"} },
	} {
		spec := scripted(t, "true")
		edit(&spec)
		if s, err := Start(t.Context(), spec); err == nil {
			s.Kill()
			t.Errorf("%s: started", name)
		}
	}
}
