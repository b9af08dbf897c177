package build

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileAt(t *testing.T) {
	f := newFixture(t)
	f.write("conf/a.yaml", "version: 1\n")
	f.write("odd[1].txt", "odd\n")
	if err := os.Symlink("/etc/passwd", filepath.Join(f.dir, "link")); err != nil {
		t.Fatal(err)
	}
	commit := f.commit("c")
	f.write("conf/a.yaml", "version: 2, not committed\n")
	sub := filepath.Join(f.dir, "conf")
	tests := []struct {
		path, want string
		err        error
	}{
		{path: "conf/a.yaml", want: "version: 1\n"},
		{path: "odd[1].txt", want: "odd\n"},
		{path: "absent", err: fs.ErrNotExist},
		{path: "conf/absent.yaml", err: fs.ErrNotExist},
		{path: "conf", err: fs.ErrInvalid},
		{path: "link", err: fs.ErrInvalid},
		{path: "../a", err: fs.ErrInvalid},
		{path: "/etc/passwd", err: fs.ErrInvalid},
	}
	for _, dir := range []string{f.dir, sub} {
		for _, tt := range tests {
			got, err := FileAt(t.Context(), dir, commit, tt.path)
			if string(got) != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("FileAt(%s) = %q, %v; want %q, %v", tt.path, got, err, tt.want, tt.err)
			}
		}
	}
	if _, err := FileAt(t.Context(), f.dir, "--output=x", "a"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("an option for a commit: %v", err)
	}
	if _, err := FileAt(t.Context(), f.dir, strings.Repeat("ab", 20), "a"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent commit is not an absent file: %v", err)
	}
}

func TestWorktree(t *testing.T) {
	f, fork, _, _ := branched(t)
	ran := filepath.Join(t.TempDir(), "hook-ran")
	writeFile(t, filepath.Join(f.dir, ".git/hooks/post-checkout"), "#!/bin/sh\ntouch "+ran+"\n", 0o700)
	dir := filepath.Join(t.TempDir(), "run", "base")
	before := f.git("status", "--porcelain")
	if _, err := AddWorktree(t.Context(), f.dir, dir, fork, WorktreeOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "b.txt")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "c.txt")); err == nil {
		t.Error("a file of a later commit is there")
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a hook of the repository ran")
	}
	// What a package manager leaves: a folder without write permission, and a link that leads out.
	writeFile(t, filepath.Join(dir, "mod/cache/file"), "x", 0o400)
	if err := os.Chmod(filepath.Join(dir, "mod/cache"), 0o500); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	writeFile(t, outside, "kept", 0o600)
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(dir, "way-out")); err != nil {
		t.Fatal(err)
	}
	if err := RemoveWorktree(t.Context(), f.dir, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the worktree is left: %v", err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error("a link was followed")
	}
	if list := f.git("worktree", "list"); strings.Contains(list, "base") || f.git("status", "--porcelain") != before {
		t.Errorf("the repository remembers: %s", list)
	}
	if err := RemoveWorktree(t.Context(), f.dir, dir); err != nil {
		t.Errorf("removing it twice: %v", err)
	}
}

func TestStaleWorktreeIsReplaced(t *testing.T) {
	f, fork, tip, _ := branched(t)
	dir := filepath.Join(t.TempDir(), "base")
	if _, err := AddWorktree(t.Context(), f.dir, dir, fork, WorktreeOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil { // the folder went, the registration stayed
		t.Fatal(err)
	}
	if _, err := AddWorktree(t.Context(), f.dir, dir, tip, WorktreeOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "c.txt")); err != nil {
		t.Error(err)
	}
}

func TestWorktreeRefuses(t *testing.T) {
	f, fork, _, _ := branched(t)
	full := filepath.Join(t.TempDir(), "full")
	writeFile(t, filepath.Join(full, "precious"), "x", 0o600)
	add := func(dir, commit string) error {
		_, err := AddWorktree(t.Context(), f.dir, dir, commit, WorktreeOptions{})
		return err
	}
	for name, err := range map[string]error{
		"a ref instead of a commit": add(filepath.Join(t.TempDir(), "w"), "main"),
		"an absent commit":          add(filepath.Join(t.TempDir(), "w"), strings.Repeat("ab", 20)),
		"a folder with files":       add(full, fork),
		"removal of the checkout":   RemoveWorktree(t.Context(), f.dir, f.dir),
		"removal of its parent":     RemoveWorktree(t.Context(), f.dir, filepath.Dir(f.dir)),
	} {
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for _, path := range []string{filepath.Join(full, "precious"), filepath.Join(f.dir, ".git/HEAD")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if got := (&LeftError{[]string{"/a/b"}}).Error(); !strings.Contains(got, "/a/b") {
		t.Errorf("left: %q", got)
	}
}

// A cancelled run kills git in the middle of its work. It leaves the worktree registered and locked, with or without a folder.
func TestRemoveWorktreeThatGitDidNotFinish(t *testing.T) {
	for _, folder := range []bool{true, false} {
		f := newFixture(t)
		commit := f.commit("a")
		dir := filepath.Join(t.TempDir(), "base")
		f.git("worktree", "add", "-q", "--detach", "--lock", "--reason", "initializing", dir, commit)
		if !folder {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := RemoveWorktree(t.Context(), f.dir, dir); err != nil {
			t.Fatal(err)
		}
		if list := f.git("worktree", "list", "--porcelain"); strings.Contains(list, dir) {
			t.Errorf("with a folder: %t; worktrees:\n%s", folder, list)
		}
	}
}
