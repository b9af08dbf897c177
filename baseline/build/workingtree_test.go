package build

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// dirtied is branched with every kind of change in the checkout: staged and then changed again, changed to the same size at
// once, deleted, new, renamed and ignored.
func dirtied(t *testing.T) (f *fixture, feature string) {
	t.Helper()
	f, _, _, _ = branched(t)
	f.write(".gitignore", "*.log\n")
	f.write("kept.txt", "kept\n")
	f.git("add", "-A")
	f.git("commit", "-q", "-m", "g")
	feature = f.git("rev-parse", "HEAD")
	f.write("f.txt", "F\n") // as long as before, and within the instant the index was written
	f.write("a.txt", "staged\n")
	f.git("add", "a.txt")
	f.write("a.txt", "in the tree\n")
	f.git("rm", "-q", "--cached", "kept.txt") // staged for removal, but there
	if err := os.Remove(filepath.Join(f.dir, "b.txt")); err != nil {
		t.Fatal(err)
	}
	f.write("deep/new.txt", "new\n")
	f.write("noise.log", "ignored\n")
	return f, feature
}

func TestWorkingTreeIsMeasured(t *testing.T) {
	f, feature := dirtied(t)
	unchanged(t, f, func() {
		var first Revisions
		for range 2 { // the same files give the same commit
			got, notes, err := Resolve(t.Context(), f.dir, ResolveOptions{Head: WorkingTree})
			if err != nil || len(notes) > 0 {
				t.Fatalf("error %v, notes %q", err, notes)
			}
			if first.Head.Commit != "" && got != first {
				t.Errorf("the second time: %+v, want %+v", got, first)
			}
			first = got
		}
		if h := first.Head; !h.Uncommitted || h.Ref != "." || h.Subject != "Uncommitted changes on "+feature[:12] || first.Base.Uncommitted {
			t.Errorf("revisions = %+v", first)
		}
		if parents := f.git("show", "--no-patch", "--format=%P %an %ae", first.Head.Commit); parents != feature+" tailgate tailgate@localhost" {
			t.Errorf("made on %s", parents)
		}
		if want := f.git("merge-base", "main", "HEAD"); first.Base.Commit != want {
			t.Errorf("base = %+v, want the merge base of HEAD, %s", first.Base, want)
		}
		files := strings.Fields(f.git("ls-tree", "-r", "--name-only", first.Head.Commit))
		if diff := cmp.Diff([]string{".gitignore", "a.txt", "deep/new.txt", "f.txt", "kept.txt"}, files); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		for name, want := range map[string]string{"a.txt": "in the tree", "f.txt": "F", "deep/new.txt": "new"} {
			if got := f.git("show", first.Head.Commit+":"+name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	})
}

// A file that changed in the very instant the index was written looks unchanged by size and time.
func TestWorkingTreeChangedWithinTheIndexesInstant(t *testing.T) {
	f, _, _, feature := branched(t)
	f.git("config", "core.trustctime", "false") // nobody can set this time back
	file, index, instant := filepath.Join(f.dir, "f.txt"), filepath.Join(f.dir, ".git/index"), time.Now().Add(-time.Hour).Truncate(time.Second)
	stamp := func(path string) {
		if err := os.Chtimes(path, instant, instant); err != nil {
			t.Fatal(err)
		}
	}
	stamp(file)
	f.git("update-index", "--refresh")
	f.write("f.txt", "F\n")
	stamp(file)
	stamp(index)
	got, _, err := Resolve(t.Context(), f.dir, ResolveOptions{Head: WorkingTree})
	if err != nil || !got.Head.Uncommitted || f.git("diff", "--name-only", feature, got.Head.Commit) != "f.txt" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCleanWorkingTreeIsHead(t *testing.T) {
	f, fork, _, feature := branched(t)
	f.write(".git/info/exclude", "*.log\n")
	f.write("noise.log", "ignored\n")
	unchanged(t, f, func() {
		got, notes, err := Resolve(t.Context(), f.dir, ResolveOptions{Head: WorkingTree})
		if err != nil || len(notes) > 0 || got.Head.Commit != feature || got.Head.Uncommitted || got.Base.Commit != fork {
			t.Errorf("%+v, %q, %v", got, notes, err)
		}
	})
}

// On the base branch itself the changes are measured against its last commit.
func TestWorkingTreeAgainstItsOwnHead(t *testing.T) {
	f, _, tip, _ := branched(t)
	f.git("checkout", "-q", "main")
	f.write("c.txt", "changed\n")
	got, _, err := Resolve(t.Context(), f.dir, ResolveOptions{Head: WorkingTree})
	if err != nil || got.Base.Commit != tip || !got.Head.Uncommitted {
		t.Errorf("%+v, %v", got, err)
	}
}

// The user's own list of ignored files counts, as it does for git status.
func TestWorkingTreeHonoursTheUsersIgnoredFiles(t *testing.T) {
	f, _, _, feature := branched(t)
	home := t.TempDir()
	writeFile(t, filepath.Join(home, ".config/git/ignore"), ".idea/\n", 0o600)
	f.write(".idea/workspace.xml", "<x/>\n")
	o := ResolveOptions{Head: WorkingTree, Env: []string{"HOME=" + home, "GIT_DIR=/nonexistent"}}
	got, _, err := Resolve(t.Context(), f.dir, o)
	if err != nil || got.Head.Commit != feature {
		t.Errorf("head = %+v, %v; want HEAD itself", got.Head, err)
	}
	o.Head = ""
	if _, notes, err := Resolve(t.Context(), f.dir, o); err != nil || len(notes) > 0 {
		t.Errorf("notes %q, %v; want none", notes, err)
	}
}

func TestWorkingTreeWithoutAnIndex(t *testing.T) {
	f, _, _, feature := branched(t)
	f.write("new.txt", "new\n")
	if err := os.Remove(filepath.Join(f.dir, ".git/index")); err != nil {
		t.Fatal(err)
	}
	got, _, err := Resolve(t.Context(), f.dir, ResolveOptions{Head: WorkingTree})
	if err != nil || !got.Head.Uncommitted || f.git("diff", "--name-only", feature, got.Head.Commit) != "new.txt" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(f.dir, ".git/index")); err == nil {
		t.Error("an index was written")
	}
}

func TestWorkingTreeFromAFolderAndALinkedWorktree(t *testing.T) {
	f, _, _, _ := branched(t)
	linked := filepath.Join(t.TempDir(), "linked")
	f.git("worktree", "add", "-q", "--detach", linked, "main")
	writeFile(t, filepath.Join(linked, "deep/er/new.txt"), "new\n", 0o600)
	writeFile(t, filepath.Join(linked, "top.txt"), "top\n", 0o600)
	got, _, err := Resolve(t.Context(), filepath.Join(linked, "deep/er"), ResolveOptions{Head: WorkingTree})
	if err != nil || f.git("diff", "--name-only", "main", got.Head.Commit) != "deep/er/new.txt\ntop.txt" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWorkingTreeWithSubmodules(t *testing.T) {
	f, _ := withSubmodule(t)
	f.write("new.txt", "new\n")
	f.write("lib/lib.txt", "changed inside\n")
	nested := &fixture{t: t, dir: filepath.Join(f.dir, "nested"), clock: f.clock}
	if err := os.Mkdir(nested.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	nested.git("init", "-q", "-b", "main")
	commit := nested.commit("n")
	got, notes, err := Resolve(t.Context(), f.dir, ResolveOptions{Head: WorkingTree, Base: "HEAD"})
	if err != nil || !got.Head.Uncommitted {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "submodule lib has changes") {
		t.Errorf("notes = %q", notes)
	}
	if entry := f.git("ls-tree", got.Head.Commit, "nested"); !strings.Contains(entry, commit) {
		t.Errorf("a repository inside: %q", entry)
	}
}

func TestWorkingTreeRefuses(t *testing.T) {
	unborn := newFixture(t)
	unborn.write("a.txt", "a\n")
	bare := newFixture(t)
	bare.commit("a")
	bare.git("clone", "-q", "--bare", ".", "bare.git")
	conflict, _, _, _ := branched(t)
	conflict.write("c.txt", "another c\n")
	conflict.commit("clash")
	if _, err := conflict.try("merge", "-q", "main"); err == nil {
		t.Fatal("the fixture has no conflict")
	}
	empty := newFixture(t)
	empty.commit("a")
	empty.git("init", "-q", "-b", "main", "inner") // no commit could stand for it
	for _, tt := range []struct{ name, dir, want string }{
		{"no commit yet", unborn.dir, "no commit yet"},
		{"no working tree", filepath.Join(bare.dir, "bare.git"), "no working tree"},
		{"a conflict", conflict.dir, "c.txt has a merge conflict"},
		{"what git cannot add", empty.dir, "git cannot take the working tree"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := Resolve(t.Context(), tt.dir, ResolveOptions{Head: WorkingTree})
			if usage, ok := errors.AsType[*UsageError](err); !ok || !strings.Contains(usage.Text, tt.want) {
				t.Errorf("%+v, error %v; want a usage error with %q", got, err, tt.want)
			}
		})
	}
}
