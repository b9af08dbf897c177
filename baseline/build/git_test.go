package build

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fixture is a git repository made for one test. Its commits have rising dates and are the same in every run.
type fixture struct {
	t     *testing.T
	dir   string
	clock int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: filepath.Join(t.TempDir(), "repo"), clock: 1_700_000_000}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f.git("init", "-q", "-b", "main")
	return f
}

// git runs a command as the user would, away from this machine's own configuration.
func (f *fixture) git(args ...string) string {
	f.t.Helper()
	out, err := f.try(args...)
	if err != nil {
		f.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// try is git for a command that may fail.
func (f *fixture) try(args ...string) (string, error) {
	f.clock++
	date := fmt.Sprintf("%d +0000", f.clock)
	cmd := exec.CommandContext(f.t.Context(), "git", args...)
	cmd.Dir = f.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_AUTHOR_DATE=" + date, "GIT_COMMITTER_DATE=" + date,
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// commit writes a file named after the subject and returns the commit.
func (f *fixture) commit(subject string) string {
	f.t.Helper()
	f.write(subject+".txt", subject+"\n")
	f.git("add", "-A")
	f.git("commit", "-q", "--allow-empty", "-m", subject)
	return f.git("rev-parse", "HEAD")
}

func (f *fixture) write(name, text string) {
	f.t.Helper()
	writeFile(f.t, filepath.Join(f.dir, name), text, 0o600)
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// unchanged compares what a user could notice of a repository before and after.
func unchanged(t *testing.T, f *fixture, act func()) {
	t.Helper()
	look := func() map[string]string {
		seen := map[string]string{
			"status": f.git("status", "--porcelain"), "refs": f.git("for-each-ref"), "HEAD": f.git("rev-parse", "--symbolic-full-name", "HEAD"),
			"stash": f.git("reflog", "--all"),
		}
		for _, name := range []string{"index", "config", "FETCH_HEAD"} {
			data, err := os.ReadFile(filepath.Join(f.dir, ".git", name))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			seen[name] = string(data)
		}
		left, err := filepath.Glob(filepath.Join(f.dir, ".git", "tailgate-*"))
		if err != nil {
			t.Fatal(err)
		}
		seen["temporary"] = strings.Join(left, " ")
		return seen
	}
	f.git("status") // git may rewrite the index at its first look
	before := look()
	act()
	index, err := os.ReadFile(filepath.Join(f.dir, ".git", "index"))
	if err != nil || string(index) != before["index"] {
		t.Errorf("the index changed: %v", err)
	}
	if diff := cmp.Diff(before, look()); diff != "" {
		t.Errorf("the repository changed:\n%s", diff)
	}
}
