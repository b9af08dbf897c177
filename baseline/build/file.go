package build

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
)

// FileAt returns a file as it is in a commit, path relative to the top of the repository with forward slashes. An absent
// file gives an error that wraps fs.ErrNotExist. A folder or a symbolic link is refused: the link's target may lie
// outside the commit.
func FileAt(ctx context.Context, repo, commit, path string) ([]byte, error) {
	if !fs.ValidPath(path) || strings.HasPrefix(commit, "-") {
		return nil, fmt.Errorf("file %q of commit %q: %w", path, commit, fs.ErrInvalid)
	}
	r, err := open(repo)
	if err != nil {
		return nil, err
	}
	// One entry: "100644 blob <hash>\t<path>\0".
	out, err := r.run(ctx, nil, "--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit, "--", path)
	if err != nil {
		return nil, err
	}
	entry, _, _ := strings.Cut(string(out), "\t")
	fields := strings.Fields(entry)
	if len(fields) != 3 {
		return nil, fmt.Errorf("%s at commit %.12s: %w", path, commit, fs.ErrNotExist)
	}
	if mode := fields[0]; mode != "100644" && mode != "100755" {
		return nil, fmt.Errorf("%s at commit %.12s is no regular file (mode %s): %w", path, commit, mode, fs.ErrInvalid)
	}
	return r.run(ctx, nil, "cat-file", "blob", fields[2])
}
