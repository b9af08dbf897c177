package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	if err := errors.Join(c.makeTrees(), c.makeCaches()); err != nil {
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
	if !shared {
		if ok, err := c.imageStands(ctx); err != nil || !ok {
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
			Artefact: info.Build.SHA256, Image: info.Build.Image, Build: a.target.Build, Start: a.target.Start, Args: a.args, Env: a.digested(),
			ReadyPath: a.target.Ready.Path,
		})
		if build.Unpinned(a.target.Start, info.Build.Image) {
			c.note("image_not_pinned", string(name)+" runs a container image by its tag, which may name another image tomorrow: let target.image_digest print its digest")
		}
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
	c.trees = filepath.Join(c.app.treesBelow(), c.id)
	if err := os.MkdirAll(c.trees, 0o700); err != nil {
		return err
	}
	return c.keepState()
}

func (c *comparison) buildArm(ctx context.Context, name record.Arm) (bool, error) {
	target, dir := c.arms[name].target, c.tree(name)
	if err := c.book.Worktree(dir); err != nil {
		return false, err
	}
	notes, err := build.AddWorktree(ctx, c.repo, dir, c.commit(name), c.worktreeOptions(name))
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
	fmt.Fprintf(c.progress, "build %s: %s\n", name, orDash(c.app.maskOf(c.arms[name], c.id).String(target.Build)))
	o := c.buildOptions(name)
	o.Cache = c.buildCache(ctx, name)
	o.Watch = c.watchBuild(o.LogPath, dir)
	b, err := build.Run(ctx, o)
	c.run.Arms.Get(name).Build = b
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if b.Cached {
		fmt.Fprintf(c.progress, "build %s: cached\n", name)
	}
	return c.buildFailed(name, err)
}

// worktreeOptions is what an arm's worktree gets beside the files of its commit.
func (c *comparison) worktreeOptions(name record.Arm) build.WorktreeOptions {
	git := c.arms[name].target.Git
	return build.WorktreeOptions{LFS: git.LFS, Submodules: git.Submodules, Env: c.app.environ}
}

// buildFailed puts a failed build on record, as an incident; other errors are returned. It reports whether the build is good.
func (c *comparison) buildFailed(name record.Arm, err error) (bool, error) {
	failed, ok := errors.AsType[*build.FailedError](err)
	if !ok {
		return err == nil, err
	}
	c.incident(record.Incident{
		ID: record.BuildFailed, Arm: name, Exit: &failed.Exit, Text: failed.Error(), Log: buildLog(name), Tail: failed.Tail,
	})
	return false, nil
}

// buildLog is the place of an arm's build log in the run folder.
func buildLog(name record.Arm) string { return filepath.Join("build", string(name)+".log") }

// buildOptions is how an arm is built in its worktree.
func (c *comparison) buildOptions(name record.Arm) build.Options {
	target := c.arms[name].target
	own := maps.Clone(target.Env)
	if own == nil {
		own = map[string]string{}
	}
	own["TAILGATE_RUN"] = c.id
	return build.Options{
		Dir: c.tree(name), Command: target.Build, LogPath: filepath.Join(c.writer.Dir(), buildLog(name)), Timeout: time.Duration(target.BuildTimeout),
		Env:     proc.Environ(c.app.lookup, c.app.environ, proc.Build, own, target.PassEnv),
		Outputs: target.Outputs, Toolchain: target.Toolchain, Image: target.ImageDigest,
		Note: func(id, text string) { c.note(id, string(name)+": "+text) },
	}
}

// imageStands asks once more for base's image: a build of head that writes the same tag has taken its place.
func (c *comparison) imageStands(ctx context.Context) (bool, error) {
	was := c.run.Arms.Base.Build.Image
	if was == "" {
		return true, nil
	}
	now, err := build.ImageDigest(ctx, c.buildOptions(record.Base))
	if err == nil && now != was {
		err = &build.FailedError{Text: "target.image_digest printed another digest once head was built: both builds write one tag; " +
			"give each its own, as with server:$(git rev-parse HEAD)"}
	}
	return c.buildFailed(record.Base, err)
}

// buildCache is where the arm's build may be kept; nil for nowhere.
func (c *comparison) buildCache(ctx context.Context, name record.Arm) *build.Cache {
	kept := c.file.Baseline
	if kept.Cache == "" || !c.arms[name].target.Relocatable {
		return nil
	}
	protected, err := build.Reachable(ctx, c.repo, c.commit(name), kept.Protected)
	if err != nil {
		c.note("cache_off", fmt.Sprintf("%s: %v", name, err))
		return nil
	}
	return &build.Cache{Dir: kept.Cache, Repo: c.repo, Commit: c.commit(name), Protected: protected, Worktree: c.worktreeOptions(name)}
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
		// Also where there is no folder: a git that was killed may have got no further than to register it.
		err := build.RemoveWorktree(ctx, c.repo, dir)
		if err == nil {
			err = c.book.Removed(dir)
		}
		errs = append(errs, err)
	}
	errs = append(errs, c.removeCaches())
	if err := errors.Join(errs...); err != nil {
		return err // the state file stays: what is left, somebody else may remove
	}
	err := c.closeState()
	if rmErr := os.Remove(c.trees); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) && c.book.Ended() {
		err = errors.Join(err, rmErr)
	}
	return err
}

func orDash(s string) string {
	if s == "" {
		return "the checkout is the build"
	}
	return s
}
