package build

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

const (
	// shortTimeout is how long a command may take that only prints something.
	shortTimeout = time.Minute
	// printLimit is the most that such a command may print, bytes.
	printLimit = 64 << 10
)

// step is one command of a build.
type step struct {
	// what names it in messages, key the setting behind it.
	what, key string
	script    string
	limit     time.Duration
	// stdout takes what it prints; nil sends that to the log.
	stdout io.Writer
}

// buildStep is the build command itself.
func buildStep(o Options) step {
	return step{what: "the build", key: "target.build_timeout", script: o.Command, limit: cmp.Or(o.Timeout, defaultTimeout)}
}

// run runs the step to its end and returns its exit code. One that fails or takes too long is a [FailedError].
func (s step) run(ctx context.Context, o Options) (int, error) {
	if err := os.MkdirAll(filepath.Dir(o.LogPath), 0o700); err != nil {
		return 0, err
	}
	tmp, err := proc.PrivateDir("")
	if err != nil {
		return 0, err
	}
	defer remove(tmp)
	c := proc.Command{Dir: o.Dir, Env: o.Env, Log: o.LogPath, Stdout: s.stdout}
	if _, has := proc.Lookup(o.Env, "TMPDIR"); !has {
		c.Env = append([]string{"TMPDIR=" + tmp}, o.Env...)
		c.Private = tmp
	}
	shell, bash, err := proc.Shell(o.Env)
	if err != nil {
		return 0, err
	}
	c.Path, c.Args = shell, []string{"-euo", "pipefail", "-c", s.script}
	if !bash {
		c.Args = []string{"-eu", "-c", s.script}
		if err := logLine(o.LogPath, "tailgate: bash not found, running "+s.what+" with sh -eu"); err != nil {
			return 0, err
		}
	}
	group, err := proc.Start(ctx, c)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s.what, err)
	}
	if o.Watch != nil {
		defer o.Watch(tmp, group)()
	}
	return s.await(ctx, group, o)
}

func logLine(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, text)
	return cmp.Or(err, f.Close())
}

// await waits for the command's end, its time limit or ctx, and ends what is left of it.
func (s step) await(ctx context.Context, group *proc.Group, o Options) (int, error) {
	timer := time.NewTimer(s.limit)
	defer timer.Stop()
	atOnce := proc.Ladder{Grace: -1, Persist: leftoverGrace}
	failure := ""
	select {
	case <-ctx.Done():
		group.End(ctx, atOnce)
		return code(group), ctx.Err()
	case <-timer.C:
		group.End(ctx, atOnce)
		failure = fmt.Sprintf("%s did not end within %v; see %s", s.what, s.limit, s.key)
	case <-group.Exited():
		group.End(ctx, proc.Ladder{Grace: leftoverGrace, Persist: leftoverGrace})
		if exit := group.Wait(); exit.Code != 0 {
			failure = s.what + " command failed: " + exit.Text
		}
	}
	if failure == "" {
		return 0, ctx.Err()
	}
	exit := code(group)
	return exit, &FailedError{Exit: exit, Text: failure, Tail: proc.Tail(o.LogPath, tailLines, proc.NewMask(o.Env))}
}

// code is the exit code of a command that was ended. It does not wait for one that not even SIGKILL moves.
func code(group *proc.Group) int {
	select {
	case <-group.Exited():
		return group.Wait().Code
	default:
		return 128 + int(syscall.SIGKILL)
	}
}

// capture runs a short command and returns what it printed on standard output, without white space around it.
func capture(ctx context.Context, o Options, key, script string) (string, error) {
	out := &bounded{limit: printLimit}
	exit, err := step{what: "the " + key, key: key, script: script, limit: shortTimeout, stdout: out}.run(ctx, o)
	switch {
	case err != nil:
		return "", err
	case out.over:
		return "", &FailedError{Exit: exit, Text: fmt.Sprintf("the %s command printed more than %d KiB", key, printLimit>>10)}
	}
	return strings.TrimSpace(out.buf.String()), nil
}

// bounded keeps the first bytes of what is written to it. One goroutine writes.
type bounded struct {
	limit int
	buf   bytes.Buffer
	over  bool
}

// Write takes all of p, and keeps what fits.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.buf.Len(); len(p) > room {
		b.over = true
		_, _ = b.buf.Write(p[:room])
	} else {
		_, _ = b.buf.Write(p)
	}
	return len(p), nil
}
