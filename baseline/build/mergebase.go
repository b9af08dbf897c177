package build

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// errShallow is shown when history that decides the merge base is missing.
const errShallow = "the clone is shallow, and the merge base of %s and head lies in history that is not here; check out with fetch-depth: 0"

// mergeBase returns the common ancestor that base is measured at. Of several (after criss-cross merges) it takes the one
// with the newest commit date, then the smallest hash, and names all of them in a note.
func (r *repository) mergeBase(ctx context.Context, base Revision, head string) (string, []string, error) {
	out, err := r.text(ctx, "merge-base", "--all", base.Commit, head)
	// Exit 1 is "none"; a shallow boundary may also make git say that an object is missing.
	if exit, refused := said(err); err != nil && (!refused || exit != 1) {
		return "", nil, err
	}
	bases := strings.Fields(out)
	boundary, err := r.shallow(ctx)
	if err != nil {
		return "", nil, err
	}
	if len(bases) == 0 {
		if len(boundary) > 0 {
			return "", nil, usagef(errShallow, base.Ref)
		}
		return "", nil, usagef("%s and head share no history, so there is no merge base; name another --base, or compare the refs as they are with --strategy ref", base.Ref)
	}
	if cut, err := r.cutBetween(ctx, base.Commit, head, bases, boundary); err != nil || cut {
		return "", nil, cmp.Or(err, usagef(errShallow, base.Ref))
	}
	if len(bases) == 1 {
		return bases[0], nil, nil
	}
	if bases, err = r.newestFirst(ctx, bases); err != nil {
		return "", nil, err
	}
	note := fmt.Sprintf("%s and head have %d merge bases (%s); measured is the newest, %.12s", base.Ref, len(bases), strings.Join(bases, ", "), bases[0])
	return bases[0], []string{note}, nil
}

// shallow returns the commits at which a shallow clone was cut; none for a full clone.
func (r *repository) shallow(ctx context.Context) (map[string]bool, error) {
	name, err := r.text(ctx, "rev-parse", "--git-path", "shallow")
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.top, name)
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	boundary := map[string]bool{}
	for commit := range strings.FieldsSeq(string(data)) {
		boundary[commit] = true
	}
	return boundary, err
}

// cutBetween reports whether a shallow clone was cut between the tips and the merge bases found. Then a newer common
// ancestor could lie in the missing part. A cut at or below a merge base is harmless.
func (r *repository) cutBetween(ctx context.Context, base, head string, bases []string, boundary map[string]bool) (bool, error) {
	if len(boundary) == 0 {
		return false, nil
	}
	out, err := r.run(ctx, nil, append([]string{"rev-list", base, head, "--not"}, bases...)...)
	if err != nil {
		return false, err
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if boundary[lines.Text()] {
			return true, nil
		}
	}
	return false, lines.Err()
}

// newestFirst sorts commits by falling commit date, then by hash.
func (r *repository) newestFirst(ctx context.Context, commits []string) ([]string, error) {
	dates := map[string]int64{}
	for _, c := range commits {
		out, err := r.text(ctx, "show", "--no-patch", "--format=%ct", c, "--")
		if err != nil {
			return nil, err
		}
		if dates[c], err = strconv.ParseInt(out, 10, 64); err != nil {
			return nil, fmt.Errorf("commit date of %s: %w", c, err)
		}
	}
	slices.SortFunc(commits, func(a, b string) int {
		return cmp.Or(cmp.Compare(dates[b], dates[a]), cmp.Compare(a, b))
	})
	return commits, nil
}
