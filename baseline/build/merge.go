package build

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"strings"
)

// firstParent returns what a merge commit is measured against. A commit that is no merge of two, or merges another head than
// the one expected, is refused: it is a merge ref that was not made anew, and shows what will not land.
func (s *search) firstParent(ctx context.Context, head Revision) (Revision, error) {
	parents, err := s.parents(ctx, head.Commit)
	if err != nil {
		return Revision{}, err
	}
	const mend = "fetch the merge ref again (refs/pull/N/merge; a conflict leaves it behind or takes it away), or choose --strategy " + MergeBase
	if len(parents) != 2 {
		return Revision{}, usagef("stale_merge: %s is commit %.12s with %s; --strategy %s measures a merge commit of exactly two: %s",
			head.Ref, head.Commit, parentsText(len(parents)), Merge, mend)
	}
	if want := s.o.MergeHead; want != "" && parents[1] != want {
		return Revision{}, usagef("stale_merge: %s is commit %.12s, which merges %.12s and not the expected head %.12s: %s",
			head.Ref, head.Commit, parents[1], want, mend)
	}
	// A shallow clone may end at the merge commit.
	if err := s.have(ctx, parents[0], "the first parent of "+head.Ref); err != nil {
		return Revision{}, err
	}
	return Revision{Ref: head.Ref + "^1", Commit: parents[0], Strategy: Merge}, nil
}

// parents returns the parents that a commit was made with. It reads the commit itself: where a shallow clone ends, git's own
// walks show a commit without parents.
func (r *repository) parents(ctx context.Context, commit string) ([]string, error) {
	out, err := r.run(ctx, nil, "cat-file", "commit", commit)
	if err != nil {
		return nil, err
	}
	var parents []string
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, len(out)+1)
	for lines.Scan() && lines.Text() != "" { // an empty line ends the header
		if parent, ok := strings.CutPrefix(lines.Text(), "parent "); ok {
			if !hash.MatchString(parent) {
				return nil, errors.New("git cat-file: a parent that is no hash")
			}
			parents = append(parents, parent)
		}
	}
	return parents, lines.Err()
}

func parentsText(n int) string {
	switch n {
	case 0:
		return "no parent"
	case 1:
		return "one parent"
	default:
		return "more than two parents"
	}
}
