package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// branched is main: a - b - c with feature: a - b - f.
func branched(t *testing.T) (f *fixture, fork, tip, feature string) {
	t.Helper()
	f = newFixture(t)
	f.commit("a")
	fork = f.commit("b")
	f.git("branch", "feature")
	tip = f.commit("c")
	f.git("checkout", "-q", "feature")
	return f, fork, tip, f.commit("f")
}

func TestResolve(t *testing.T) {
	f, fork, tip, feature := branched(t)
	f.git("tag", "v1", fork)
	sub := filepath.Join(f.dir, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		dir  string
		o    ResolveOptions
		want Revisions
	}{
		{
			"defaults: HEAD against its fork from main", f.dir,
			ResolveOptions{},
			Revisions{
				Revision{Ref: "main", Commit: fork, Strategy: MergeBase, Subject: "b", Ahead: 1},
				Revision{Ref: "HEAD", Commit: feature, Strategy: MergeBase, Subject: "f"},
			},
		},
		{
			"from a folder inside the checkout", sub,
			ResolveOptions{Base: "main", Head: feature[:12]},
			Revisions{
				Revision{Ref: "main", Commit: fork, Strategy: MergeBase, Subject: "b", Ahead: 1},
				Revision{Ref: feature[:12], Commit: feature, Strategy: MergeBase, Subject: "f"},
			},
		},
		{
			"refs as they are", f.dir,
			ResolveOptions{Base: "refs/heads/main", Head: "HEAD", Strategy: Ref},
			Revisions{
				Revision{Ref: "refs/heads/main", Commit: tip, Strategy: Ref, Subject: "c"},
				Revision{Ref: "HEAD", Commit: feature, Strategy: Ref, Subject: "f"},
			},
		},
		{
			"a tag, and a step back", f.dir,
			ResolveOptions{Base: "v1", Head: "main~0", Strategy: Ref},
			Revisions{
				Revision{Ref: "v1", Commit: fork, Strategy: Ref, Subject: "b"},
				Revision{Ref: "main~0", Commit: tip, Strategy: Ref, Subject: "c"},
			},
		},
		{
			"one commit, allowed for a switch", f.dir,
			ResolveOptions{Base: "feature", AllowEqual: true},
			Revisions{
				Revision{Ref: "feature", Commit: feature, Strategy: MergeBase, Subject: "f"},
				Revision{Ref: "HEAD", Commit: feature, Strategy: MergeBase, Subject: "f"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, notes, err := Resolve(t.Context(), tt.dir, tt.o)
			if err != nil || len(notes) > 0 {
				t.Fatalf("error %v, notes %q", err, notes)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("revisions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolvePrefersOriginHead(t *testing.T) {
	f, fork, _, _ := branched(t)
	f.git("update-ref", "refs/remotes/origin/trunk", fork)
	f.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
	got, _, err := Resolve(t.Context(), f.dir, ResolveOptions{})
	if err != nil || got.Base.Ref != "origin/HEAD" || got.Base.Ahead != 0 {
		t.Errorf("base = %+v, %v", got.Base, err)
	}
}

// The base branch moves on while a pull request waits: the measured base stays. Cf. NomicFoundation/slang#1718.
func TestMovedBaseGivesTheSamePair(t *testing.T) {
	f, fork, _, feature := branched(t)
	f.git("checkout", "-q", "main")
	f.commit("d")
	got, _, err := Resolve(t.Context(), f.dir, ResolveOptions{Base: "main", Head: "feature"})
	if err != nil || got.Base.Commit != fork || got.Head.Commit != feature || got.Base.Ahead != 2 {
		t.Errorf("revisions = %+v, %v", got, err)
	}
}

func TestResolveRefuses(t *testing.T) {
	f, _, tip, _ := branched(t)
	f.git("tag", "both", tip)
	f.git("branch", "both")
	f.git("update-ref", "refs/remotes/origin/release", tip)
	f.git("checkout", "-q", "--orphan", "unrelated")
	f.commit("u")
	bare := newFixture(t)
	bare.git("checkout", "-q", "-b", "topic")
	bare.commit("x")
	tests := []struct {
		name string
		dir  string
		o    ResolveOptions
		want string
	}{
		{"a dash", f.dir, ResolveOptions{Head: "--upload-pack=touch /x"}, "starts with a dash"},
		{"a shell in a ref", f.dir, ResolveOptions{Base: "main;$(touch${IFS}x)"}, "names no commit"},
		{"a line break", f.dir, ResolveOptions{Base: "main\nx"}, "is no ref"},
		{"a range", f.dir, ResolveOptions{Base: "main..feature"}, "is no ref"},
		{"a path of a commit", f.dir, ResolveOptions{Base: "main:a.txt"}, "is no ref"},
		{"a near miss", f.dir, ResolveOptions{Base: "fature"}, "did you mean feature?"},
		{"only on the remote", f.dir, ResolveOptions{Base: "release"}, "did you mean origin/release?"},
		{"nothing near", f.dir, ResolveOptions{Head: "entirely-different"}, `--head: "entirely-different" names no commit here`},
		{"an absent commit", f.dir, ResolveOptions{Base: strings.Repeat("ab", 20)}, "names no commit"},
		{"branch and tag differ", f.dir, ResolveOptions{Base: "both", Head: "feature"}, "refs/tags/both"},
		{"unrelated histories", f.dir, ResolveOptions{Base: "main", Head: "unrelated"}, "share no history"},
		{"same commit", f.dir, ResolveOptions{Base: "main", Head: "main"}, "nothing to compare"},
		{"unknown strategy", f.dir, ResolveOptions{Strategy: "newest"}, "known are merge-base, merge and ref"},
		{"the working tree as base", f.dir, ResolveOptions{Base: "."}, "only head can be the working tree"},
		{"a base beside a merge", f.dir, ResolveOptions{Base: "main", Strategy: Merge}, "--base means nothing with --strategy merge"},
		{"the working tree as a merge", f.dir, ResolveOptions{Head: ".", Strategy: Merge}, "is no merge commit"},
		{"an expected head that is no hash", f.dir, ResolveOptions{Strategy: Merge, MergeHead: "feature"}, "no full commit hash"},
		{"an expected head without a merge", f.dir, ResolveOptions{MergeHead: tip}, "for --strategy merge only"},
		{"no default base", bare.dir, ResolveOptions{}, "name one with --base"},
		{"no repository", t.TempDir(), ResolveOptions{}, "not inside a git repository"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := Resolve(t.Context(), tt.dir, tt.o)
			usage, ok := errors.AsType[*UsageError](err)
			if !ok || !strings.Contains(usage.Text, tt.want) {
				t.Errorf("revisions %+v, error %v; want a usage error with %q", got, err, tt.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(f.dir, "x")); err == nil {
		t.Error("a ref was run by a shell")
	}
}

func TestCrissCrossTakesTheNewestAndNamesAll(t *testing.T) {
	f := newFixture(t)
	f.commit("root")
	f.git("branch", "side")
	older := f.commit("m1")
	f.git("checkout", "-q", "side")
	newer := f.commit("s1")
	f.git("merge", "-q", "--no-edit", older)
	f.commit("s2")
	f.git("checkout", "-q", "main")
	f.git("merge", "-q", "--no-edit", newer)
	f.commit("m2")
	got, notes, err := Resolve(t.Context(), f.dir, ResolveOptions{Base: "main", Head: "side"})
	if err != nil || got.Base.Commit != newer {
		t.Fatalf("base = %+v, %v; want %s", got.Base, err, newer)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], older) || !strings.Contains(notes[0], newer) {
		t.Errorf("notes = %q; want both merge bases named", notes)
	}
}

func TestShallowCutBetweenTipAndMergeBaseIsRefused(t *testing.T) {
	// root - m1 - m2 is main; head merged a branch that had merged m1. With the clone cut at that branch, git still finds
	// a common ancestor, root, but the right one, m1, is out of sight.
	f := newFixture(t)
	root := f.commit("root")
	m1 := f.commit("m1")
	m2 := f.commit("m2")
	join := func(parents ...string) string {
		args := []string{"commit-tree", root + "^{tree}", "-m", "x"}
		for _, p := range parents {
			args = append(args, "-p", p)
		}
		return f.git(args...)
	}
	f1 := join(root)
	side := join(f1, m1)
	o := ResolveOptions{Base: m2, Head: join(f1, side)}
	full, _, err := Resolve(t.Context(), f.dir, o)
	if err != nil || full.Base.Commit != m1 {
		t.Fatalf("full history: %+v, %v; want %s", full.Base, err, m1)
	}
	f.write(".git/shallow", side+"\n")
	if found := f.git("merge-base", o.Base, o.Head); found != root {
		t.Fatalf("the fixture is wrong: git finds %s", found)
	}
	_, _, err = Resolve(t.Context(), f.dir, o)
	if usage, ok := errors.AsType[*UsageError](err); !ok || !strings.Contains(usage.Text, "shallow") {
		t.Errorf("cut history: %v; want a refusal", err)
	}
}

// A cut makes two merge bases of one: that the older is an ancestor of the newer lies beyond it.
func TestShallowCutBetweenMergeBasesIsRefused(t *testing.T) {
	// root - older - hidden - cut - newer, newer also merged root; both tips merged older once more.
	parents := [][]int{{}, {0}, {1}, {2}, {0, 3}, {4, 1}, {4, 1}}
	f, hashes := imported(t, parents, []int{0, 1, 2, 3, 4, 5, 6}, 5, 6)
	o := ResolveOptions{Base: hashes[5], Head: hashes[6]}
	resolved(t, f.dir, o, hashes[4], hashes[6])
	f.write(".git/shallow", hashes[3]+"\n")
	if found := f.git("merge-base", "--all", o.Base, o.Head); !strings.Contains(found, hashes[1]) || !strings.Contains(found, hashes[4]) {
		t.Fatalf("the fixture is wrong: git finds %s", found)
	}
	unresolved(t, f.dir, o, "shallow", mendShallow)
}

func TestDirtyTreeIsNoted(t *testing.T) {
	f, _, _, _ := branched(t)
	f.write("f.txt", "changed\n")
	f.write("new.txt", "new\n")
	before := f.git("ls-files", "--stage")
	_, notes, err := Resolve(t.Context(), f.dir, ResolveOptions{})
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "2 paths") {
		t.Errorf("notes = %q, %v", notes, err)
	}
	if after := f.git("ls-files", "--stage"); after != before {
		t.Error("the index changed")
	}
	if _, notes, err = Resolve(t.Context(), f.dir, ResolveOptions{Head: "main", Base: "main~1", Strategy: Ref}); err != nil || len(notes) != 0 {
		t.Errorf("another head than the one checked out: notes %q, %v", notes, err)
	}
}

func TestResolveIgnoresOurGitVariables(t *testing.T) {
	f, fork, _, _ := branched(t)
	t.Setenv("GIT_DIR", newFixture(t).dir+"/.git")
	t.Setenv("GIT_INDEX_FILE", "/nonexistent/index")
	got, notes, err := Resolve(t.Context(), f.dir, ResolveOptions{})
	if err != nil || got.Base.Commit != fork || len(notes) != 0 {
		t.Errorf("%+v, %q, %v", got, notes, err)
	}
}

func TestResolveCancelled(t *testing.T) {
	f, _, _, _ := branched(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Resolve(ctx, f.dir, ResolveOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"main", "main", 0}, {"main", "mian", 2}, {"kitten", "sitting", 3}} {
		if got, back := distance(tt.a, tt.b), distance(tt.b, tt.a); got != tt.want || back != tt.want {
			t.Errorf("distance(%q, %q) = %d and %d, want %d", tt.a, tt.b, got, back, tt.want)
		}
	}
}
