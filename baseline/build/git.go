package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

const (
	// messageLimit bounds what is shown of git's own messages, in bytes.
	messageLimit = 500
	// gitDelay is how long git's output may stay open after git has ended.
	gitDelay = 5 * time.Second
)

// repository is a git repository on disk. Its commands start from an empty environment, so that GIT_DIR, hooks and the
// user's own configuration cannot lead them elsewhere.
type repository struct {
	git string // path of the program
	top string // absolute, without links
}

// gitError is a git command that failed.
type gitError struct {
	command, message string
	exit             int
}

// Error names the git command and what it said.
func (e *gitError) Error() string {
	return fmt.Sprintf("git %s: exit %d: %s", e.command, e.exit, e.message)
}

// open finds the repository that dir lies in.
func open(dir string) (*repository, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("git is needed: %w", err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, err
	}
	for top := abs; ; top = filepath.Dir(top) {
		if isRepository(top) {
			return &repository{git: git, top: top}, nil
		}
		if top == filepath.Dir(top) {
			return nil, usagef("%s is not inside a git repository", abs)
		}
	}
}

// isRepository reports whether a folder is the top of a checkout, or a bare repository.
func isRepository(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		return true
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// run runs a git command and returns its output. trust lists folders besides the repository that git may enter although
// another user owns them, as on a runner that checks out as root.
func (r *repository) run(ctx context.Context, trust []string, args ...string) ([]byte, error) {
	full := []string{"-C", r.top, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}
	for _, dir := range append([]string{r.top}, trust...) {
		full = append(full, "-c", "safe.directory="+dir)
	}
	cmd := exec.CommandContext(ctx, r.git, append(full, args...)...)
	cmd.Env = []string{
		"PATH=" + filepath.Dir(r.git) + ":/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0",  // a look at the user's tree must not rewrite the index
		"GIT_LFS_SKIP_SMUDGE=1", // no download hides in a checkout
	}
	// git works through children of its own, and on a terminal Ctrl-C must reach them through us, not past us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = gitDelay
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return stdout.Bytes(), &gitError{args[0], proc.Clean(strings.TrimSpace(stderr.String()), messageLimit), exit.ExitCode()}
	}
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", args[0], err)
	}
	return stdout.Bytes(), nil
}

// text is run for commands that answer with one short text.
func (r *repository) text(ctx context.Context, args ...string) (string, error) {
	out, err := r.run(ctx, nil, args...)
	return strings.TrimSpace(string(out)), err
}

// said reports whether git itself refused, and with which exit code; false for a cancelled context or a missing program.
func said(err error) (exit int, ok bool) {
	e, ok := errors.AsType[*gitError](err)
	if !ok {
		return 0, false
	}
	return e.exit, true
}
