package build

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// withSubmodule is a repository with the submodule lib, which has the submodule deep, both present in the checkout. It returns
// the commit that uses them.
func withSubmodule(t *testing.T) (f *fixture, commit string) {
	t.Helper()
	deep, lib := newFixture(t), newFixture(t)
	deep.commit("deep")
	lib.commit("lib")
	add := func(f *fixture, from *fixture, path string) {
		f.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", "file://"+from.dir, path)
	}
	add(lib, deep, "inner/deep")
	lib.commit("lib2")
	f = newFixture(t)
	f.commit("a")
	add(f, lib, "lib")
	f.git("-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init", "--recursive")
	return f, f.commit("b")
}

func addTree(t *testing.T, f *fixture, commit string, o WorktreeOptions) (dir string, notes []string, err error) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "base")
	notes, err = AddWorktree(t.Context(), f.dir, dir, commit, o)
	return dir, notes, err
}

func TestSubmodulesOfTheCheckoutAreUsed(t *testing.T) {
	f, commit := withSubmodule(t)
	// What lies in the checkout is newer than the commit, and its origin is gone.
	inside := &fixture{t: t, dir: filepath.Join(f.dir, "lib"), clock: f.clock}
	inside.commit("newer")
	inside.git("remote", "set-url", "origin", "file:///nonexistent")
	unchanged(t, f, func() {
		dir, notes, err := addTree(t, f, commit, WorktreeOptions{Submodules: true})
		if err != nil || len(notes) > 0 {
			t.Fatalf("notes %q, error %v", notes, err)
		}
		for name, want := range map[string]bool{"lib/lib.txt": true, "lib/inner/deep/deep.txt": true, "lib/newer.txt": false} {
			if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
				t.Errorf("%s: %v; want it there: %v", name, err, want)
			}
		}
		if err := RemoveWorktree(t.Context(), f.dir, dir); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Stat(filepath.Join(f.dir, ".git/modules/lib/modules/inner/deep/HEAD")); err != nil {
		t.Errorf("the checkout's own repository went with the worktree: %v", err)
	}
}

func TestSubmodulesLeftOutAreNoted(t *testing.T) {
	f, commit := withSubmodule(t)
	dir, notes, err := addTree(t, f, commit, WorktreeOptions{})
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "(lib)") || !strings.Contains(notes[0], "target.git.submodules: true") {
		t.Errorf("notes %q, %v", notes, err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "lib")); err != nil || len(entries) != 0 {
		t.Errorf("lib holds %v, %v", entries, err)
	}
	if _, notes, err = addTree(t, f, f.git("rev-parse", commit+"~1"), WorktreeOptions{Submodules: true}); err != nil || len(notes) > 0 {
		t.Errorf("a commit without submodules: notes %q, %v", notes, err)
	}
}

func TestSubmodulesAreFetched(t *testing.T) {
	f, commit := withSubmodule(t)
	f.git("submodule", "deinit", "-q", "--all", "--force")
	if err := os.RemoveAll(filepath.Join(f.dir, ".git/modules")); err != nil {
		t.Fatal(err)
	}
	_, _, err := addTree(t, f, commit, WorktreeOptions{Submodules: true})
	if err == nil || !strings.Contains(err.Error(), "submodule lib") || !strings.Contains(err.Error(), "git submodule update") {
		t.Errorf("a path of this machine was followed: %v", err)
	}
	unchanged(t, f, func() {
		dir, notes, err := addTree(t, f, commit, WorktreeOptions{Submodules: true, LocalSubmodules: true})
		if err != nil || len(notes) > 0 {
			t.Fatalf("notes %q, error %v", notes, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "lib/inner/deep/deep.txt")); err != nil {
			t.Error(err)
		}
		if err := RemoveWorktree(t.Context(), f.dir, dir); err != nil {
			t.Error(err)
		}
	})
}

// .gitmodules is written by the commit under test.
func TestHostileSubmodulesAreRefused(t *testing.T) {
	f, _ := withSubmodule(t)
	for _, tt := range []struct{ name, modules, want string }{
		{"a name that leads out", "[submodule \"../../outside\"]\n\tpath = lib\n\turl = https://127.0.0.1:1/x\n", "that git refuses"},
		{"an option for a URL", "[submodule \"lib\"]\n\tpath = lib\n\turl = --upload-pack=touch\n", "that git refuses"},
		{"a program for a URL", "[submodule \"other\"]\n\tpath = lib\n\turl = ext::sh -c touch% ran\n", "'ext' not allowed"},
		{"a repository of the machine", "[submodule \"other\"]\n\tpath = lib\n\turl = " + f.dir + "\n", "'file' not allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.write(".gitmodules", tt.modules)
			commit := f.commit("hostile")
			dir, _, err := addTree(t, f, commit, WorktreeOptions{Submodules: true})
			if err == nil || !strings.Contains(err.Error(), "submodule lib") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "lib", "lib.txt")); err == nil {
				t.Error("it was checked out")
			}
		})
	}
	f.git("rm", "-q", "--cached", ".gitmodules")
	if err := os.Remove(filepath.Join(f.dir, ".gitmodules")); err != nil {
		t.Fatal(err)
	}
	_, notes, err := addTree(t, f, f.commit("nameless"), WorktreeOptions{Submodules: true})
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], ".gitmodules does not name") {
		t.Errorf("without .gitmodules: notes %q, %v", notes, err)
	}
}

func TestRelativeURL(t *testing.T) {
	for _, tt := range []struct{ origin, url, want string }{
		{"https://example.com/org/repo.git", "../lib.git", "https://example.com/org/lib.git"},
		{"https://example.com/org/repo.git/", "../../other/lib", "https://example.com/other/lib"},
		{"https://example.com/org/repo", "./lib", "https://example.com/org/repo/lib"},
		{"git@example.com:repo.git", "../lib.git", "git@example.com:lib.git"},
		{"git@example.com:org/repo.git", "../../org2/lib.git", "git@example.com:org2/lib.git"},
		{"/srv/repo", "../lib", "/srv/lib"},
	} {
		if got := relativeURL(tt.origin, tt.url); got != tt.want {
			t.Errorf("relativeURL(%q, %q) = %q, want %q", tt.origin, tt.url, got, tt.want)
		}
	}
}

// fakeLFS puts a git-lfs on PATH that runs a script, and the real git beside it.
func fakeLFS(t *testing.T, script string) {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(git, filepath.Join(bin, "git")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(bin, "git-lfs"), "#!/bin/sh\n"+script, 0o700)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

func withPointer(t *testing.T) (f *fixture, commit string) {
	t.Helper()
	f = newFixture(t)
	f.write("models/.gitattributes", "# filter=lfs is for models\n*.bin filter=lfs diff=lfs merge=lfs -text\n")
	f.write("models/m.bin", "version https://git-lfs.github.com/spec/v1\n")
	return f, f.commit("a")
}

func TestLargeFiles(t *testing.T) {
	f, commit := withPointer(t)
	fakeLFS(t, `case $1 in
version) exit 0 ;;
pull) git config filter.lfs.clean >/dev/null && [ "$GIT_LFS_SKIP_SMUDGE" = 0 ] && [ "$HOME" = /h ] && echo large >models/m.bin ;;
*) exit 1 ;;
esac`)
	dir, notes, err := addTree(t, f, commit, WorktreeOptions{LFS: true, Env: []string{"HOME=/h"}})
	if err != nil || len(notes) > 0 {
		t.Fatalf("notes %q, error %v", notes, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "models/m.bin")); err != nil || string(text) != "large\n" {
		t.Errorf("m.bin = %q, %v", text, err)
	}
	_, notes, err = addTree(t, f, commit, WorktreeOptions{Submodules: true})
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "target.git.lfs: true") {
		t.Errorf("left out: notes %q, %v", notes, err)
	}
	plain := newFixture(t)
	plain.write(".gitattributes", "# *.bin filter=lfs\n*.txt text\n")
	if _, notes, err = addTree(t, plain, plain.commit("a"), WorktreeOptions{LFS: true}); err != nil || len(notes) > 0 {
		t.Errorf("no large files: notes %q, %v", notes, err)
	}
}

func TestLargeFilesThatCannotBeFetched(t *testing.T) {
	f, commit := withPointer(t)
	for want, script := range map[string]string{
		"install git-lfs": "exit 1", "git lfs fetch --all": `[ "$1" = version ] || { echo batch: forbidden >&2; exit 2; }`,
	} {
		t.Run(want, func(t *testing.T) {
			fakeLFS(t, script)
			_, _, err := addTree(t, f, commit, WorktreeOptions{LFS: true})
			if err == nil || !strings.Contains(err.Error(), "target.git.lfs") || !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want %q", err, want)
			}
		})
	}
}
