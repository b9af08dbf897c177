package build

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	f.clock++
	date := fmt.Sprintf("%d +0000", f.clock)
	cmd := exec.CommandContext(f.t.Context(), "git", args...)
	cmd.Dir = f.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_AUTHOR_DATE=" + date, "GIT_COMMITTER_DATE=" + date,
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
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
