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

// mergeBase returns the common ancestor that base is measured at. Of several (after criss-cross merges) it takes the one
// with the newest commit date, then the smallest hash, and names all of them in a note.
func (s *search) mergeBase(ctx context.Context, base Revision, head string) (string, []string, error) {
	bases, sure, err := s.commonAncestors(ctx, base.Commit, head)
	if err == nil && !sure {
		err = s.deepen(ctx, "the merge base of "+base.Ref+" and head", func() (bool, error) {
			bases, sure, err = s.commonAncestors(ctx, base.Commit, head)
			return sure, err
		}, base.Commit, head)
	}
	if err != nil {
		return "", nil, err
	}
	switch len(bases) {
	case 0:
		return "", nil, usagef("%s and head share no history, so there is no merge base; name another --base, or compare the refs as they are with --strategy ref", base.Ref)
	case 1:
		return bases[0], nil, nil
	}
	if bases, err = s.newestFirst(ctx, bases); err != nil {
		return "", nil, err
	}
	note := fmt.Sprintf("%s and head have %d merge bases (%s); measured is the newest, %.12s", base.Ref, len(bases), strings.Join(bases, ", "), bases[0])
	return bases[0], []string{note}, nil
}

// commonAncestors returns the merge bases of two commits, none for unrelated histories. It is not sure of them where a shallow
// clone may hide another one, or may hide that one is an ancestor of the other.
func (s *search) commonAncestors(ctx context.Context, base, head string) (bases []string, sure bool, err error) {
	out, err := s.text(ctx, "merge-base", "--all", base, head)
	// Exit 1 is "none".
	if exit, refused := said(err); err != nil && (!refused || exit != 1) {
		return nil, false, err
	}
	bases = strings.Fields(out)
	cut, err := s.cuts(ctx, base, head)
	if err != nil || len(cut) == 0 {
		return bases, err == nil, err
	}
	if len(bases) != 1 {
		return bases, false, nil
	}
	ends, err := s.endsAbove(ctx, bases[0], base, head)
	return bases, !ends, err
}

// endsAbove reports whether history ends above a merge base of two commits, at a cut or at a first commit. Then a newer common
// ancestor could lie beyond the cut; a first commit could be an ancestor of the merge base, unseen, and be counted as ahead of
// it. A cut at or below the merge base is harmless.
func (s *search) endsAbove(ctx context.Context, mergeBase, base, head string) (bool, error) {
	out, err := s.run(ctx, nil, "rev-list", "--parents", base, head, "--not", mergeBase, "--")
	if err != nil {
		return false, err
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, len(out)+1)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), " ") { // a commit without parents
			return true, nil
		}
	}
	return false, lines.Err()
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
