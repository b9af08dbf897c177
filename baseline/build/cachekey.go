package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

// keyVersion changes when what a key stands for does.
const keyVersion = "1"

// fields digests named values one after the other.
type fields struct {
	hash interface {
		io.Writer
		Sum(b []byte) []byte
	}
}

// add appends a value. Its length keeps "ab"+"c" and "a"+"bc" apart. A hash never fails to write.
func (f fields) add(name, value string) {
	_, _ = fmt.Fprintf(f.hash, "%s %d %s\n", name, len(value), value)
}

func (f fields) sum() string { return hex.EncodeToString(f.hash.Sum(nil)) }

// cacheKey is 64 hex over all that a build may depend on, as far as we know it. The tree's hash holds the commits of its
// submodules. Of secrets only the names count: a digest of a short one can be guessed. What differs in each run counts
// not at all.
func cacheKey(ctx context.Context, o Options, printed []string) (string, error) {
	r, err := open(o.Cache.Repo)
	if err != nil {
		return "", err
	}
	tree, err := r.text(ctx, "rev-parse", "--verify", "--end-of-options", o.Cache.Commit+"^{tree}")
	if err != nil {
		return "", err
	}
	f := fields{sha256.New()}
	f.add("version", keyVersion)
	f.add("tree", tree)
	f.add("checkout", fmt.Sprintf("lfs=%t submodules=%t", o.Cache.Worktree.LFS, o.Cache.Worktree.Submodules))
	f.add("platform", runtime.GOOS+"/"+runtime.GOARCH)
	f.add("command", o.Command)
	for _, glob := range o.Outputs {
		f.add("output", glob)
	}
	for _, text := range printed {
		f.add("tool", text)
	}
	for _, entry := range slices.Sorted(slices.Values(o.Env)) {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains([]string{"TMPDIR", "TAILGATE_RUN", "RUNNER_TRACKING_ID"}, name) {
			continue
		}
		f.add("env", name)
		if !proc.Secret(name) {
			f.add("value", value)
		}
	}
	return f.sum(), nil
}

// Reachable reports whether a commit is reachable from one of the branches: from the remote's where there is one, else from
// the local one. A shallow clone may not show it, which gives false.
func Reachable(ctx context.Context, repo, commit string, branches []string) (bool, error) {
	r, err := open(repo)
	if err != nil {
		return false, err
	}
	for _, branch := range branches {
		for _, ref := range []string{"refs/remotes/origin/" + branch, "refs/heads/" + branch} {
			if _, err := r.text(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}"); err != nil {
				if _, refused := said(err); !refused {
					return false, err
				}
				continue // no such branch here
			}
			_, err := r.run(ctx, nil, "merge-base", "--is-ancestor", commit, ref)
			exit, refused := said(err)
			switch {
			case err == nil:
				return true, nil
			case !refused || exit != 1:
				return false, err
			}
			break // the remote's branch is the one that counts
		}
	}
	return false, nil
}

// renewTree checks the commit out anew, without anything else in the worktree.
func (c Cache) renewTree(ctx context.Context, dir string) error {
	if err := RemoveWorktree(ctx, c.Repo, dir); err != nil {
		return err
	}
	// What the commit needs beyond its files was remarked when it was first checked out.
	_, err := AddWorktree(ctx, c.Repo, dir, c.Commit, c.Worktree)
	return err
}
