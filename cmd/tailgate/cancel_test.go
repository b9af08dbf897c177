package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// The signals of an Actions runner to a step that is cancelled: to its first process and to nobody else.
const (
	runnerTerminates = 7500 * time.Millisecond
	runnerKills      = 2500 * time.Millisecond
)

// checks fails a test where a script would fail.
type checks struct{ *testing.T }

func (c checks) Check(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// step is a step of a job as the runner runs it.
type step struct {
	work, repo, out string
	cmd             *exec.Cmd
	ended           chan error
}

// startStep runs one line under sh in a fresh repository whose server, and its two children, ignore SIGTERM (case P-08:
// horovod/horovod#2959, NovaSky-AI/SkyRL#2106, actions/runner#1546). $RUN is the command line that measures.
func startStep(t *testing.T, line string) *step {
	t.Helper()
	s := prepareStep(t)
	s.start(t, line)
	return s
}

func prepareStep(t *testing.T) *step {
	t.Helper()
	if testing.Short() {
		t.Skip("cancels a session in mid-round; run without -short")
	}
	work := t.TempDir()
	s := &step{work: work, repo: filepath.Join(work, "repo"), out: filepath.Join(work, "out"), ended: make(chan error, 1)}
	makeService(checks{t}, s.repo, `{"revision": "%d", "prefill_per_token": "1ms", "ignore_sigterm": true, "children": {"count": 2, "ignore_sigterm": true}}`+"\n")
	return s
}

func (s *step) start(t *testing.T, line string) {
	t.Helper()
	path, err := exec.LookPath("tailgate")
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.CommandContext(t.Context(), "sh", "-c", line)
	s.cmd.Dir = s.repo
	s.cmd.Env = []string{
		"PATH=" + filepath.Dir(path) + ":" + os.Getenv("PATH"), "HOME=" + s.work, "RUNNER_TEMP=" + filepath.Join(s.work, "temp"), "GIT_CONFIG_GLOBAL=/dev/null",
		"RUN=" + "tailgate run --base HEAD~1 --strategy ref --out " + s.out,
	}
	log, err := os.Create(s.log())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	t.Cleanup(func() { s.clear(t) })
}

func (s *step) log() string { return filepath.Join(s.work, "log") }

// clear ends what a failed test would leave, by the command that is made for it.
func (s *step) clear(t *testing.T) {
	t.Helper()
	if code, out, errOut := ran(s.cmd.Env, "action", "cleanup", "--strict"); code != 0 {
		t.Errorf("cleanup: exit %d\n%s%s", code, out, errOut)
	}
}

// until waits for what a pattern fits in the step's log.
func (s *step) until(t *testing.T, sign string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		text := read(t, s.log())
		if regexp.MustCompile(sign).MatchString(text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never said %q:\n%s", sign, text)
		}
	}
}

// cancel sends what a runner sends, and returns how long it took until nothing of the step's was alive, or how much of it still
// was when the runner had killed the step.
func (s *step) cancel(t *testing.T) (took time.Duration, left []string) {
	t.Helper()
	began := time.Now()
	ladder := []struct {
		at     time.Duration
		signal os.Signal
	}{{0, os.Interrupt}, {runnerTerminates, syscall.SIGTERM}, {runnerTerminates + runnerKills, os.Kill}}
	for {
		elapsed := time.Since(began)
		if len(ladder) > 0 && elapsed >= ladder[0].at {
			if err := s.cmd.Process.Signal(ladder[0].signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			ladder = ladder[1:]
		}
		if left = carrying(s.work); len(left) == 0 || elapsed > runnerTerminates+runnerKills+2*time.Second {
			return elapsed, left
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// cleanly says what is wrong with how a step was cancelled; nothing when it went as it must.
func (s *step) cleanly(t *testing.T) []string {
	t.Helper()
	took, left := s.cancel(t)
	var wrong []string
	if len(left) > 0 {
		return []string{"left behind: " + strings.Join(left, "; ")}
	}
	<-s.ended
	if took > interruptBudget+time.Second { // the second is this test's: it looks and waits beside others
		wrong = append(wrong, "all were dead after "+took.String()+" only")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != gate.ExitInterrupted {
		wrong = append(wrong, "exit "+s.cmd.ProcessState.String())
	}
	f, err := record.Open(s.out)
	if err != nil {
		return append(wrong, err.Error())
	}
	defer f.Close()
	if status := f.Run().Status; status != record.StatusCancelled {
		wrong = append(wrong, "status "+string(status))
	}
	if _, err := os.Stat(filepath.Join(s.out, "judgement.json")); err == nil {
		wrong = append(wrong, "a cancelled run was judged")
	}
	if found := stateFiles(filepath.Join(s.work, "temp", "tailgate")); len(found) > 0 {
		wrong = append(wrong, "state files are left: "+strings.Join(found, ", "))
	}
	return wrong
}

// Case P-08: a workflow is cancelled in round 2. Everything is dead in 7 s, the finished round is kept, the exit code is 130.
func TestRunnerCancelsAStep(t *testing.T) {
	t.Parallel()
	s := startStep(t, "exec $RUN")
	s.until(t, ` 2/\d+ .* measure`)
	if wrong := s.cleanly(t); len(wrong) > 0 {
		t.Errorf("%s\n%s", strings.Join(wrong, "\n"), read(t, s.log()))
	}
	f, err := record.Open(s.out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if rounds := f.Run().Rounds; len(rounds) < 1 || rounds[0].State != record.RoundComplete {
		t.Errorf("the finished round is not kept: %+v", rounds)
	}
}

// The same check must see what a step without exec does: the shell takes the signals, and tailgate and its server go on. The
// cleanup step then finds and ends both.
func TestRunnerCancelsAStepWithoutExec(t *testing.T) {
	t.Parallel()
	s := startStep(t, "$RUN; exit $?")
	s.until(t, " measure ")
	wrong := s.cleanly(t)
	if len(wrong) != 1 || !strings.Contains(wrong[0], "left behind: ") || !strings.Contains(wrong[0], "tailgate run") {
		t.Fatalf("the check does not see it: %q", wrong)
	}
	code, out, errOut := ran(s.cmd.Env, "action", "cleanup", "--strict")
	if left := carrying(s.work); code != 0 || len(left) > 0 {
		t.Errorf("cleanup: exit %d, left %q\n%s%s", code, left, out, errOut)
	}
}

// A build that is killed with its tailgate leaves what it started; that is on record, too.
func TestKilledInABuild(t *testing.T) {
	t.Parallel()
	s := prepareStep(t)
	policy := strings.Replace(servicePolicy, "build: mkdir", "build: (trap '' TERM; sleep 4711) & sleep 4712; mkdir", 1)
	if err := os.WriteFile(filepath.Join(s.repo, ".tailgate.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(t, "exec $RUN")
	parent := filepath.Join(s.work, "temp", "tailgate")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if found := stateFiles(parent); len(found) == 1 {
			if text, err := os.ReadFile(found[0]); err == nil && bytes.Contains(text, []byte(`"sleep 4711"`)) {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the build is not on record\n%s", read(t, s.log()))
		}
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	code, out, errOut := ran(s.cmd.Env, "action", "cleanup", "--strict")
	if left := carrying(s.work); code != 0 || len(left) > 0 || len(stateFiles(parent)) > 0 || !strings.Contains(errOut, "ended") {
		t.Errorf("cleanup: exit %d, left %q\n%s%s", code, left, out, errOut)
	}
}

// A second signal kills everything at once, also what ignores SIGTERM.
func TestSecondSignal(t *testing.T) {
	s := startStep(t, "exec $RUN")
	s.until(t, " measure ")
	for range 2 {
		if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // two signals at once may arrive as one
	}
	again := time.Now()
	<-s.ended
	if took := time.Since(again); took > time.Second || s.cmd.ProcessState.ExitCode() != gate.ExitInterrupted {
		t.Errorf("%v, %v after the second signal", s.cmd.ProcessState, took+300*time.Millisecond)
	}
	for deadline := time.Now().Add(2 * time.Second); len(carrying(s.work)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left: %q", carrying(s.work))
		}
	}
	if len(stateFiles(filepath.Join(s.work, "temp", "tailgate"))) != 1 {
		t.Error("the state file went although nothing was proven")
	}
}

// killedCommand runs tailgate and kills it with SIGKILL once its progress shows a text: `killed TEXT tailgate run`.
func killedCommand(ts *testscript.TestScript, _ bool, args []string) {
	cancelCommand(ts, syscall.SIGKILL, -1, interruptBudget, args)
}
