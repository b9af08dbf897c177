package build

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// userinfo is the user and password of a URL.
var userinfo = regexp.MustCompile(`://[^/@\s]*@`)

// repository is a git repository on disk. Its commands start from an empty environment, so that GIT_DIR, hooks and the
// user's own configuration cannot lead them elsewhere; those that act as the user get what [personal] picks.
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

// call is what a git command gets besides its arguments. The zero value is a look at the repository.
type call struct {
	// dir is where the command runs; empty: the top of the repository.
	dir string
	// trust lists folders besides dir and the repository that git may enter although another user owns them, as on a runner
	// that checks out as root.
	trust []string
	// env is added to the environment; it wins over what every command gets.
	env []string
}

// run runs a git command and returns its output; trust is as in call.
func (r *repository) run(ctx context.Context, trust []string, args ...string) ([]byte, error) {
	return r.do(ctx, call{trust: trust}, args...)
}

// do runs a git command and returns its output.
func (r *repository) do(ctx context.Context, c call, args ...string) ([]byte, error) {
	dir := cmp.Or(c.dir, r.top)
	full := []string{"-C", dir, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}
	for _, dir := range append([]string{r.top, dir}, c.trust...) {
		full = append(full, "-c", "safe.directory="+dir)
	}
	cmd := exec.CommandContext(ctx, r.git, append(full, args...)...)
	cmd.Env = append([]string{
		"PATH=" + filepath.Dir(r.git) + ":/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0",  // a look at the user's tree must not rewrite the index
		"GIT_LFS_SKIP_SMUDGE=1", // no download hides in a checkout
	}, c.env...)
	// git works through children of its own, and on a terminal Ctrl-C must reach them through us, not past us. In a session
	// of its own ssh finds no terminal either, and fails where it would ask for a password.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = gitDelay
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		message := userinfo.ReplaceAllString(strings.TrimSpace(stderr.String()), "://***@")
		return stdout.Bytes(), &gitError{verb(args), proc.Clean(message, messageLimit), exit.ExitCode()}
	}
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", verb(args), err)
	}
	return stdout.Bytes(), nil
}

// verb is the subcommand among arguments that may begin with settings.
func verb(args []string) string {
	for i := 0; i < len(args); i++ {
		if args[i] == "-c" {
			i++
		} else if !strings.HasPrefix(args[i], "-") {
			return args[i]
		}
	}
	return ""
}

// personal picks from the caller's environment what git may see where it acts as the user: it fetches from origin, or reads
// the working tree.
func personal(environ []string) []string {
	var env []string
	for _, name := range personalNames() {
		if value, ok := proc.Lookup(environ, name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// personalNames lists the variables, with the reason for each. Not among them: GIT_* and the askpass programs, which could
// lead git elsewhere or wait for somebody to answer. What actions/checkout leaves for later steps, a token in an extra header
// or a key in core.sshCommand, stands in the repository's own configuration and needs no variable.
func personalNames() []string {
	return []string{
		"PATH",                    // where credential helpers, ssh and filters are installed
		"HOME", "XDG_CONFIG_HOME", // credential helpers, .netrc, url.*.insteadOf; the user's own ignored files and filters
		"USER", "LOGNAME", // the user that ssh logs in as, where the URL names none
		"SSH_AUTH_SOCK", // the keys of an ssh agent; none can be asked for
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", // a company's own certificate authority
	}
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
