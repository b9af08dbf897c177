package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

// The strategies: how the measured base follows from the refs.
const (
	// MergeBase measures the newest common ancestor of base and head: what head was branched from.
	MergeBase = "merge-base"
	// Ref measures the base ref itself.
	Ref = "ref"
)

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
}

// Revisions is the pair to compare.
type Revisions struct{ Base, Head Revision }

// ResolveOptions says what to compare. The zero value compares HEAD with its merge base on the main branch.
type ResolveOptions struct {
	// Base and Head are refs. Empty: HEAD for head; origin/HEAD, else main, else master for base.
	Base, Head string
	// Strategy is [MergeBase] (also when empty) or [Ref].
	Strategy string
	// AllowEqual lets base and head be one commit, for a comparison by a switch.
	AllowEqual bool
}

// Resolve turns refs into commits, once, and returns remarks for the report beside them. What the user can mend is a
// [UsageError]; it never falls back to another pair than the one asked for.
func Resolve(ctx context.Context, repo string, o ResolveOptions) (Revisions, []string, error) {
	r, err := open(repo)
	if err != nil {
		return Revisions{}, nil, err
	}
	o.Strategy = cmp.Or(o.Strategy, MergeBase)
	if o.Strategy != MergeBase && o.Strategy != Ref {
		return Revisions{}, nil, usagef("unknown strategy %q; known are %s and %s", proc.Clean(o.Strategy, refLimit), MergeBase, Ref)
	}
	head := Revision{Ref: cmp.Or(o.Head, "HEAD"), Strategy: o.Strategy}
	if head.Commit, err = r.resolve(ctx, head.Ref, "--head"); err != nil {
		return Revisions{}, nil, err
	}
	base, notes, err := r.base(ctx, o, head.Commit)
	if err != nil {
		return Revisions{}, nil, err
	}
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
	note, err := r.dirty(ctx, head.Commit)
	if note != "" {
		notes = append(notes, note)
	}
	return Revisions{Base: base, Head: head}, notes, err
}

// base chooses the measured base for a head.
func (r *repository) base(ctx context.Context, o ResolveOptions, head string) (Revision, []string, error) {
	rev, err := r.baseRef(ctx, o.Base)
	if err != nil {
		return Revision{}, nil, err
	}
	rev.Strategy = o.Strategy
	if o.Strategy == Ref {
		return rev, nil, nil
	}
	tip := rev.Commit
	var notes []string
	if rev.Commit, notes, err = r.mergeBase(ctx, rev, head); err != nil {
		return Revision{}, nil, err
	}
	count, err := r.text(ctx, "rev-list", "--count", rev.Commit+".."+tip, "--")
	if err != nil {
		return Revision{}, nil, err
	}
	if rev.Ahead, err = strconv.Atoi(count); err != nil {
		return Revision{}, nil, fmt.Errorf("git rev-list --count: %w", err)
	}
	return rev, notes, nil
}

// baseRef resolves the base the user named, or the first default that exists.
func (r *repository) baseRef(ctx context.Context, named string) (Revision, error) {
	if named != "" {
		commit, err := r.resolve(ctx, named, "--base")
		return Revision{Ref: named, Commit: commit}, err
	}
	for _, ref := range []string{"origin/HEAD", "main", "master"} {
		commit, err := r.resolve(ctx, ref, "--base")
		if err == nil {
			return Revision{Ref: ref, Commit: commit}, nil
		}
		if _, usage := errors.AsType[*UsageError](err); !usage {
			return Revision{}, err
		}
	}
	return Revision{}, usagef("no base to compare with: there is no origin/HEAD, main or master; name one with --base")
}

// dirty remarks on a working tree whose changes will not be measured. It says nothing when head is another commit than
// the one checked out.
func (r *repository) dirty(ctx context.Context, head string) (string, error) {
	if inside, err := r.text(ctx, "rev-parse", "--is-inside-work-tree"); err != nil || inside != "true" {
		return "", ctx.Err() // a bare repository has nothing uncommitted
	}
	if here, err := r.commit(ctx, "HEAD"); err != nil || here != head {
		return "", ctx.Err()
	}
	out, err := r.run(ctx, nil, "status", "--porcelain=v1", "--untracked-files=normal")
	if err != nil {
		return "", err
	}
	n := strings.Count(string(out), "\n")
	if n == 0 {
		return "", nil
	}
	return fmt.Sprintf("the working tree has uncommitted changes (%d paths); they are not measured: head is commit %.12s", n, head), nil
}
