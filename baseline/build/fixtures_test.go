package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The repositories a job may find itself in: the right commits, or a refusal that names the way out.
func TestGitFixtures(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"linear", linearFixture},
		{"base moved", baseMovedFixture},
		{"criss-cross", crissCrossFixture},
		{"unrelated", unrelatedFixture},
		{"depth 1", func(t *testing.T) { t.Helper(); depthFixture(t, "1", 1) }},
		{"depth 2", func(t *testing.T) { t.Helper(); depthFixture(t, "2", 0) }},
		{"force-push", forcePushFixture},
		{"no merge ref", noMergeRefFixture},
		{"stale merge commit", staleMergeFixture},
		{"tag = branch name", tagIsBranchFixture},
		{"submodule", submoduleFixture},
		{"unicode and slash refs", oddRefsFixture},
		{"stale worktree", staleWorktreeFixture},
		{"--head . with a dirty index", dirtyIndexFixture},
	} {
		t.Run(tt.name, tt.run)
	}
}

func linearFixture(t *testing.T) {
	t.Helper()
	f := newFixture(t)
	base := f.commit("a")
	f.git("checkout", "-q", "-b", "feature")
	f.commit("b")
	resolved(t, f.dir, ResolveOptions{}, base, f.commit("c"))
}

func baseMovedFixture(t *testing.T) {
	t.Helper()
	f, fork, _, feature := branched(t)
	resolved(t, f.dir, ResolveOptions{}, fork, feature)
	f.git("checkout", "-q", "main")
	f.commit("d")
	f.git("checkout", "-q", "feature")
	resolved(t, f.dir, ResolveOptions{}, fork, feature)
}

func crissCrossFixture(t *testing.T) {
	t.Helper()
	f := newFixture(t)
	f.commit("root")
	f.git("branch", "side")
	older := f.commit("m1")
	f.git("checkout", "-q", "side")
	newer := f.commit("s1")
	f.git("merge", "-q", "--no-edit", older)
	side := f.commit("s2")
	f.git("checkout", "-q", "main")
	f.git("merge", "-q", "--no-edit", newer)
	f.commit("m2")
	resolved(t, f.dir, ResolveOptions{Base: "main", Head: "side"}, newer, side)
	c := f.clone("--no-single-branch", "--depth=2")
	resolved(t, c.dir, ResolveOptions{Base: "origin/main", Head: "origin/side"}, newer, side)
}

func unrelatedFixture(t *testing.T) {
	t.Helper()
	f, _, _, _ := branched(t)
	f.git("checkout", "-q", "--orphan", "unrelated")
	f.commit("u1")
	f.commit("u2")
	unresolved(t, f.dir, ResolveOptions{Base: "main"}, "share no history", "--strategy ref")
	// In a shallow clone only the whole history shows it.
	c := f.clone("--no-single-branch", "--depth=1")
	unresolved(t, c.dir, ResolveOptions{Base: "origin/main", Head: "origin/unrelated"}, "share no history")
}

func depthFixture(t *testing.T, depth string, fetches int) {
	t.Helper()
	f, fork, _, feature := branched(t)
	c := f.clone("--no-single-branch", "--depth="+depth)
	if lines := resolved(t, c.dir, ResolveOptions{Base: "origin/main", Head: "origin/feature"}, fork, feature); len(lines) != fetches {
		t.Errorf("%d fetches, want %d: %q", len(lines), fetches, lines)
	}
	c = f.clone("--no-single-branch", "--depth="+depth)
	c.git("remote", "remove", "origin")
	if fetches > 0 {
		unresolved(t, c.dir, ResolveOptions{Base: f.git("rev-parse", "main"), Head: feature}, mendShallow)
	}
}

// The head of a pull request is replaced while its job waits: what was checked out is measured as long as it can be had.
func forcePushFixture(t *testing.T) {
	t.Helper()
	f, fork, _, feature := branched(t)
	c := f.clone("--no-single-branch", "--depth=1", "--branch=feature")
	late := f.clone("--depth=1", "--branch=main")
	later := f.clone("--depth=1", "--branch=main")
	gone := f.clone("--no-single-branch", "--depth=1", "--branch=feature")
	f.git("reset", "-q", "--hard", fork)
	pushed := f.commit("pushed")
	resolved(t, c.dir, ResolveOptions{Base: "origin/main"}, fork, feature)
	resolved(t, late.dir, ResolveOptions{Base: "origin/main", Head: pushed}, fork, pushed)
	f.git("reflog", "expire", "--expire=now", "--all")
	f.git("update-ref", "-d", "ORIG_HEAD")
	f.git("gc", "-q", "--prune=now")
	unresolved(t, gone.dir, ResolveOptions{Base: "origin/main"}, mendShallow)
	unresolved(t, later.dir, ResolveOptions{Base: "origin/main", Head: feature}, feature[:12], mendShallow)
}

// GitHub makes no merge ref of a pull request with conflicts.
func noMergeRefFixture(t *testing.T) {
	t.Helper()
	f, _, _, _ := branched(t)
	unresolved(t, f.dir, ResolveOptions{Head: "refs/pull/7/merge", Strategy: Merge}, "refs/pull/7/merge", "names no commit")
}

func staleMergeFixture(t *testing.T) {
	t.Helper()
	f, tip, feature, merge := merged(t)
	o := ResolveOptions{Strategy: Merge, MergeHead: feature}
	resolved(t, f.dir, o, tip, merge)
	f.git("checkout", "-q", "feature")
	o.Head, o.MergeHead = "main", f.commit("pushed later")
	unresolved(t, f.dir, o, "stale_merge", feature[:12])
}

func tagIsBranchFixture(t *testing.T) {
	t.Helper()
	f, fork, tip, feature := branched(t)
	f.git("branch", "v1", tip)
	f.git("tag", "v1", fork)
	unresolved(t, f.dir, ResolveOptions{Base: "v1", Strategy: Ref}, "refs/heads/v1", "refs/tags/v1")
	resolved(t, f.dir, ResolveOptions{Base: "refs/heads/v1", Strategy: Ref}, tip, feature)
	resolved(t, f.dir, ResolveOptions{Base: "refs/tags/v1", Strategy: Ref}, fork, feature)
	f.git("tag", "-f", "v1", tip) // the same commit by both names is no question
	resolved(t, f.dir, ResolveOptions{Base: "v1", Strategy: Ref}, tip, feature)
}

func submoduleFixture(t *testing.T) {
	t.Helper()
	f, commit := withSubmodule(t)
	f.git("checkout", "-q", "-b", "feature")
	head := f.commit("f")
	resolved(t, f.dir, ResolveOptions{}, commit, head)
	// From inside, the submodule is the repository.
	unresolved(t, filepath.Join(f.dir, "lib"), ResolveOptions{Base: commit}, "names no commit")
	dir, notes, err := addTree(t, f, head, WorktreeOptions{Submodules: true})
	if err != nil || len(notes) > 0 {
		t.Fatalf("notes %q, %v", notes, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "lib/lib.txt")); err != nil {
		t.Error(err)
	}
}

func oddRefsFixture(t *testing.T) {
	t.Helper()
	f, fork, tip, feature := branched(t)
	for _, name := range []string{"fix/größe/ünïcode", "用户/修复", "a/b.c_d-e+f", "50%", "x'y\"z", "odd/$(touch${IFS}ran)"} {
		f.git("branch", name, feature)
		f.git("branch", "into/"+name, tip)
		resolved(t, f.dir, ResolveOptions{Base: "into/" + name, Head: name}, fork, feature)
		unresolved(t, f.dir, ResolveOptions{Base: "not/" + name, Head: name}, "names no commit")
	}
	if _, err := os.Stat(filepath.Join(f.dir, "ran")); err == nil {
		t.Error("a ref was run by a shell")
	}
}

func staleWorktreeFixture(t *testing.T) {
	t.Helper()
	f, fork, tip, _ := branched(t)
	dir := filepath.Join(t.TempDir(), "base")
	f.git("worktree", "add", "-q", "--detach", dir, fork)
	if err := os.RemoveAll(dir); err != nil { // a killed run's folder went, the registration stayed
		t.Fatal(err)
	}
	if _, err := AddWorktree(t.Context(), f.dir, dir, tip, WorktreeOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "c.txt")); err != nil {
		t.Error(err)
	}
	if list := f.git("worktree", "list", "--porcelain"); strings.Count(list, "worktree "+dir) != 1 || !strings.Contains(list, "HEAD "+tip) {
		t.Errorf("worktrees:\n%s", list)
	}
}

func dirtyIndexFixture(t *testing.T) {
	t.Helper()
	f, feature := dirtied(t)
	unchanged(t, f, func() {
		got, _, err := Resolve(t.Context(), f.dir, ResolveOptions{Head: WorkingTree, Base: "HEAD"})
		if err != nil || got.Base.Commit != feature || !got.Head.Uncommitted {
			t.Fatalf("%+v, %v", got, err)
		}
		// What a build would see is what lies in the checkout.
		dir, _, err := addTree(t, f, got.Head.Commit, WorktreeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(text) != "in the tree\n" {
			t.Errorf("a.txt = %q, %v", text, err)
		}
		if err := RemoveWorktree(t.Context(), f.dir, dir); err != nil {
			t.Error(err)
		}
	})
}
