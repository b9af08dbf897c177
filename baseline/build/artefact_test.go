package build

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample makes a small build output.
func sample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "bin/server"), "program", 0o700)
	writeFile(t, filepath.Join(dir, "bin/lib/a.so"), "library", 0o600)
	writeFile(t, filepath.Join(dir, "README"), "text", 0o600)
	writeFile(t, filepath.Join(dir, ".git"), "gitdir: elsewhere", 0o600)
	writeFile(t, filepath.Join(dir, "vendor/x/.git/HEAD"), "ref", 0o600)
	if err := os.Symlink("server", filepath.Join(dir, "bin/link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func digest(t *testing.T, dir string, globs ...string) string {
	t.Helper()
	sum, _, err := Artefact(t.Context(), dir, globs)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestArtefactSeesWhatMatters(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, dir string)
		same   bool
	}{
		{"nothing", func(*testing.T, string) {}, true},
		{"a byte of content", func(t *testing.T, dir string) { t.Helper(); writeFile(t, filepath.Join(dir, "README"), "texT", 0o600) }, false},
		{"a new file", func(t *testing.T, dir string) { t.Helper(); writeFile(t, filepath.Join(dir, "new"), "", 0o600) }, false},
		{"the executable bit", func(t *testing.T, dir string) { t.Helper(); chmod(t, filepath.Join(dir, "README"), 0o700) }, false},
		{"other permissions", func(t *testing.T, dir string) { t.Helper(); chmod(t, filepath.Join(dir, "README"), 0o644) }, true},
		{"a name", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Rename(filepath.Join(dir, "README"), filepath.Join(dir, "README2")); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"a link's target", func(t *testing.T, dir string) {
			t.Helper()
			link := filepath.Join(dir, "bin/link")
			if err := errors.Join(os.Remove(link), os.Symlink("lib/a.so", link)); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"a link made a file of the same text", func(t *testing.T, dir string) {
			t.Helper()
			link := filepath.Join(dir, "bin/link")
			if err := os.Remove(link); err != nil {
				t.Fatal(err)
			}
			writeFile(t, link, "server", 0o600)
		}, false},
		{"git's own files", func(t *testing.T, dir string) {
			t.Helper()
			writeFile(t, filepath.Join(dir, ".git"), "gitdir: other", 0o600)
			writeFile(t, filepath.Join(dir, "vendor/x/.git/HEAD"), "other", 0o600)
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := sample(t)
			before := digest(t, dir)
			tt.change(t, dir)
			if same := digest(t, dir) == before; same != tt.same {
				t.Errorf("digest is the same: %v, want %v", same, tt.same)
			}
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestArtefactOutputs(t *testing.T) {
	dir := sample(t)
	for _, tt := range []struct {
		globs []string
		files int
	}{{nil, 4}, {[]string{"bin"}, 3}, {[]string{"./bin/"}, 3}, {[]string{"**/*.so"}, 1}, {[]string{"bin/server", "README"}, 2}, {[]string{"bin", "**"}, 4}} {
		_, files, err := Artefact(t.Context(), dir, tt.globs)
		if err != nil || files != tt.files {
			t.Errorf("outputs %q: %d files, %v; want %d", tt.globs, files, err, tt.files)
		}
	}
	_, _, err := Artefact(t.Context(), dir, []string{"bin", "dist/*.whl"})
	if failed, ok := errors.AsType[*FailedError](err); !ok || !strings.Contains(failed.Text, "dist/*.whl") {
		t.Errorf("a glob without a match: %v", err)
	}
	for _, glob := range []string{"../x", "/etc", "a//b", "[", ""} {
		_, _, err := Artefact(t.Context(), dir, []string{glob})
		if _, ok := errors.AsType[*UsageError](err); !ok {
			t.Errorf("glob %q: %v", glob, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Artefact(ctx, dir, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	// Places differ between arms; digests must not.
	if digest(t, dir) != digest(t, sample(t)) {
		t.Error("the same files elsewhere give another digest")
	}
}

func TestMatch(t *testing.T) {
	tests := []struct {
		glob, file string
		want       bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a", "a/b/c", true},
		{"a/b", "a", false},
		{"*.go", "x.go", true},
		{"*.go", "d/x.go", false},
		{"**", "a/b/c", true},
		{"**/x", "x", true},
		{"**/x", "a/b/x", true},
		{"a/**/x", "a/x", true},
		{"a/**/x", "a/b/c/x", true},
		{"a/**/x", "b/x", false},
		{"a/**", "a/b", true},
		{"a/**/b/**/c", "a/b/b/c", true},
		{"a/**/b/**/c", "a/c", false},
		{"a?[0-9]", "ab7", true},
		{"a**", "ab", true}, // within a part "**" is "*"
	}
	for _, tt := range tests {
		p, err := newPattern(tt.glob)
		if err != nil {
			t.Fatalf("%s: %v", tt.glob, err)
		}
		if got := p.matches(tt.file); got != tt.want {
			t.Errorf("%s matches %s: %v, want %v", tt.glob, tt.file, got, tt.want)
		}
	}
}

// slow is the same rule, written down as it is spoken.
func slow(parts, names []string) bool {
	switch {
	case len(parts) == 0:
		return true
	case parts[0] == "**":
		return slow(parts[1:], names) || (len(names) > 0 && slow(parts, names[1:]))
	case len(names) == 0:
		return false
	}
	ok, err := path.Match(parts[0], names[0])
	return err == nil && ok && slow(parts[1:], names[1:])
}

func FuzzMatch(f *testing.F) {
	f.Add("a/**/x", "a/b/x")
	f.Add("**/**/*.so", "lib/a.so")
	f.Add("[a-", "b")
	f.Fuzz(func(t *testing.T, glob, file string) {
		p, err := newPattern(glob)
		if err != nil || len(glob) > 20 || len(file) > 20 {
			return
		}
		if got, want := p.matches(file), slow(p.parts, strings.Split(file, "/")); got != want {
			t.Errorf("%q matches %q: %v, want %v", glob, file, got, want)
		}
	})
}

func TestArmDigest(t *testing.T) {
	arm := func(edit func(*Arm)) string {
		a := Arm{
			Artefact: "aa", Build: "make", Start: "./server", Args: []string{"--x", "1"}, ReadyPath: "/health",
			Env: map[string]string{"MODEL": "m", "HF_TOKEN": "hf_abcdef"},
		}
		edit(&a)
		return ArmDigest(a)
	}
	same := arm(func(*Arm) {})
	if len(same) != 64 || same != arm(func(a *Arm) { a.Env["HF_TOKEN"] = "rotated" }) {
		t.Error("a rotated secret is no other server")
	}
	seen := map[string]string{same: "itself"}
	for name, edit := range map[string]func(*Arm){
		"artefact":         func(a *Arm) { a.Artefact = "ab" },
		"image":            func(a *Arm) { a.Image = "sha256:ab" },
		"build":            func(a *Arm) { a.Build = "make all" },
		"start":            func(a *Arm) { a.Start = "./server2" },
		"args":             func(a *Arm) { a.Args = []string{"--x", "2"} },
		"args split":       func(a *Arm) { a.Args = []string{"--x 1"} },
		"no args":          func(a *Arm) { a.Args = nil },
		"value":            func(a *Arm) { a.Env["MODEL"] = "n" },
		"secret name gone": func(a *Arm) { delete(a.Env, "HF_TOKEN") },
		"ready":            func(a *Arm) { a.ReadyPath = "/" },
	} {
		sum := arm(edit)
		if other, taken := seen[sum]; taken {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[sum] = name
	}
	if diff := cmp.Diff(same, arm(func(a *Arm) { a.Env = map[string]string{"HF_TOKEN": "x", "MODEL": "m"} })); diff != "" {
		t.Error("the order of a map matters")
	}
}
