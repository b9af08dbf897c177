package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

// workingTree makes a commit of the files as they lie in the checkout: what is staged and what is not, new and deleted files,
// but nothing that git ignores. A clean tree is HEAD itself. The commit stands on HEAD, no ref names it, and git forgets it
// some weeks later. It is a UsageError where there is no such tree, or where git cannot read it.
func (s *search) workingTree(ctx context.Context, rev Revision) (Revision, []string, error) {
	inside, err := s.text(ctx, "rev-parse", "--is-inside-work-tree")
	if err != nil || inside != "true" {
		if ctx.Err() != nil {
			return Revision{}, nil, ctx.Err()
		}
		return Revision{}, nil, usagef("--head %s: this repository has no working tree; name a branch, a tag or a commit", WorkingTree)
	}
	parent, err := s.commit(ctx, "HEAD")
	if errors.Is(err, errUnknown) {
		return Revision{}, nil, usagef("--head %s: there is no commit yet, so there is nothing to compare the working tree with; commit once", WorkingTree)
	}
	if err != nil {
		return Revision{}, nil, err
	}
	notes, err := s.beyondTree(ctx)
	if err != nil {
		return Revision{}, nil, err
	}
	tree, err := s.writeTree(ctx, parent)
	if err != nil {
		return Revision{}, nil, err
	}
	rev.Commit = parent
	committed, err := s.text(ctx, "rev-parse", "--verify", "--end-of-options", parent+"^{tree}")
	if err != nil || tree == committed {
		return rev, notes, err
	}
	rev.Commit, err = s.commitTree(ctx, tree, parent)
	rev.Uncommitted = true
	return rev, notes, err
}

// beyondTree refuses a tree with conflicts, whose files hold two versions at once, and remarks on submodules with changes of
// their own: a commit holds a submodule's commit, not its files.
func (s *search) beyondTree(ctx context.Context) (notes []string, err error) {
	out, err := s.do(ctx, call{env: s.env}, "status", "--porcelain=v2", "-z", "--untracked-files=no", "--ignore-submodules=none")
	if err != nil {
		return nil, err
	}
	entries := strings.Split(string(out), "\x00")
	for i := 0; i < len(entries); i++ {
		kind, _, _ := strings.Cut(entries[i], " ")
		switch kind {
		case "u": // u XY sub m1 m2 m3 mW h1 h2 h3 path
			fields := strings.SplitN(entries[i], " ", 11)
			return nil, usagef("--head %s: %s has a merge conflict; resolve it first", WorkingTree, proc.Clean(fields[len(fields)-1], refLimit))
		case "2":
			i++ // a rename is followed by its old path
		case "1": // 1 XY sub mH mI mW hH hI path; sub is S, then C M U or dots
			fields := strings.SplitN(entries[i], " ", 9)
			if len(fields) == 9 && strings.HasPrefix(fields[2], "S") && strings.ContainsAny(fields[2], "MU") {
				notes = append(notes, fmt.Sprintf("submodule %s has changes that are not committed there; they are not measured", proc.Clean(fields[8], refLimit)))
			}
		}
	}
	return notes, nil
}

// writeTree stores the working tree and returns its hash. It works on a copy of the index, and the user's own stays as it is.
func (s *search) writeTree(ctx context.Context, parent string) (string, error) {
	// Not in TMPDIR, which may lie in the working tree.
	own, err := s.text(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return "", err
	}
	dir, err := proc.PrivateDir(own)
	if err != nil {
		return "", err
	}
	defer remove(dir)
	index := filepath.Join(dir, "index")
	with := call{env: append(slices.Clone(s.env), "GIT_INDEX_FILE="+index)}
	err = s.copyIndex(ctx, index)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = s.do(ctx, with, "read-tree", parent)
	}
	if err != nil {
		return "", err
	}
	// A split index would write its shared half beside the user's.
	_, err = s.do(ctx, with, "-c", "core.splitIndex=false", "-c", "advice.addEmbeddedRepo=false", "add", "--all")
	if refused, ok := errors.AsType[*gitError](err); ok {
		return "", usagef("--head %s: git cannot take the working tree: %s", WorkingTree, refused.message)
	}
	if err != nil {
		return "", err
	}
	out, err := s.do(ctx, with, "-c", "core.splitIndex=false", "write-tree")
	return strings.TrimSpace(string(out)), err
}

// copyIndex copies the user's index, so that what git knows of unchanged and of sparse files need not be found again. The copy
// keeps the time: by it git tells which files may have changed in the very instant the index was written.
func (s *search) copyIndex(ctx context.Context, to string) error {
	name, err := s.text(ctx, "rev-parse", "--git-path", "index")
	if err != nil {
		return err
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.top, name)
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, 0o600); err != nil { //nolint:gosec // a fresh folder of ours, a name of ours
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// commitTree makes a commit of a tree. Its author is tailgate and its date that of its parent, so that the same files on the
// same commit give the same commit, whoever is configured as the user.
func (s *search) commitTree(ctx context.Context, tree, parent string) (string, error) {
	date, err := s.text(ctx, "show", "--no-patch", "--format=%ct", parent, "--")
	if err != nil {
		return "", err
	}
	var env []string
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+who+"_NAME=tailgate", "GIT_"+who+"_EMAIL=tailgate@localhost", "GIT_"+who+"_DATE="+date+" +0000")
	}
	out, err := s.do(ctx, call{env: env}, "commit-tree", tree, "-p", parent, "-m", fmt.Sprintf("Uncommitted changes on %.12s", parent))
	commit := strings.TrimSpace(string(out))
	if err == nil && !hash.MatchString(commit) {
		return "", errors.New("git commit-tree gave no commit")
	}
	return commit, err
}
