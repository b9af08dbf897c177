package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// LeftError lists what could not be removed of a worktree, by absolute path.
type LeftError struct{ Paths []string }

// Error names the paths.
func (e *LeftError) Error() string {
	return "could not be removed, please do: " + strings.Join(e.Paths, ", ")
}

// WorktreeOptions says what a worktree gets beside the files of its commit. The zero value: nothing.
type WorktreeOptions struct {
	// LFS replaces the pointers of git-lfs by the files they stand for; git-lfs must be installed. It notes its own version in
	// the repository's configuration, lfs.repositoryformatversion.
	LFS bool
	// Submodules checks submodules out, those within them too: from the repositories the user's checkout has of them, else
	// from where .gitmodules says.
	Submodules bool
	// Env is the caller's environment, of which downloads see little; see [ResolveOptions].
	Env []string
	// LocalSubmodules lets .gitmodules name paths of this machine. It is for tests: a commit under test could read any
	// repository here.
	LocalSubmodules bool
}

// AddWorktree checks a commit (a full hash) out into dir, which must not exist or be empty, and remarks on what the commit
// needs and the options leave out. The user's own working tree, index, branches and configuration stay as they are; no hook of
// the repository runs. The paths of two arms must be equally long, since the length of paths and environment can move a
// server's speed.
func AddWorktree(ctx context.Context, repo, dir, commit string, o WorktreeOptions) (notes []string, err error) {
	if !hash.MatchString(commit) {
		return nil, fmt.Errorf("worktree of %q: %w: not a full commit hash", commit, fs.ErrInvalid)
	}
	r, err := open(repo)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	// Forget worktrees whose folder is gone: a run that was killed may have left one registered under this path.
	if _, err := r.run(ctx, nil, "worktree", "prune"); err != nil {
		return nil, err
	}
	if _, err := r.run(ctx, []string{dir}, "-c", "submodule.recurse=false", "worktree", "add", "--detach", "--quiet", dir, commit); err != nil {
		return nil, err
	}
	t := &tree{repository: r, dir: dir, commit: commit, o: o, env: personal(o.Env)}
	return t.complete(ctx)
}

// RemoveWorktree removes a worktree that [AddWorktree] made, with everything a build left in it, read-only files too. An
// absent one is forgotten by git, also where git was killed while it made it, and no error. What may not be removed is a [LeftError]. It refuses a folder that is a repository of its own
// or holds the given one.
func RemoveWorktree(ctx context.Context, repo, dir string) error {
	r, err := open(repo)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if info, err := os.Lstat(filepath.Join(dir, ".git")); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a repository, not a worktree of ours: %w", dir, fs.ErrInvalid)
	}
	if rel, err := filepath.Rel(dir, r.top); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%s holds the repository: %w", dir, fs.ErrInvalid)
	}
	left := remove(dir)
	// A git that was killed while it made the worktree left it locked, and what is locked is not pruned. The usual answer is
	// that it is not.
	_, _ = r.run(ctx, nil, "worktree", "unlock", dir)
	_, err = r.run(ctx, nil, "worktree", "prune")
	if len(left) > 0 {
		return errors.Join(&LeftError{left}, err)
	}
	return err
}

// remove deletes a tree and returns what it may not delete.
func remove(dir string) []string {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	// A folder without write permission keeps its files. A link is never followed: WalkDir does not.
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a folder needs x
		}
		return nil
	})
	if os.RemoveAll(dir) == nil {
		return nil
	}
	var left []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			left = append(left, path)
		}
		return nil
	})
	if len(left) == 0 {
		left = []string{dir}
	}
	return left
}
