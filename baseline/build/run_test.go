package build

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

func options(t *testing.T, command string) Options {
	t.Helper()
	return Options{
		Dir: t.TempDir(), Command: command, LogPath: filepath.Join(t.TempDir(), "build", "head.log"),
		Env: []string{"PATH=" + os.Getenv("PATH")}, Timeout: time.Minute,
	}
}

func logOf(t *testing.T, o Options) string {
	t.Helper()
	text, err := os.ReadFile(o.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRun(t *testing.T) {
	o := options(t, `echo building; mkdir out; echo program > out/server; chmod +x out/server; test -d "$TMPDIR"; echo "$TMPDIR" >&2`)
	o.Outputs = []string{"out"}
	b, err := Run(t.Context(), o)
	if err != nil || b.Exit != 0 || b.Files != 1 || len(b.SHA256) != 64 || b.Seconds <= 0 || b.Command != o.Command {
		t.Fatalf("build = %+v, %v", b, err)
	}
	lines := strings.Split(logOf(t, o), "\n")
	if lines[0] != "building" {
		t.Errorf("log = %q", lines)
	}
	if _, err := os.Stat(lines[1]); err == nil {
		t.Errorf("the build's TMPDIR %s is left", lines[1])
	}
}

// A command may spell out what it is also given: the record of the build does not.
func TestRunMasksTheCommand(t *testing.T) {
	o := options(t, `test "$API_KEY" = canary-1234; touch out`)
	o.Env = append(o.Env, "API_KEY=canary-1234")
	b, err := Run(t.Context(), o)
	if want := `test "$API_KEY" = ***; touch out`; err != nil || b.Command != want {
		t.Errorf("command %q, %v; want %q", b.Command, err, want)
	}
}

func TestRunWithoutCommandDigestsTheCheckout(t *testing.T) {
	o := options(t, " ")
	writeFile(t, filepath.Join(o.Dir, "server.py"), "print()", 0o600)
	b, err := Run(t.Context(), o)
	if err != nil || b.Files != 1 || b.Seconds != 0 {
		t.Errorf("build = %+v, %v", b, err)
	}
	if _, err := os.Stat(o.LogPath); err == nil {
		t.Error("a log without a build")
	}
}

func TestRunFailures(t *testing.T) {
	tests := []struct {
		name, command string
		outputs       []string
		exit          int
		text, tail    string
	}{
		{"exit code", `seq 200; echo "using $API_KEY" >&2; exit 3`, nil, 3, "exit status 3", "using ***"},
		{"first error ends it", `echo one; false; echo two`, nil, 1, "exit status 1", "one"},
		{"error in a pipe", `echo x; false | cat; echo y`, nil, 1, "exit status 1", "x"},
		{"unset variable", `echo "$NOT_SET"`, nil, 1, "exit status 1", "NOT_SET: unbound variable"},
		{"signal", `kill -9 $$`, nil, 137, "signal: killed", ""},
		{"no outputs", `echo done`, []string{"dist/*"}, 0, "dist/*", "done"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options(t, tt.command)
			o.Env = append(o.Env, "API_KEY=canary-1234")
			o.Outputs = tt.outputs
			b, err := Run(t.Context(), o)
			failed, ok := errors.AsType[*FailedError](err)
			if !ok || failed.Exit != tt.exit || b.Exit != tt.exit || !strings.Contains(failed.Error(), tt.text) || b.SHA256 != "" {
				t.Fatalf("build %+v, error %v; want exit %d and %q", b, err, tt.exit, tt.text)
			}
			if len(failed.Tail) > tailLines || (tt.tail != "" && !strings.HasSuffix(failed.Tail[len(failed.Tail)-1], tt.tail)) {
				t.Errorf("tail = %q", failed.Tail)
			}
		})
	}
}

func TestRunSeesNoSecretOfOurs(t *testing.T) {
	for _, name := range []string{"GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "INPUT_TOKEN", "GITHUB_OUTPUT"} {
		t.Setenv(name, "canary-1234")
	}
	o := options(t, `env; touch built`)
	o.Env = proc.Environ(os.LookupEnv, os.Environ(), proc.Build, map[string]string{"MODEL": "m"}, nil)
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if log := logOf(t, o); strings.Contains(log, "canary") || !strings.Contains(log, "MODEL=m") {
		t.Errorf("the build saw:\n%s", log)
	}
}

func TestRunTimeout(t *testing.T) {
	o := options(t, `echo begun; trap "" TERM; sleep 300`)
	o.Timeout = 300 * time.Millisecond
	began := time.Now()
	_, err := Run(t.Context(), o)
	failed, ok := errors.AsType[*FailedError](err)
	if !ok || failed.Exit != 137 || !strings.Contains(failed.Text, "300ms") {
		t.Errorf("error = %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestRunCancelledKillsAtOnce(t *testing.T) {
	o := options(t, `trap "" TERM INT; (trap "" TERM; sleep 301) & sleep 301`)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	began := time.Now()
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	assertNone(t, "sleep 301")
}

func TestRunEndsWhatTheBuildLeftRunning(t *testing.T) {
	o := options(t, `touch built; setsid sleep 302 & sleep 303 & sleep 0.2`)
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	assertNone(t, "sleep 302")
	assertNone(t, "sleep 303")
}

func TestRunWithoutBash(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"sh", "touch"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	o := options(t, `touch built`)
	o.Env = []string{"PATH=" + dir}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if log := logOf(t, o); !strings.Contains(log, "bash not found") {
		t.Errorf("the log does not say that sh was used: %q", log)
	}
}

// assertNone fails if a process with exactly this command line lives.
func assertNone(t *testing.T, command string) {
	t.Helper()
	var table proc.Table
	list, err := table.List(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if !p.Dead() && table.Command(p.PID, nil) == command {
			t.Errorf("pid %d (%s) is left", p.PID, command)
		}
	}
}
