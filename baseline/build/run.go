package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// defaultTimeout is how long a build may take when nothing is configured.
	defaultTimeout = 30 * time.Minute
	// leftoverGrace is the time that what a build left running has to end itself.
	leftoverGrace = 2 * time.Second
	// tailLines is how much of a log a failure shows.
	tailLines = 50
)

// Options describes one build.
type Options struct {
	// Dir is the worktree. Outputs are globs below it, "**" for any depth; a folder stands for all below it. None: the
	// whole worktree except .git is the build.
	Dir     string
	Outputs []string
	// Command is run by bash -euo pipefail. Empty: the checkout is the build.
	Command string
	// LogPath takes the command's output; its folder is made.
	LogPath string
	// Env is the whole environment, see proc.Environ. A TMPDIR of the build's own is added when it has none.
	Env []string
	// Timeout is 30 m when 0.
	Timeout time.Duration
}

// Run builds one arm and digests what came out. A build that fails, takes too long or leaves nothing under its outputs is
// a [FailedError]; nothing is tried twice. When ctx ends, the build is killed at once and ctx's error returned. Whatever
// the build left running is ended: it would share the machine with the measurement.
func Run(ctx context.Context, o Options) (record.Build, error) {
	b := record.Build{Command: o.Command}
	if strings.TrimSpace(o.Command) != "" {
		began := time.Now()
		exit, err := command(ctx, o)
		b.Exit, b.Seconds = exit, time.Since(began).Seconds()
		if err != nil {
			return b, err
		}
	}
	sum, files, err := Artefact(ctx, o.Dir, o.Outputs)
	if failed, ok := errors.AsType[*FailedError](err); ok {
		failed.Tail = proc.Tail(o.LogPath, tailLines, proc.NewMask(o.Env))
	}
	b.SHA256, b.Files = sum, files
	return b, err
}

// command runs the build command to its end and returns its exit code.
func command(ctx context.Context, o Options) (int, error) {
	if err := os.MkdirAll(filepath.Dir(o.LogPath), 0o700); err != nil {
		return 0, err
	}
	tmp, err := proc.PrivateDir("")
	if err != nil {
		return 0, err
	}
	defer remove(tmp)
	c := proc.Command{Dir: o.Dir, Env: o.Env, Log: o.LogPath}
	if _, has := proc.Lookup(o.Env, "TMPDIR"); !has {
		c.Env = append([]string{"TMPDIR=" + tmp}, o.Env...)
		c.Private = tmp
	}
	shell, bash, err := proc.Shell(o.Env)
	if err != nil {
		return 0, err
	}
	c.Path, c.Args = shell, []string{"-euo", "pipefail", "-c", o.Command}
	if !bash {
		c.Args = []string{"-eu", "-c", o.Command}
		if err := os.WriteFile(o.LogPath, []byte("tailgate: bash not found, building with sh -eu\n"), 0o600); err != nil {
			return 0, err
		}
	}
	group, err := proc.Start(ctx, c)
	if err != nil {
		return 0, fmt.Errorf("build: %w", err)
	}
	return await(ctx, group, o)
}

// await waits for the build's end, its time limit or ctx, and ends what is left of it.
func await(ctx context.Context, group *proc.Group, o Options) (int, error) {
	limit := cmp.Or(o.Timeout, defaultTimeout)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	atOnce := proc.Ladder{Grace: -1, Persist: leftoverGrace}
	failure := ""
	select {
	case <-ctx.Done():
		group.End(ctx, atOnce)
		return code(group), ctx.Err()
	case <-timer.C:
		group.End(ctx, atOnce)
		failure = fmt.Sprintf("the build did not end within %v; see target.build_timeout", limit)
	case <-group.Exited():
		group.End(ctx, proc.Ladder{Grace: leftoverGrace, Persist: leftoverGrace})
		if exit := group.Wait(); exit.Code != 0 {
			failure = "the build command failed: " + exit.Text
		}
	}
	if failure == "" {
		return 0, ctx.Err()
	}
	exit := code(group)
	return exit, &FailedError{Exit: exit, Text: failure, Tail: proc.Tail(o.LogPath, tailLines, proc.NewMask(o.Env))}
}

// code is the exit code of a build that was ended. It does not wait for one that not even SIGKILL moves.
func code(group *proc.Group) int {
	select {
	case <-group.Exited():
		return group.Wait().Code
	default:
		return 128 + int(syscall.SIGKILL)
	}
}
