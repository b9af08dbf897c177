package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// TestMain removes what the tests built; their run folders are temporary.
func TestMain(m *testing.M) {
	code := m.Run()
	if binaries.dir != "" {
		_ = os.RemoveAll(binaries.dir)
	}
	os.Exit(code)
}

// requireE2E skips a test on a machine that is not said to be free for measuring.
func requireE2E(t *testing.T) {
	t.Helper()
	if os.Getenv("TAILGATE_E2E") != "1" {
		t.Skip("measures for minutes and installs a server; set TAILGATE_E2E=1 on an otherwise idle machine")
	}
}

// root is the repository of this test.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var binaries struct {
	once sync.Once
	dir  string
	err  error
}

// tailgate builds the command once, static as it is released, and the sensor beside it.
func tailgate(t *testing.T) string {
	t.Helper()
	binaries.once.Do(func() {
		binaries.dir, binaries.err = os.MkdirTemp("", "tailgate-e2e-") //nolint:usetesting // outlives this test: the others use it too
		if binaries.err == nil {
			binaries.err = goBuild(root(t), filepath.Join(binaries.dir, "tailgate"), "./cmd/tailgate", "CGO_ENABLED=0")
		}
	})
	if binaries.err != nil {
		t.Fatal(binaries.err)
	}
	return filepath.Join(binaries.dir, "tailgate")
}

func goBuild(dir, out, pkg string, env ...string) error {
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-o", out, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return errors.New(string(text))
	}
	return nil
}

// result is what one command line left behind.
type result struct {
	code      int
	out, err  string
	run       record.Run
	judgement gate.Judgement
	dir       string
	wall      time.Duration
}

// line is line 1 of the report.
func (r result) line() string {
	first, _, _ := strings.Cut(strings.TrimSpace(r.out), "\n")
	return first
}

// execute runs tailgate in dir and reads the run folder it left, if any.
func execute(t *testing.T, dir, runDir string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	if args[0] != "report" {
		args = append(args, "--out", runDir)
	}
	cmd := exec.CommandContext(ctx, tailgate(t), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	began := time.Now()
	err := cmd.Run()
	r := result{out: out.String(), err: errOut.String(), dir: runDir, wall: time.Since(began)}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		r.code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	readJSON(t, filepath.Join(runDir, "run.json"), &r.run)
	readJSON(t, filepath.Join(runDir, "judgement.json"), &r.judgement)
	t.Logf("exit %d after %s: %s", r.code, r.wall.Round(time.Second), r.line())
	wantVerified(t, runDir)
	return r
}

// decided runs a session, and runs it again where the machine moved too much to judge it: what the report of such a run tells its
// reader to do. Every run is logged, and what a build does wrong it does in each of them.
func decided(t *testing.T, dir string, env []string, args ...string) result {
	t.Helper()
	const tries = 3
	for try := 1; ; try++ {
		r := execute(t, dir, filepath.Join(t.TempDir(), "run"), env, args...)
		machine := r.judgement.Verdict == gate.Invalid && (r.judgement.Reason == gate.BaseDrift || r.judgement.Reason == gate.VoidBudget)
		if !machine || try == tries {
			return r
		}
	}
}

// wantVerified recomputes what a run folder says of its rounds from their samples.
func wantVerified(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "run.json")); err != nil {
		return // a command that left no run
	}
	f, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	differences, err := record.Verify(f)
	if err != nil || len(differences) > 0 {
		t.Errorf("%s does not verify: %v %v", dir, differences, err)
	}
}

// readJSON reads a file if it is there.
func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// command runs a program and fails the test when it fails.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=e2e", "GIT_AUTHOR_EMAIL=e2e@example.com",
		"GIT_COMMITTER_NAME=e2e", "GIT_COMMITTER_EMAIL=e2e@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// write writes a file below dir.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// wantJudgedAlike judges a stored run again, twice: the bytes and the verdict must be the ones the run gave.
func wantJudgedAlike(t *testing.T, r result) {
	t.Helper()
	var texts []string
	for range 2 {
		out := t.TempDir()
		again := execute(t, out, out, nil, "report", r.dir, "--out", out)
		if again.judgement.Verdict != r.judgement.Verdict || again.judgement.Line != r.judgement.Line {
			t.Errorf("judged again: %q, the run itself said %q", again.judgement.Line, r.judgement.Line)
		}
		text, err := os.ReadFile(filepath.Join(out, "report.md"))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text)+again.out)
	}
	if texts[0] != texts[1] {
		t.Error("judging the same run twice gave different bytes")
	}
}
