package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// clone makes a shallow clone over a file:// URL; a path would be copied whole.
func (f *fixture) clone(args ...string) *fixture {
	f.t.Helper()
	c := &fixture{t: f.t, dir: f.t.TempDir(), clock: f.clock}
	c.git(append(append([]string{"clone", "-q"}, args...), "file://"+f.dir, "clone")...)
	c.dir = filepath.Join(c.dir, "clone")
	return c
}

// imported makes a history in one go: commit i has the parents parents[i] and the date dates[i], and no files. It returns the
// hashes. The branches base and head stand on the commits named.
func imported(t *testing.T, parents [][]int, dates []int, base, head int) (f *fixture, hashes []string) {
	t.Helper()
	f = newFixture(t)
	var stream strings.Builder
	for i, p := range parents {
		if len(p) == 0 {
			stream.WriteString("reset refs/heads/work\n") // else the branch would go on
		}
		fmt.Fprintf(&stream, "commit refs/heads/work\nmark :%d\ncommitter a <a@example.com> %d +0000\ndata 2\n%c\n", i+1, 1_700_000_000+dates[i], 'a'+i%26)
		for j, parent := range p {
			fmt.Fprintf(&stream, "%s :%d\n", []string{"from", "merge"}[min(j, 1)], parent+1)
		}
		stream.WriteString("\n")
	}
	fmt.Fprintf(&stream, "reset refs/heads/base\nfrom :%d\n\nreset refs/heads/head\nfrom :%d\n\n", base+1, head+1)
	marks := filepath.Join(t.TempDir(), "marks")
	cmd := exec.CommandContext(t.Context(), "git", "-C", f.dir, "fast-import", "--quiet", "--export-marks="+marks)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
	cmd.Stdin = strings.NewReader(stream.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("fast-import: %v\n%s", err, out)
	}
	text, err := os.ReadFile(marks)
	if err != nil {
		t.Fatal(err)
	}
	hashes = make([]string, len(parents))
	for line := range strings.Lines(string(text)) {
		var mark int
		var commit string
		if _, err := fmt.Sscanf(line, ":%d %s", &mark, &commit); err != nil {
			t.Fatal(err)
		}
		hashes[mark-1] = commit
	}
	return f, hashes
}

// resolved resolves and wants a pair, and returns the lines of progress.
func resolved(t *testing.T, dir string, o ResolveOptions, base, head string) []string {
	t.Helper()
	var lines []string
	o.Progress = func(line string) { lines = append(lines, line) }
	got, _, err := Resolve(t.Context(), dir, o)
	if err != nil || got.Base.Commit != base || got.Head.Commit != head {
		t.Errorf("base %s, head %s, error %v; want %s and %s", got.Base.Commit, got.Head.Commit, err, base, head)
	}
	return lines
}

// unresolved wants a usage error with a text.
func unresolved(t *testing.T, dir string, o ResolveOptions, want ...string) {
	t.Helper()
	got, _, err := Resolve(t.Context(), dir, o)
	usage, ok := errors.AsType[*UsageError](err)
	for _, text := range want {
		if !ok || !strings.Contains(usage.Text, text) {
			t.Errorf("%+v, error %v; want a usage error with %q", got, err, text)
		}
	}
}

// lablup/backend.ai#11862: a checkout of one commit holds no merge base.
func TestShallowCloneIsDeepened(t *testing.T) {
	f, fork, _, feature := branched(t)
	c := f.clone("--no-single-branch", "--depth=1")
	f.git("tag", "v1", fork)
	c.git("config", "remote.origin.tagOpt", "--tags")
	f.git("branch", "-f", "main", f.git("commit-tree", fork+"^{tree}", "-p", "main", "-m", "moved on"))
	unchanged(t, c, func() {
		lines := resolved(t, c.dir, ResolveOptions{Base: "origin/main", Head: "origin/feature"}, fork, feature)
		if diff := cmp.Diff([]string{"shallow clone: fetching 50 more commits from origin"}, lines); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
	})
	// With depth 2 the fork is the cut itself: everything above it is here, and nothing is fetched.
	f.git("branch", "-f", "main", "main~1")
	c = f.clone("--no-single-branch", "--depth=2")
	if lines := resolved(t, c.dir, ResolveOptions{Base: "origin/main", Head: "origin/feature"}, fork, feature); len(lines) > 0 {
		t.Errorf("fetched for nothing: %q", lines)
	}
}

// Commits that were never pushed are unknown to origin; it is asked for what lies below them.
func TestShallowCloneWithLocalCommits(t *testing.T) {
	f, fork, _, _ := branched(t)
	c := f.clone("--no-single-branch", "--depth=1", "--branch=feature")
	local := c.commit("local")
	resolved(t, c.dir, ResolveOptions{Base: "origin/main"}, fork, local)
	c = f.clone("--no-single-branch", "--depth=1", "--branch=feature")
	c.write("new.txt", "new\n")
	got, _, err := Resolve(t.Context(), c.dir, ResolveOptions{Base: "origin/main", Head: WorkingTree})
	if err != nil || got.Base.Commit != fork || !got.Head.Uncommitted {
		t.Errorf("the working tree: %+v, %v", got, err)
	}
}

func TestShallowCloneIsDeepenedInSteps(t *testing.T) {
	const length = 700 // over 1 + 50 + 500
	parents, dates := make([][]int, length+1), make([]int, length+1)
	for i := range length {
		dates[i] = i
		if i > 0 {
			parents[i] = []int{i - 1}
		}
	}
	parents[length], dates[length] = []int{0}, length // head was branched from the very first commit
	f, hashes := imported(t, parents, dates, length-1, length)
	c := f.clone("--no-single-branch", "--depth=1", "--branch=head")
	want := []string{
		"shallow clone: fetching 50 more commits from origin", "shallow clone: fetching 500 more commits from origin",
		"shallow clone: fetching all history from origin",
	}
	unchanged(t, c, func() {
		lines := resolved(t, c.dir, ResolveOptions{Base: "origin/base", Head: "origin/head"}, hashes[0], hashes[length])
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
	})
}

// A checkout of one commit has one branch. What is missing is asked of origin, by name once and then by hash.
func TestCommitsMissingFromAShallowCloneAreFetched(t *testing.T) {
	f, fork, tip, feature := branched(t)
	f.git("checkout", "-q", "main")
	merge := f.git("commit-tree", feature+"^{tree}", "-p", tip, "-p", feature, "-m", "Merge f")
	f.git("branch", "landing", merge)
	for _, tt := range []struct {
		name, branch string
		o            ResolveOptions
		base, head   string
	}{
		{"a branch that is not followed", "feature", ResolveOptions{Base: "origin/main"}, fork, feature},
		{"by its full name", "feature", ResolveOptions{Base: "refs/remotes/origin/main"}, fork, feature},
		{"origin's default branch", "feature", ResolveOptions{}, fork, feature},
		{"a commit by its hash", "main", ResolveOptions{Base: "origin/main", Head: feature}, fork, feature},
		{"both by hash, as they are", "landing", ResolveOptions{Base: fork, Head: tip, Strategy: Ref}, fork, tip},
		{"the parent of a merge", "landing", ResolveOptions{Strategy: Merge, MergeHead: feature}, tip, merge},
		{"a step back", "main", ResolveOptions{Base: "HEAD~1", Strategy: Ref}, fork, tip},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := f.clone("--depth=1", "--branch="+tt.branch)
			c.git("remote", "set-head", "origin", "--delete")
			if tt.branch == "main" {
				c.git("checkout", "-q", "--detach")
			}
			unchanged(t, c, func() { resolved(t, c.dir, tt.o, tt.base, tt.head) })
		})
	}
}

func TestShallowCloneThatCannotBeDeepened(t *testing.T) {
	f, _, tip, feature := branched(t)
	o := ResolveOptions{Base: "origin/main", Head: "origin/feature"}
	cloned := func(change ...string) string {
		c := f.clone("--no-single-branch", "--depth=1")
		if len(change) > 0 {
			c.git(change...)
		}
		return c.dir
	}
	unresolved(t, cloned("config", "--unset", "remote.origin.url"), o, "no remote named origin", mendShallow)
	unresolved(t, cloned("config", "remote.origin.url", "file:///nonexistent/x"), o, "/nonexistent/x", mendShallow)
	unresolved(t, cloned("config", "remote.origin.url", "http://user:canary@127.0.0.1:1/x"), o, mendShallow)
	if _, _, err := Resolve(t.Context(), cloned("config", "remote.origin.url", "http://user:canary@127.0.0.1:1/x"), o); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("a password is shown: %v", err)
	}
	absent := strings.Repeat("ab", 20)
	unresolved(t, cloned(), ResolveOptions{Base: absent, Head: "origin/feature"}, "--base", absent[:12], mendShallow)
	unresolved(t, cloned(), ResolveOptions{Base: "no-such-branch"}, "names no commit", mendShallow)
	unresolved(t, cloned(), ResolveOptions{Base: "origin/no-such-branch"}, "names no commit", mendShallow)
	unresolved(t, cloned(), ResolveOptions{Base: "origin/main~9", Head: "origin/feature"}, "--base origin/main~9")
	// Origin is shallow itself.
	middle := f.clone("--no-single-branch", "--depth=1")
	middle.git("branch", "main", tip)
	c := middle.clone("--no-single-branch", "--depth=1")
	unresolved(t, c.dir, ResolveOptions{Base: tip, Head: feature}, "no more history", mendShallow)
}

func TestFetchingHasALimit(t *testing.T) {
	f, _, tip, feature := branched(t)
	c := f.clone("--no-single-branch", "--depth=1")
	r, err := open(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []time.Duration{0, 1} { // nothing is left, or so little that it ends in mid-fetch
		s := &search{repository: r, left: left}
		_, _, err = s.mergeBase(t.Context(), Revision{Ref: "origin/main", Commit: tip}, feature)
		if usage, ok := errors.AsType[*UsageError](err); !ok || !strings.Contains(usage.Text, "2 min") || !strings.Contains(usage.Text, mendShallow) {
			t.Errorf("error = %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &search{repository: r, left: fetchLimit}
	if err := s.fetch(ctx, "x", "origin"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// git sees of the caller's environment what it needs to fetch as the user, and nothing that leads it elsewhere.
func TestPersonal(t *testing.T) {
	got := personal([]string{
		"PATH=/bin", "HOME=/h", "GIT_DIR=/x", "GIT_ASKPASS=/x", "SSH_ASKPASS=/x", "GITHUB_TOKEN=t", "SSH_AUTH_SOCK=/s", "https_proxy=p", "INPUT_A=b",
	})
	if diff := cmp.Diff([]string{"PATH=/bin", "HOME=/h", "SSH_AUTH_SOCK=/s", "https_proxy=p"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVerb(t *testing.T) {
	for want, args := range map[string][]string{
		"fetch": {"-c", "a=b", "fetch", "--quiet"}, "ls-tree": {"--literal-pathspecs", "ls-tree"}, "add": {"add"}, "": {"-c"},
	} {
		if got := verb(args); got != want {
			t.Errorf("verb(%q) = %q, want %q", args, got, want)
		}
	}
}
