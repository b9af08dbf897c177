package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

// The strategies: how the measured base follows from the refs.
const (
	// MergeBase measures the newest common ancestor of base and head: what head was branched from.
	MergeBase = "merge-base"
	// Merge measures a merge commit against its first parent: what will land.
	Merge = "merge"
	// Ref measures the base ref itself.
	Ref = "ref"
)

// WorkingTree is the head ref that means the files as they lie in the checkout, committed or not.
const WorkingTree = "."

// subjectLimit bounds what is kept of a commit's subject, in bytes.
const subjectLimit = 200

// Revision is one arm's commit and where it came from.
type Revision struct {
	// Ref is what the user named, or the default that stood in for it. Commit is its full hash.
	Ref, Commit string
	Strategy    string
	// Subject is the first line of the commit message, cleaned.
	Subject string
	// Ahead counts the commits that the base ref has and the measured base has not. 0 for head.
	Ahead int
	// Uncommitted says that Commit was made of the working tree for this comparison, on top of HEAD. No ref names it.
	Uncommitted bool
}

// Revisions is the pair to compare.
type Revisions struct{ Base, Head Revision }

// ResolveOptions says what to compare. The zero value compares HEAD with its merge base on the main branch.
type ResolveOptions struct {
	// Base and Head are refs. Empty: HEAD for head; origin/HEAD, else main, else master for base. Head may be [WorkingTree].
	// Base is empty with [Merge], where the merge commit names it.
	Base, Head string
	// Strategy is [MergeBase] (also when empty), [Merge] or [Ref].
	Strategy string
	// MergeHead is the commit, a full hash, that a [Merge] must have as its second parent, as an event names it. Empty: not
	// known, and any is taken.
	MergeHead string
	// Env is the caller's environment. git sees little of it, where it acts as the user: it fetches what a shallow clone
	// lacks, or reads the working tree. nil: nothing of it.
	Env []string
	// Progress receives one line before each fetch. nil: none.
	Progress func(line string)
	// AllowEqual lets base and head be one commit, for a comparison by a switch.
	AllowEqual bool
}

// Resolve turns refs into commits, once, and returns remarks for the report beside them. What the user can mend is a
// [UsageError]; it never falls back to another pair than the one asked for. What a shallow clone lacks is fetched from its
// origin, for two minutes in all; neither branches nor FETCH_HEAD move.
func Resolve(ctx context.Context, repo string, o ResolveOptions) (Revisions, []string, error) {
	r, err := open(repo)
	if err != nil {
		return Revisions{}, nil, err
	}
	o.Strategy = cmp.Or(o.Strategy, MergeBase)
	if err := o.check(); err != nil {
		return Revisions{}, nil, err
	}
	s := &search{repository: r, o: o, left: fetchLimit, env: personal(o.Env)}
	head, notes, err := s.head(ctx)
	if err != nil {
		return Revisions{}, nil, err
	}
	base, more, err := s.base(ctx, head)
	if err != nil {
		return Revisions{}, nil, err
	}
	notes = append(notes, more...)
	if base.Commit == head.Commit && !o.AllowEqual {
		return Revisions{}, nil, usagef(
			"nothing to compare: base and head are both commit %.12s; commit a change, or name another commit with --base", head.Commit)
	}
	for _, rev := range []*Revision{&base, &head} {
		subject, err := r.text(ctx, "show", "--no-patch", "--format=%s", rev.Commit, "--")
		if err != nil {
			return Revisions{}, nil, err
		}
		rev.Subject = proc.Clean(subject, subjectLimit)
	}
	return Revisions{Base: base, Head: head}, notes, nil
}

// check refuses what no repository could satisfy.
func (o ResolveOptions) check() error {
	switch {
	case o.Strategy != MergeBase && o.Strategy != Merge && o.Strategy != Ref:
		return usagef("unknown strategy %q; known are %s, %s and %s", proc.Clean(o.Strategy, refLimit), MergeBase, Merge, Ref)
	case o.Base == WorkingTree:
		return usagef("--base %s: only head can be the working tree; name a branch, a tag or a commit", WorkingTree)
	case o.Strategy != Merge && o.MergeHead != "":
		return usagef("an expected head is for --strategy %s only; leave it out", Merge)
	case o.Strategy != Merge:
		return nil
	case o.Base != "":
		return usagef("--base means nothing with --strategy %s: base is the first parent of the merge commit; leave it out", Merge)
	case o.Head == WorkingTree:
		return usagef("--head %s: the working tree is no merge commit; name one, or choose --strategy %s", WorkingTree, MergeBase)
	case o.MergeHead != "" && !hash.MatchString(o.MergeHead):
		return usagef("the expected head %q is no full commit hash", proc.Clean(o.MergeHead, refLimit))
	}
	return nil
}

// search is one call of Resolve: a repository, what is asked of it, and what may still be spent on fetching.
type search struct {
	*repository
	o    ResolveOptions
	env  []string
	left time.Duration
}

// head resolves head, and remarks on what of the working tree is not measured.
func (s *search) head(ctx context.Context) (Revision, []string, error) {
	rev := Revision{Ref: cmp.Or(s.o.Head, "HEAD"), Strategy: s.o.Strategy}
	if rev.Ref == WorkingTree {
		return s.workingTree(ctx, rev)
	}
	var err error
	if rev.Commit, err = s.find(ctx, rev.Ref, "--head"); err != nil {
		return Revision{}, nil, err
	}
	note, err := s.dirty(ctx, rev.Commit)
	if note == "" || err != nil {
		return rev, nil, err
	}
	return rev, []string{note}, nil
}

// base chooses the measured base for a head.
func (s *search) base(ctx context.Context, head Revision) (Revision, []string, error) {
	if s.o.Strategy == Merge {
		rev, err := s.firstParent(ctx, head)
		return rev, nil, err
	}
	rev, err := s.baseRef(ctx, s.o.Base)
	if err != nil {
		return Revision{}, nil, err
	}
	rev.Strategy = s.o.Strategy
	if s.o.Strategy == Ref {
		return rev, nil, nil
	}
	tip := rev.Commit
	var notes []string
	if rev.Commit, notes, err = s.mergeBase(ctx, rev, head.Commit); err != nil {
		return Revision{}, nil, err
	}
	count, err := s.text(ctx, "rev-list", "--count", rev.Commit+".."+tip, "--")
	if err != nil {
		return Revision{}, nil, err
	}
	if rev.Ahead, err = strconv.Atoi(count); err != nil {
		return Revision{}, nil, fmt.Errorf("git rev-list --count: %w", err)
	}
	return rev, notes, nil
}

// baseRef resolves the base the user named, or the first default that exists.
func (s *search) baseRef(ctx context.Context, named string) (Revision, error) {
	if named != "" {
		commit, err := s.find(ctx, named, "--base")
		return Revision{Ref: named, Commit: commit}, err
	}
	for _, ref := range []string{"origin/HEAD", "main", "master"} {
		commit, err := s.resolve(ctx, ref, "--base")
		if err == nil {
			return Revision{Ref: ref, Commit: commit}, nil
		}
		if _, usage := errors.AsType[*UsageError](err); !usage {
			return Revision{}, err
		}
	}
	// A checkout of one commit follows no branch; origin can name its own default.
	if commit, err := s.supply(ctx, "origin/HEAD", "--base"); commit != "" || err != nil {
		return Revision{Ref: "origin/HEAD", Commit: commit}, err
	}
	return Revision{}, usagef("no base to compare with: there is no origin/HEAD, main or master; name one with --base")
}

// dirty remarks on a working tree whose changes will not be measured. It says nothing when head is another commit than
// the one checked out.
func (s *search) dirty(ctx context.Context, head string) (string, error) {
	if inside, err := s.text(ctx, "rev-parse", "--is-inside-work-tree"); err != nil || inside != "true" {
		return "", ctx.Err() // a bare repository has nothing uncommitted
	}
	if here, err := s.commit(ctx, "HEAD"); err != nil || here != head {
		return "", ctx.Err()
	}
	// The user's own list of ignored files counts, as it does in what git status tells them.
	out, err := s.do(ctx, call{env: s.env}, "status", "--porcelain=v1", "--untracked-files=normal")
	if err != nil {
		return "", err
	}
	n := strings.Count(string(out), "\n")
	if n == 0 {
		return "", nil
	}
	return fmt.Sprintf("the working tree has uncommitted changes (%d paths); they are not measured: head is commit %.12s; tailgate run --head %s measures them", n, head, WorkingTree), nil
}
