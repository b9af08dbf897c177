package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// makes leaves a program, a read-only library and a link, and counts how often it ran.
const makes = `mkdir -p out/lib; cp -f *.txt out/; echo run >> "$COUNT"; chmod 700 out/first.txt; echo lib > out/lib/a.so; chmod 400 out/lib/a.so; ln -s first.txt out/link`

// workshop builds commits of one repository with one cache, each time in a new worktree.
type workshop struct {
	*fixture
	cache, count string

	mu    sync.Mutex
	notes []string
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	return &workshop{fixture: newFixture(t), cache: filepath.Join(t.TempDir(), "cache"), count: filepath.Join(t.TempDir(), "count")}
}

// options are those of a build of a commit in a new worktree.
func (w *workshop) options(commit string, protected bool) Options {
	w.t.Helper()
	dir := filepath.Join(w.t.TempDir(), "head")
	if _, err := AddWorktree(w.t.Context(), w.dir, dir, commit, WorktreeOptions{}); err != nil {
		w.t.Fatal(err)
	}
	return Options{
		Dir: dir, Command: makes, Outputs: []string{"out/**"}, LogPath: filepath.Join(w.t.TempDir(), "build.log"),
		Env:   []string{"COUNT=" + w.count, "PATH=" + os.Getenv("PATH"), "TAILGATE_RUN=" + w.t.TempDir()},
		Cache: &Cache{Dir: w.cache, Repo: w.dir, Commit: commit, Protected: protected},
		Note: func(id, text string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notes = append(w.notes, id+": "+text)
		},
	}
}

// build builds and returns what came out, with the worktree.
func (w *workshop) build(o Options) (record.Build, string) {
	w.t.Helper()
	b, err := Run(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return b, o.Dir
}

// made counts the builds that were really made.
func (w *workshop) made() int {
	text, err := os.ReadFile(w.count)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Count(string(text), "run")
}

// entries lists what is kept, by namespace and key.
func (w *workshop) entries(space string) []string {
	w.t.Helper()
	list, err := filepath.Glob(filepath.Join(w.cache, space, "*"))
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func (w *workshop) noted(id string) bool {
	return slices.ContainsFunc(w.notes, func(n string) bool { return strings.HasPrefix(n, id+": ") })
}

// A command may spell a secret out: what is kept of it between runs does not.
func TestCacheKeepsNoSecret(t *testing.T) {
	w := newWorkshop(t)
	o := w.options(w.commit("first"), false)
	o.Command, o.Env = `test "$API_KEY" = canary-1234; `+makes, append(o.Env, "API_KEY=canary-1234")
	w.build(o)
	kept := w.entries("pr")
	if len(kept) != 1 {
		t.Fatalf("entries %q", kept)
	}
	text, err := os.ReadFile(filepath.Join(kept[0], manifestName))
	if err != nil || strings.Contains(string(text), "canary-1234") || !strings.Contains(string(text), `= ***; mkdir`) {
		t.Errorf("%v, the manifest says %s", err, text)
	}
}

func TestCacheGivesBackWhatWasBuilt(t *testing.T) {
	w := newWorkshop(t)
	commit := w.commit("first")
	first, _ := w.build(w.options(commit, false))
	second, dir := w.build(w.options(commit, false))
	if first.Cached || !second.Cached || second.SHA256 != first.SHA256 || second.Files != first.Files || first.Files != 3 || w.made() != 1 || len(w.notes) > 0 {
		t.Fatalf("first %+v, second %+v, %d made, notes %q", first, second, w.made(), w.notes)
	}
	if target, err := os.Readlink(filepath.Join(dir, "out/link")); err != nil || target != "first.txt" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	for name, want := range map[string]fs.FileMode{"out/first.txt": 0o700, "out/lib/a.so": 0o400} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info, err, want)
		}
	}
	// A read-only output is no obstacle to the next build, nor to the end.
	if err := RemoveWorktree(t.Context(), w.dir, dir); err != nil {
		t.Error(err)
	}
}

// What the checkout has under the outputs and a build removes is gone from a kept build too.
func TestCachedBuildReplacesTheCheckout(t *testing.T) {
	w := newWorkshop(t)
	w.write("out/template", "not of the build")
	commit := w.commit("first")
	o := w.options(commit, false)
	o.Command = "rm out/template; " + makes
	first, _ := w.build(o)
	again := w.options(commit, false)
	again.Command = o.Command
	second, dir := w.build(again)
	if !second.Cached || second.SHA256 != first.SHA256 {
		t.Errorf("second %+v, notes %q", second, w.notes)
	}
	if _, err := os.Lstat(filepath.Join(dir, "out/template")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the checkout's file: %v", err)
	}
}

func TestCacheKey(t *testing.T) {
	w := newWorkshop(t)
	first, second := w.commit("first"), w.commit("second")
	key := func(edit func(*Options), printed ...string) string {
		o := Options{
			Command: "make", Outputs: []string{"out"}, Env: []string{"A=b", "HF_TOKEN=abcdef"},
			Cache: &Cache{Repo: w.dir, Commit: first},
		}
		edit(&o)
		key, err := cacheKey(t.Context(), o, printed)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	same := key(func(*Options) {})
	for name, edit := range map[string]func(*Options){
		"a folder for temporary files": func(o *Options) { o.Env = append(o.Env, "TMPDIR=/x") },
		"another run":                  func(o *Options) { o.Env = append(o.Env, "TAILGATE_RUN=1", "RUNNER_TRACKING_ID=2") },
		"a rotated secret":             func(o *Options) { o.Env = []string{"A=b", "HF_TOKEN=ghijkl"} },
		"another order":                func(o *Options) { o.Env = []string{"HF_TOKEN=abcdef", "A=b"} },
		"the namespace":                func(o *Options) { o.Cache.Protected = true },
	} {
		if key(edit) != same {
			t.Errorf("%s changes the key", name)
		}
	}
	seen := map[string]string{same: "itself", key(func(*Options) {}, "gcc 13"): "a tool", key(func(*Options) {}, "gcc 14"): "another tool"}
	for name, edit := range map[string]func(*Options){
		"the tree":       func(o *Options) { o.Cache.Commit = second },
		"large files":    func(o *Options) { o.Cache.Worktree.LFS = true },
		"submodules":     func(o *Options) { o.Cache.Worktree.Submodules = true },
		"the command":    func(o *Options) { o.Command = "make all" },
		"the outputs":    func(o *Options) { o.Outputs = []string{"out", "bin"} },
		"a value":        func(o *Options) { o.Env[0] = "A=c" },
		"a variable":     func(o *Options) { o.Env = append(o.Env, "C=d") },
		"a secret added": func(o *Options) { o.Env = append(o.Env, "API_KEY=abcdef") },
	} {
		k := key(edit)
		if other, taken := seen[k]; taken {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[k] = name
	}
	if len(seen) != 11 {
		t.Errorf("%d keys", len(seen))
	}
}

// forge changes an entry's manifest.
func forge(t *testing.T, entry string, edit func(*manifest)) {
	t.Helper()
	path := filepath.Join(entry, manifestName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	edit(&m)
	if text, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// content is the file of an entry that holds the program.
func content(t *testing.T, entry string) string {
	t.Helper()
	var found string
	forge(t, entry, func(m *manifest) {
		for _, k := range m.Files {
			if k.Path == "out/first.txt" {
				found = filepath.Join(entry, contentFolder, k.SHA256)
			}
		}
	})
	return found
}

func TestDamagedEntriesAreDeletedAndBuilt(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	writeFile(t, outside, "kept", 0o600)
	up := strings.Repeat("../", 20)
	tests := map[string]func(t *testing.T, entry string){
		"a bit": func(t *testing.T, entry string) { t.Helper(); writeFile(t, content(t, entry), "firsT\n", 0o600) },
		"a cut": func(t *testing.T, entry string) { t.Helper(); writeFile(t, content(t, entry), "fir", 0o600) },
		"gone": func(t *testing.T, entry string) {
			t.Helper()
			if err := os.Remove(content(t, entry)); err != nil {
				t.Fatal(err)
			}
		},
		"a link for content": func(t *testing.T, entry string) {
			t.Helper()
			path := content(t, entry)
			if err := errors.Join(os.Remove(path), os.Symlink(outside, path)); err != nil {
				t.Fatal(err)
			}
		},
		"no manifest": func(t *testing.T, entry string) {
			t.Helper()
			if err := os.Remove(filepath.Join(entry, manifestName)); err != nil {
				t.Fatal(err)
			}
		},
		"half a manifest": func(t *testing.T, entry string) {
			t.Helper()
			writeFile(t, filepath.Join(entry, manifestName), `{"version": 1, "fi`, 0o600)
		},
	}
	for name, edit := range map[string]func(*manifest){
		"another key":           func(m *manifest) { m.Key = strings.Repeat("0", 64) },
		"another version":       func(m *manifest) { m.Version = 2 },
		"a file less":           func(m *manifest) { m.Files = m.Files[1:] },
		"no files":              func(m *manifest) { m.Files = nil },
		"another digest":        func(m *manifest) { m.Artefact = strings.Repeat("0", 64) },
		"a path upwards":        func(m *manifest) { m.Files[0].Path = "../evil" },
		"a path through one":    func(m *manifest) { m.Files[0].Path = "out/../../evil" },
		"an absolute path":      func(m *manifest) { m.Files[0].Path = outside },
		"git's own file":        func(m *manifest) { m.Files[0].Path = ".git" },
		"a hook":                func(m *manifest) { m.Files[0].Path = "sub/.GIT/hooks/post-checkout" },
		"the executable bit":    func(m *manifest) { m.Files[0].Mode ^= 0o100 },
		"set user id":           func(m *manifest) { m.Files[0].Mode |= fs.ModeSetuid },
		"a hash that is a path": func(m *manifest) { m.Files[0].SHA256 = up + "etc/passwd" },
		"a link outwards": func(m *manifest) {
			m.Files = append(m.Files, keptFile{Path: "out/evil", Link: up + outside[1:]})
		},
		"an absolute link": func(m *manifest) { m.Files = append(m.Files, keptFile{Path: "out/evil", Link: outside}) },
		"a file through a link": func(m *manifest) {
			m.Files = append(m.Files, keptFile{Path: "out/evil", Link: filepath.Dir(outside)}, m.Files[0])
			m.Files[len(m.Files)-1].Path = "out/evil/outside"
		},
	} {
		tests[name] = func(t *testing.T, entry string) { t.Helper(); forge(t, entry, edit) }
	}
	w := newWorkshop(t)
	commit := w.commit("first")
	first, _ := w.build(w.options(commit, false))
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			entries, before := w.entries(changeSpace), w.made()
			w.notes = nil
			damage(t, entries[0])
			b, dir := w.build(w.options(commit, false))
			if b.Cached || b.SHA256 != first.SHA256 || w.made() != before+1 || !w.noted("cache_entry_bad") {
				t.Errorf("build %+v, %d made, notes %q", b, w.made()-before, w.notes)
			}
			if text, err := os.ReadFile(outside); err != nil || string(text) != "kept" {
				t.Errorf("outside: %q, %v", text, err)
			}
			for _, path := range []string{filepath.Join(dir, "..", "evil"), filepath.Join(dir, "out/evil"), filepath.Join(dir, "sub")} {
				if _, err := os.Lstat(path); err == nil {
					t.Errorf("%s was written", path)
				}
			}
			if b, _ := w.build(w.options(commit, false)); !b.Cached {
				t.Errorf("the entry was not replaced: %+v, %q", b, w.notes)
			}
		})
	}
}

func TestCacheNamespaces(t *testing.T) {
	w := newWorkshop(t)
	commit := w.commit("first")
	for i, step := range []struct {
		protected, cached bool
		made              int
	}{
		{protected: false, cached: false, made: 1},
		{protected: true, cached: false, made: 2}, // what a change built is not taken for the base
		{protected: true, cached: true, made: 2},
		{protected: false, cached: true, made: 2},
	} {
		b, _ := w.build(w.options(commit, step.protected))
		if b.Cached != step.cached || w.made() != step.made {
			t.Errorf("step %d: cached %v, %d made; want %+v", i, b.Cached, w.made(), step)
		}
	}
	if err := os.RemoveAll(w.entries(changeSpace)[0]); err != nil {
		t.Fatal(err)
	}
	if b, _ := w.build(w.options(commit, false)); !b.Cached || len(w.entries(changeSpace)) > 0 {
		t.Errorf("a change does not take the protected build: %+v", b)
	}
}

func TestCacheForgetsTheLeastRecentlyUsed(t *testing.T) {
	w := newWorkshop(t)
	var commits []string
	for i := range 3 {
		w.write("big.txt", strings.Repeat(fmt.Sprint(i), 10_000))
		commits = append(commits, w.commit("first"))
	}
	build := func(commit string) record.Build {
		o := w.options(commit, false)
		o.Cache.Limit = 25_000
		b, _ := w.build(o)
		return b
	}
	build(commits[0])
	older := w.entries(changeSpace)[0]
	build(commits[1])
	// The first is used again, the second was not for an hour.
	for _, entry := range w.entries(changeSpace) {
		if entry != older {
			past := time.Now().Add(-time.Hour)
			if err := os.Chtimes(filepath.Join(entry, manifestName), past, past); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Something that a killed process left.
	stale := filepath.Join(w.cache, "tmp", "entry-1")
	past := time.Now().Add(-48 * time.Hour)
	if err := errors.Join(os.Mkdir(stale, 0o700), os.Chtimes(stale, past, past)); err != nil {
		t.Fatal(err)
	}
	if !build(commits[0]).Cached || build(commits[2]).Cached || len(w.entries(changeSpace)) != 2 {
		t.Errorf("kept: %v", w.entries(changeSpace))
	}
	if left := w.entries("tmp"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if !build(commits[0]).Cached || !build(commits[2]).Cached || build(commits[1]).Cached {
		t.Error("the wrong entry went")
	}
	o := w.options(w.commit("other"), false)
	o.Cache.Limit = 5_000
	if b, _ := w.build(o); b.Cached || !w.noted("cache_not_written") {
		t.Errorf("outputs beyond the limit: notes %q", w.notes)
	}
}

func TestTwoProcessesShareACache(t *testing.T) {
	w := newWorkshop(t)
	commit := w.commit("first")
	var list []Options
	for range 4 {
		list = append(list, w.options(commit, false))
	}
	builds := make([]record.Build, len(list))
	var wg sync.WaitGroup
	for i, o := range list {
		wg.Go(func() {
			var err error
			if builds[i], err = Run(t.Context(), o); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, b := range builds {
		if b.SHA256 != builds[0].SHA256 || b.SHA256 == "" {
			t.Errorf("builds differ: %+v", builds)
		}
	}
	if len(w.entries(changeSpace)) != 1 || len(w.entries("tmp")) > 0 || len(w.notes) > 0 {
		t.Errorf("kept %v, left %v, notes %q", w.entries(changeSpace), w.entries("tmp"), w.notes)
	}
}

func TestCacheLockIsNotWaitedForForEver(t *testing.T) {
	w := newWorkshop(t)
	commit := w.commit("first")
	w.build(w.options(commit, false))
	other, err := os.OpenFile(filepath.Join(w.cache, "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	o := w.options(commit, false)
	o.Cache.wait = 50 * time.Millisecond
	if b, _ := w.build(o); b.Cached || !w.noted("cache_not_used") || !w.noted("cache_not_written") {
		t.Errorf("build %+v, notes %q", b, w.notes)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, w.options(commit, false)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v", err)
	}
}

func TestCacheIsOffWithAReason(t *testing.T) {
	w := newWorkshop(t)
	commit := w.commit("first")
	for name, tt := range map[string]struct {
		edit func(*Options)
		note string
	}{
		"no outputs":      {func(o *Options) { o.Outputs = nil }, "cache_off: target.outputs is empty"},
		"an image":        {func(o *Options) { o.Image = "echo sha256:" + strings.Repeat("a", 64) }, "cache_off: target.image_digest"},
		"a failing tool":  {func(o *Options) { o.Toolchain = []string{"echo 1", "exit 3"} }, `toolchain_failed: "exit 3": the target.toolchain command failed: exit status 3`},
		"an absent repo":  {func(o *Options) { o.Cache.Repo = "/nonexistent" }, "cache_off: "},
		"no folder":       {func(o *Options) { o.Cache.Dir = w.dir + "/first.txt/cache" }, "cache_off: "},
		"a link outwards": {func(o *Options) { o.Command += "; ln -s /etc/passwd out/evil" }, "cache_not_written: the link out/evil leads out of the worktree"},
	} {
		o := w.options(commit, false)
		tt.edit(&o)
		w.notes = nil
		if b, _ := w.build(o); b.Cached || !slices.ContainsFunc(w.notes, func(n string) bool { return strings.HasPrefix(n, tt.note) }) {
			t.Errorf("%s: notes %q, want %q", name, w.notes, tt.note)
		}
		if kept := w.entries(changeSpace); len(kept) > 0 {
			t.Errorf("%s: kept %v", name, kept)
		}
	}
	// No build command, nothing to keep, nothing to say.
	o := w.options(commit, false)
	o.Command, o.Outputs, w.notes = "", nil, nil
	if _, err := Run(t.Context(), o); err != nil || len(w.notes) > 0 {
		t.Errorf("without a command: %v, %q", err, w.notes)
	}
}

func TestReachable(t *testing.T) {
	f, fork, tip, _ := branched(t)
	f.git("update-ref", "refs/remotes/origin/release", fork)
	f.git("branch", "release", tip)
	for _, tt := range []struct {
		commit   string
		branches []string
		want     bool
	}{
		{fork, []string{"main"}, true},
		{fork, []string{"release"}, true},
		{tip, []string{"release"}, false}, // the remote's branch counts, not the local one
		{fork, []string{"absent"}, false},
		{fork, nil, false},
	} {
		got, err := Reachable(t.Context(), f.dir, tt.commit, tt.branches)
		if err != nil || got != tt.want {
			t.Errorf("%.7s from %v: %v, %v; want %v", tt.commit, tt.branches, got, err, tt.want)
		}
	}
	if _, err := Reachable(t.Context(), f.dir, strings.Repeat("ab", 20), []string{"main"}); err == nil {
		t.Error("an absent commit has an answer")
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(`{"version": 1, "key": "k", "files": [{"path": "out/a", "sha256": "00"}]}`)
	f.Add(`{"version": 1, "key": "k", "files": [{"path": "../a", "link": "/"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, manifestName), text, 0o600)
		entry, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = entry.Close() }()
		m, err := readManifest(entry, "k")
		if err != nil {
			if !errors.Is(err, errEntry) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		for _, k := range m.Files {
			if !filepath.IsLocal(k.Path) || strings.Contains(strings.ToLower("/"+k.Path+"/"), "/.git/") {
				t.Errorf("%q is taken", k.Path)
			}
		}
	})
}
