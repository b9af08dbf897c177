package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// latest is the latest instant of an interruption: about when the last round of a session ends.
	latest = 12 * time.Second
	// interruptLimit and terminateLimit are how long a cancelled run may take, with a second for a machine that is busy.
	interruptLimit, terminateLimit = 8 * time.Second, 3 * time.Second
	// hardEnd is how much of those is left when a cancelled run ends itself by force, a quarter of a second before its budget is over:
	// its state file may then stay, for the next run to look after.
	hardEnd = 1300 * time.Millisecond
	// sessionLimit ends a session that hangs.
	sessionLimit = 2 * time.Minute
	// gitPause is what a git that outlives its killed tailgate gets to end by itself.
	gitPause = 500 * time.Millisecond
	// diskSize holds a short session and little more.
	diskSize = "40m"
)

// Kind is a way to interrupt a session.
type Kind string

// The kinds. FullDisk needs user namespaces to mount a small disk; see [Kinds].
const (
	Interrupt Kind = "SIGINT"
	Terminate Kind = "SIGTERM"
	Kill      Kind = "kill -9"
	Crash     Kind = "server crash"
	FullDisk  Kind = "full disk"
)

// Kinds are the kinds that this machine allows, and why one is missing; "" when none is.
func Kinds(ctx context.Context) (kinds []Kind, missing string) {
	kinds = []Kind{Interrupt, Terminate, Kill, Crash}
	dir, err := os.MkdirTemp("", "chaos-disk-")
	if err == nil {
		defer os.RemoveAll(dir) //nolint:errcheck // an empty folder
		err = exec.CommandContext(ctx, "unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir).Run()
	}
	if err != nil {
		return kinds, fmt.Sprintf("no full disks: a small one cannot be mounted in a user namespace here (unshare -rm: %v)", err)
	}
	return append(kinds, FullDisk), ""
}

// Chaos interrupts sessions.
type Chaos struct {
	// Binary is the tailgate to run; Path the PATH of what it starts.
	Binary, Path string
	// Scratch is where sessions live, each in a folder of its own with its repository, temporary folders and run. What was clean
	// is removed from it; a session whose folder is there already is a fixture's error.
	Scratch string
	// Seed makes the kinds and instants; equal seeds, equal sessions.
	Seed uint64
	// Kinds are chosen from, in turn.
	Kinds []Kind
}

// Outcome is what became of one session.
type Outcome struct {
	Kind Kind
	// At is when it was interrupted, after its start.
	At time.Duration
	// Folder is where it lived; gone when it was clean.
	Folder string
	// Wrong says what was not as it must be, nothing when clean.
	Wrong []string
	// Swept is what the next run said of it, a line each.
	Swept []string
}

// session is one session and its surroundings.
type session struct {
	chaos *Chaos
	Outcome
	repo, out, temp, tmp string
	// forced says that the run had no time left to put away its state file.
	forced bool
	env    []string
}

// Session runs the session with a number, from 0, interrupts it, and looks. Nothing of it lives when it returns. Sessions with
// different numbers share nothing and may run beside each other. Its error is that of a fixture, or of ctx.
func (c *Chaos) Session(ctx context.Context, n int) (Outcome, error) {
	s, deaf := c.session(n)
	if err := os.MkdirAll(c.Scratch, 0o700); err != nil {
		return s.Outcome, err
	}
	if err := os.Mkdir(s.Folder, 0o700); err != nil {
		return s.Outcome, fmt.Errorf("an earlier session may have been kept there, choose another scratch: %w", err)
	}
	err := errors.Join(s.run(ctx, deaf), s.end())
	if err != nil || len(s.Wrong) > 0 {
		return s.Outcome, err
	}
	return s.Outcome, os.RemoveAll(s.Folder)
}

// session is the session with a number, and whether its server is deaf. Both depend on the seed and the number alone.
func (c *Chaos) session(n int) (s *session, deaf bool) {
	random := rand.New(rand.NewPCG(c.Seed, uint64(n))) //nolint:gosec // not a secret: it is to come again
	dir := filepath.Join(c.Scratch, fmt.Sprintf("%04d", n))
	s = &session{
		chaos: c, Outcome: Outcome{Kind: c.Kinds[n%len(c.Kinds)], At: time.Duration(random.Int64N(int64(latest))), Folder: dir},
		repo: filepath.Join(dir, "repo"), out: filepath.Join(dir, "run"), temp: filepath.Join(dir, "temp"), tmp: filepath.Join(dir, "tmp"),
	}
	s.env = []string{"PATH=" + c.Path, "HOME=" + dir, "RUNNER_TEMP=" + s.temp, "TMPDIR=" + s.tmp, "GIT_CONFIG_GLOBAL=/dev/null"}
	return s, random.IntN(2) == 0
}

// run is a session from its first file to the last look. Who interrupts it gets the reason of ctx, whatever was seen by then.
func (s *session) run(ctx context.Context, deaf bool) error {
	for _, d := range []string{s.temp, s.tmp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return s.repository(ctx, deaf) }, s.interrupted,
		func(context.Context) error { s.examine(); return nil }, s.next,
	} {
		err := step(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) wrong(format string, args ...any) {
	s.Wrong = append(s.Wrong, fmt.Sprintf(format, args...))
}

// command is tailgate run in the repository.
func (s *session) command(ctx context.Context, out string, more ...string) *exec.Cmd {
	args := append([]string{"run", "--base", "HEAD~1", "--strategy", "ref", "--out", out}, more...)
	cmd := exec.CommandContext(ctx, s.chaos.Binary, args...)
	cmd.Dir, cmd.Env = s.repo, s.env
	// Who interrupts the interruptions gets no leftovers either: a killed tailgate could not take its servers with it.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptLimit
	cmd.SysProcAttr = apart()
	return cmd
}

// apart is a process group of its own: Ctrl-C in a terminal must not reach a session beside what it is told by its context.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// filled is a session whose disk somebody else fills. The folder is copied out of the namespace in which the disk is mounted.
func (s *session) filled(ctx context.Context) *exec.Cmd {
	script := fmt.Sprintf(`mkdir -p "$DISK" && mount -t tmpfs -o size=%s tmpfs "$DISK" || exit 99
(sleep %.3f; exec dd if=/dev/zero of="$DISK/somebody" bs=64k 2>/dev/null) &
"$TAILGATE" run --base HEAD~1 --strategy ref --out "$DISK/run"; code=$?
kill $! 2>/dev/null; wait; rm -f "$DISK/somebody"; cp -r "$DISK/run" "$OUT"; exit $code`, diskSize, s.At.Seconds())
	cmd := exec.CommandContext(ctx, "unshare", "-rm", "sh", "-c", script)
	cmd.Dir = s.repo
	cmd.Env = append(slices.Clone(s.env), "DISK="+filepath.Join(s.Folder, "disk"), "OUT="+s.out, "TAILGATE="+s.chaos.Binary)
	cmd.SysProcAttr = apart()
	return cmd
}

// interrupted runs the session and interrupts it. What it printed is kept in its folder.
func (s *session) interrupted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sessionLimit)
	defer cancel()
	cmd := s.command(ctx, s.out)
	if s.Kind == FullDisk {
		cmd = s.filled(ctx)
	}
	log, err := os.Create(filepath.Join(s.Folder, "log"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // for people
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if s.Kind != FullDisk {
		select {
		case err := <-ended:
			return s.judge(cmd, err, sessionLimit) // before its turn came
		case <-time.After(s.At):
		}
	}
	limit := s.strike(cmd)
	began := time.Now()
	err = <-ended
	if ctx.Err() != nil {
		s.wrong("did not end within %s", sessionLimit)
		return nil
	}
	return s.judge(cmd, err, limit-time.Since(began))
}

// strike interrupts, and returns how long the session may go on.
func (s *session) strike(cmd *exec.Cmd) time.Duration {
	send := func(sig os.Signal) {
		if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.wrong("%v: %v", sig, err)
		}
	}
	switch s.Kind {
	case Interrupt:
		send(os.Interrupt)
		return interruptLimit
	case Terminate:
		send(syscall.SIGTERM)
		return terminateLimit
	case Kill:
		send(os.Kill)
		return time.Second
	case Crash:
		s.killServer()
	default:
	}
	return sessionLimit
}

// codes are the exit codes that a session may end with: the four verdicts too, where it was over before its interruption.
var codes = map[Kind][]int{Interrupt: {130}, Terminate: {143}, Kill: {-1}, Crash: nil, FullDisk: nil}

// judge looks at how a session ended. spare is negative when it took too long.
func (s *session) judge(cmd *exec.Cmd, err error, spare time.Duration) error {
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		return err
	}
	code := cmd.ProcessState.ExitCode()
	if code == 99 && s.Kind == FullDisk {
		return errors.New("a small disk cannot be mounted")
	}
	if !slices.Contains(append([]int{0, 1, 3, 4}, codes[s.Kind]...), code) {
		s.wrong("exit code %d: %s", code, s.lastWords("log"))
	}
	s.forced = spare < hardEnd && codes[s.Kind] != nil
	if spare < 0 {
		s.wrong("ended %s too late", (-spare).Round(time.Millisecond))
	}
	return nil
}

// lastWords is the end of a log.
func (s *session) lastWords(name string) string {
	text, _ := os.ReadFile(filepath.Join(s.Folder, name))
	return string(bytes.TrimSpace(text[max(0, len(text)-500):]))
}

// next runs another session in the same place. It begins one pair and no more.
func (s *session) next(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sessionLimit)
	defer cancel()
	waiting := len(s.stateFiles())
	out := filepath.Join(s.Folder, "next")
	text, err := s.command(ctx, out, "--timeout", "4s").CombinedOutput()
	if writeErr := os.WriteFile(filepath.Join(s.Folder, "next.log"), text, 0o600); writeErr != nil {
		return writeErr
	}
	if ctx.Err() != nil {
		s.wrong("the next run did not end within %s", sessionLimit)
		return nil
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && (!ok || !slices.Contains([]int{1, 3, 4}, exit.ExitCode())) {
		s.wrong("the next run: %v: %s", err, s.lastWords("next.log"))
	}
	for line := range strings.Lines(string(text)) {
		if said, ok := strings.CutPrefix(line, "sweep: "); ok {
			s.Swept = append(s.Swept, strings.TrimSpace(said))
		}
	}
	if len(s.Swept) != waiting {
		s.wrong("%d state files were waiting, the next run swept %d", waiting, len(s.Swept))
	}
	s.afterNext(out)
	return nil
}
