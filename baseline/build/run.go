package build

import (
	"context"
	"errors"
	"strings"
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
	// Toolchain are commands that name the tools, run before the build. Image prints the digest of the container image, run
	// after it; empty for none.
	Toolchain []string
	Image     string
	// LogPath takes the commands' output; its folder is made. Secret values of Env are masked in it when the build is over.
	LogPath string
	// Env is the whole environment, see proc.Environ. A TMPDIR of the build's own is added when it has none.
	Env []string
	// Timeout is 30 m when 0.
	Timeout time.Duration
	// Cache keeps outputs between runs; nil for none.
	Cache *Cache
	// Watch hears of each command that runs, with the folder that is its TMPDIR unless Env has one; what it returns is called
	// when the command is over. So somebody else can end what it left if this process dies. Nil: nobody hears of it.
	Watch func(tmp string, g *proc.Group) (over func())
	// Note takes remarks that decide nothing; nil for silence.
	Note func(id, text string)
}

// shown is the command as it may be put on record.
func (o Options) shown() string { return proc.NewMask(o.Env).String(o.Command) }

// Run builds one arm and digests what came out. A build that fails, takes too long or leaves nothing under its outputs is
// a [FailedError]; nothing is tried twice. When ctx ends, the build is killed at once and ctx's error returned. Whatever
// the build left running is ended: it would share the machine with the measurement. Outputs that the cache holds are taken
// from there; trouble with the cache is a note, and the build is made.
func Run(ctx context.Context, o Options) (b record.Build, err error) {
	if o.Note == nil {
		o.Note = func(string, string) {}
	}
	defer func() {
		if maskErr := proc.MaskFile(o.LogPath, proc.NewMask(o.Env)); err == nil {
			err = maskErr
		}
	}()
	b.Command = o.shown()
	printed, known, err := toolchain(ctx, o, &b)
	if err != nil {
		return b, err
	}
	kept := newShelf(ctx, o, printed, known)
	taken, err := kept.take(ctx, o, &b)
	if err != nil {
		return b, err
	}
	if !taken {
		if err := makeBuild(ctx, o, &b); err != nil {
			return b, err
		}
		kept.put(ctx, o, b.SHA256)
	}
	if err := ctx.Err(); err != nil {
		return b, err
	}
	if o.Image != "" {
		b.Image, err = ImageDigest(ctx, o)
		if failed, ok := errors.AsType[*FailedError](err); ok {
			b.Exit, b.SHA256 = failed.Exit, ""
		}
	}
	return b, err
}

// makeBuild runs the build command, if there is one, and digests what lies under the outputs.
func makeBuild(ctx context.Context, o Options, b *record.Build) error {
	if strings.TrimSpace(o.Command) != "" {
		began := time.Now()
		exit, err := buildStep(o).run(ctx, o)
		b.Exit, b.Seconds = exit, time.Since(began).Seconds()
		if err != nil {
			return err
		}
	}
	sum, files, err := Artefact(ctx, o.Dir, o.Outputs)
	if failed, ok := errors.AsType[*FailedError](err); ok {
		failed.Tail = proc.Tail(o.LogPath, tailLines, proc.NewMask(o.Env))
	}
	b.SHA256, b.Files = sum, files
	return err
}
