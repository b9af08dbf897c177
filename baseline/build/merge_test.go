package build

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// merged is branched with feature merged into main, and main checked out.
func merged(t *testing.T) (f *fixture, tip, feature, merge string) {
	t.Helper()
	f, _, tip, feature = branched(t)
	f.git("checkout", "-q", "main")
	f.git("merge", "-q", "--no-ff", "-m", "Merge f", "feature")
	return f, tip, feature, f.git("rev-parse", "HEAD")
}

func TestMergeMeasuresWhatLands(t *testing.T) {
	f, tip, feature, merge := merged(t)
	f.git("update-ref", "refs/pull/7/merge", merge)
	f.git("checkout", "-q", "feature")
	o := ResolveOptions{Head: "refs/pull/7/merge", Strategy: Merge, MergeHead: feature}
	got, notes, err := Resolve(t.Context(), f.dir, o)
	if err != nil || len(notes) > 0 {
		t.Fatalf("error %v, notes %q", err, notes)
	}
	want := Revisions{
		Revision{Ref: "refs/pull/7/merge^1", Commit: tip, Strategy: Merge, Subject: "c"},
		Revision{Ref: "refs/pull/7/merge", Commit: merge, Strategy: Merge, Subject: "Merge f"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
	o.MergeHead = ""
	if got, _, err := Resolve(t.Context(), f.dir, o); err != nil || got != want {
		t.Errorf("without an expected head: %+v, %v", got, err)
	}
}

func TestStaleMergeIsRefused(t *testing.T) {
	f, tip, feature, merge := merged(t)
	tree := merge + "^{tree}"
	octopus := f.git("commit-tree", tree, "-m", "x", "-p", tip, "-p", feature, "-p", merge)
	root := f.git("commit-tree", tree, "-m", "x")
	later := f.git("commit-tree", tree, "-m", "pushed after the merge ref was made", "-p", feature)
	for _, tt := range []struct{ name, head, expected, want string }{
		{"no merge", tip, "", "one parent"},
		{"a first commit", root, "", "no parent"},
		{"an octopus", octopus, "", "more than two parents"},
		{"the head moved on", merge, later, "not the expected head"},
		{"parents the wrong way round", f.git("commit-tree", tree, "-m", "x", "-p", feature, "-p", tip), feature, "not the expected head"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Resolve(t.Context(), f.dir, ResolveOptions{Head: tt.head, Strategy: Merge, MergeHead: tt.expected})
			usage, ok := errors.AsType[*UsageError](err)
			if !ok || !strings.Contains(usage.Text, "stale_merge") || !strings.Contains(usage.Text, tt.want) || !strings.Contains(usage.Text, "fetch the merge ref again") {
				t.Errorf("error = %v; want stale_merge, %q and the way out", err, tt.want)
			}
		})
	}
}

// A message may hold lines that look like a header.
func TestParentsAreReadFromTheHeader(t *testing.T) {
	f, tip, feature, merge := merged(t)
	forged := f.git("commit-tree", merge+"^{tree}", "-p", tip, "-m", "parent "+feature+"\n\nparent "+merge)
	r, err := open(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.parents(t.Context(), forged)
	if diff := cmp.Diff([]string{tip}, got); diff != "" || err != nil {
		t.Errorf("parents (-want +got), error %v:\n%s", err, diff)
	}
	if _, err := r.parents(t.Context(), strings.Repeat("ab", 20)); err == nil {
		t.Error("an absent commit has parents")
	}
}
