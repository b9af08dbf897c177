package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tailgate-ci/tailgate/baseline/build"
	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// tree is the worktree of an arm. Both paths are equally long: path and environment size must not differ between arms. One
// build has one worktree.
func (c *comparison) tree(name record.Arm) string {
	if one, ok := c.oneBuild(); ok {
		name = one
	}
	return filepath.Join(c.trees, string(name))
}

// oneBuild is the arm whose build both arms start, with a switch or as it is; false where each has its own.
func (c *comparison) oneBuild() (record.Arm, bool) {
	switch c.run.Kind {
	case record.KindSwitch:
		return record.Head, true
	case record.KindCalibrate:
		return record.Base, true
	default:
		return "", false
	}
}

// buildArms builds base, then head, and compares what came out. It reports whether there is something to measure; a build
// that fails is an incident, not an error.
func (c *comparison) buildArms(ctx context.Context) (bool, error) {
	if err := c.makeTrees(); err != nil {
		return false, err
	}
	names := []record.Arm{record.Base, record.Head}
	one, shared := c.oneBuild()
	if shared {
		names = []record.Arm{one}
	}
	for _, name := range names {
		ok, err := c.buildArm(ctx, name)
		if err != nil || !ok {
			return false, err
		}
	}
	base, head := c.run.Arms.Base, c.run.Arms.Head
	if shared {
		base.Build = c.run.Arms.Get(one).Build
		head.Build = base.Build
	}
	for _, name := range []record.Arm{record.Base, record.Head} {
		a, info := c.arms[name], c.run.Arms.Get(name)
		info.SHA256 = build.ArmDigest(build.Arm{
			Artefact: info.Build.SHA256, Build: a.target.Build, Start: a.target.Start, Args: a.args, Env: a.env, ReadyPath: a.target.Ready.Path,
		})
	}
	if c.run.Kind == record.KindRevisions && base.SHA256 == head.SHA256 {
		c.incident(record.Incident{ID: record.SameArtifact, Text: "both commits give the same build: either the build ignores the source " +
			"(a cached image, a pinned install), or the change lies outside the service (then filter paths in the workflow)"})
		return false, nil
	}
	return true, nil
}

// makeTrees chooses where worktrees live: the CI runner's own folder, else the user's cache.
func (c *comparison) makeTrees() error {
	root := c.app.getenv("RUNNER_TEMP")
	if root == "" {
		root = c.app.getenv("XDG_CACHE_HOME")
	}
	if root == "" {
		root = filepath.Join(c.app.getenv("HOME"), ".cache")
	}
	c.trees = filepath.Join(root, "tailgate", c.id)
	return os.MkdirAll(c.trees, 0o700)
}

func (c *comparison) buildArm(ctx context.Context, name record.Arm) (bool, error) {
	target, dir := c.arms[name].target, c.tree(name)
	notes, err := build.AddWorktree(ctx, c.repo, dir, c.commit(name), build.WorktreeOptions{
		LFS: target.Git.LFS, Submodules: target.Git.Submodules, Env: c.app.environ,
	})
	for _, text := range notes {
		// Both arms mostly say the same.
		if n := (record.Note{ID: "worktree", Text: text}); !slices.Contains(c.run.Notes, n) {
			c.note(n.ID, n.Text)
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		c.incident(record.Incident{ID: record.WorktreeFailed, Arm: name, Text: err.Error()})
		return false, nil
	}
	log := filepath.Join("build", string(name)+".log")
	fmt.Fprintf(c.progress, "build %s: %s\n", name, orDash(target.Build))
	env := proc.Environ(c.app.lookup, c.app.environ, proc.Build, target.Env, target.PassEnv)
	info := c.run.Arms.Get(name)
	b, err := build.Run(ctx, build.Options{
		Dir: dir, Command: target.Build, LogPath: filepath.Join(c.writer.Dir(), log), Env: env,
		Timeout: time.Duration(target.BuildTimeout), Outputs: target.Outputs,
	})
	info.Build = b
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if _, ok := errors.AsType[*build.UsageError](err); ok {
		return false, usage(err, "correct target.outputs")
	}
	failed, ok := errors.AsType[*build.FailedError](err)
	if !ok {
		return err == nil, err
	}
	c.incident(record.Incident{ID: record.BuildFailed, Arm: name, Exit: &failed.Exit, Text: failed.Error(), Log: log, Tail: failed.Tail})
	return false, nil
}

// removeTrees takes the worktrees away, on a cancelled run too.
func (c *comparison) removeTrees() error {
	if c.trees == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for _, name := range []record.Arm{record.Base, record.Head} {
		dir := filepath.Join(c.trees, string(name))
		if _, err := os.Stat(dir); err == nil {
			errs = append(errs, build.RemoveWorktree(ctx, c.repo, dir))
		}
	}
	return errors.Join(append(errs, os.Remove(c.trees))...)
}

func orDash(s string) string {
	if s == "" {
		return "the checkout is the build"
	}
	return s
}
