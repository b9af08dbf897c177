package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

const (
	boot = "0b0a4d0c-6d3a-4a5a-9f53-2a1d1c7e9a10"
	tmp  = "/tmp/tailgate-00112233aabbccdd"
)

// sound is a file as a run writes it.
func sound() File {
	return File{
		Schema: Schema, Run: "20260304-101500-0badcafe", Boot: boot, Namespace: "pid:[4026531836]", Owner: Process{PID: 4711, Start: 99},
		Repository: "/srv/service", Worktrees: []string{"/var/cache/tailgate/20260304-101500-0badcafe/base"}, GPUs: []string{"GPU-1"},
		Rounds: []Round{{
			State: running, Log: "/srv/service/.tailgate/runs/x/rounds/00-base/server.log", Dir: "/var/cache/base", TMPDIR: tmp, Port: 20000,
			Stop: "docker stop tailgate-$PORT\n", Env: []string{"PATH"}, Processes: []Process{{PID: 4712, Start: 100, PGID: 4712, SID: 4712, Command: "./server"}},
		}},
	}
}

func TestParse(t *testing.T) {
	text, err := json.Marshal(sound())
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("state.json", text)
	if err != nil || f.Rounds[0].Processes[0].ID() != (proc.ID{PID: 4712, Start: 100}) || f.Rounds[0].Recorded()[0].SID != 4712 {
		t.Fatalf("%+v, %v", f, err)
	}
	newer := bytes.Replace(text, []byte(`"run":`), []byte(`"colour":"blue","run":`), 1)
	if _, err := Parse("state.json", newer); err != nil {
		t.Errorf("an unknown field: %v", err)
	}
}

// Whatever a run cannot have written refuses the whole file, and the error names the field.
func TestParseRefuses(t *testing.T) {
	many := func(n int) []string { return slices.Repeat([]string{"/a/b"}, n) }
	tests := []struct {
		field string
		edit  func(*File)
	}{
		{"schema", func(f *File) { f.Schema = 2 }},
		{"run", func(f *File) { f.Run = "../../etc" }},
		{"run", func(f *File) { f.Run = "" }},
		{"boot", func(f *File) { f.Boot = "today" }},
		{"url", func(f *File) { f.URL = "https://example.com\n::error::x" }},
		{"repository", func(f *File) { f.Repository = "service" }},
		{"repository", func(f *File) { f.Repository = "/" }},
		{"repository", func(f *File) { f.Repository = "/srv/../etc" }},
		{"scratch", func(f *File) { f.Scratch = "/home/me" }},
		{"scratch", func(f *File) { f.Scratch = "/tmp/tailgate-demo-1" }},
		{"rounds", func(f *File) { f.Worktrees = many(maxEntries + 1) }},
		{"rounds", func(f *File) { f.Rounds = slices.Repeat(f.Rounds, maxRounds+1) }},
		{"gpus", func(f *File) { f.GPUs = []string{"\x1b[31m"} }},
		{"owner", func(f *File) { f.Owner.PID = 1 }},
		{"owner", func(f *File) { f.Owner.Start = 0 }},
		{"worktrees[0]", func(f *File) { f.Worktrees = []string{"base"} }},
		{"rounds[0].state", func(f *File) { f.Rounds[0].State = "gone" }},
		{"rounds[0].tmpdir", func(f *File) { f.Rounds[0].TMPDIR = "/tmp" }},
		{"rounds[0].tmpdir", func(f *File) { f.Rounds[0].TMPDIR = "" }},
		{"rounds[0].port", func(f *File) { f.Rounds[0].Port = 65536 }},
		{"rounds[0].port", func(f *File) { f.Rounds[0].Port = -1 }},
		{"rounds[0].log", func(f *File) { f.Rounds[0].Log = "server.log" }},
		{"rounds[0].dir", func(f *File) { f.Rounds[0].Dir = "." }},
		{"rounds[0].stop", func(f *File) { f.Rounds[0].Stop = strings.Repeat("x", maxText+1) }},
		{"rounds[0].stop", func(f *File) { f.Rounds[0].Stop = "a\x00b" }},
		{"rounds[0].env[0]", func(f *File) { f.Rounds[0].Env = []string{"A=B"} }},
		{"rounds[0].processes", func(f *File) { f.Rounds[0].Env = many(maxEntries + 1) }},
		{"rounds[0].processes[0]", func(f *File) { f.Rounds[0].Processes[0].PID = 0 }},
		{"rounds[0].processes[0]", func(f *File) { f.Rounds[0].Processes[0].PGID = -1 }},
		{"rounds[0].processes[0]", func(f *File) { f.Rounds[0].Processes[0].Command = "a\nb" }},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprint(i, " ", tt.field), func(t *testing.T) {
			f := sound()
			tt.edit(&f)
			text, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse("here/state.json", text)
			e, ok := errors.AsType[*FormatError](err)
			if !ok || e.Field != tt.field || !strings.HasPrefix(e.Error(), "here/state.json: "+tt.field+": ") {
				t.Errorf("error %v, want one about %s", err, tt.field)
			}
		})
	}
	for text, want := range map[string]string{
		"{\n\"run\": }": "state.json:2: ", "": "state.json:1: ", `{"owner": {"pid": "x"}}`: "owner.pid", strings.Repeat(" ", maxBytes+1): "at most",
	} {
		if _, err := Parse("state.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: error %v, want %q", text, err, want)
		}
	}
}

// FuzzState: no bytes make a file that names something outside the bounds, and what is read can be written and read again.
func FuzzState(f *testing.F) {
	good, err := json.Marshal(sound())
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{
		good, nil, []byte("{}"), []byte(`{"schema":1,"rounds":[{}]}`), []byte(`{"owner":{"pid":-1}}`), []byte("[1]"), []byte(`{"schema":1e99}`),
		bytes.Replace(good, []byte("4712"), []byte("1"), 1), bytes.Replace(good, []byte("/tmp/tailgate-"), []byte("/tmp/../etc/tailgate-"), 1),
		good[:len(good)/2], append(slices.Clone(good), good...), bytes.Replace(good, []byte("./server"), []byte(`\u001b[2J\n`), 1),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("state.json", data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("an error of several lines or with control characters: %q", err)
			}
			return
		}
		for _, r := range file.Rounds {
			for _, p := range append(slices.Clone(r.Processes), file.Owner) {
				if p.PID <= 1 || p.Start == 0 {
					t.Errorf("process %+v", p)
				}
			}
			if !tempDir.MatchString(filepath.Base(r.TMPDIR)) || !filepath.IsAbs(r.TMPDIR) || strings.Contains(r.TMPDIR, "..") && filepath.Clean(r.TMPDIR) != r.TMPDIR {
				t.Errorf("TMPDIR %q", r.TMPDIR)
			}
		}
		text, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("state.json", text); err != nil {
			t.Errorf("written again it is refused: %v", err)
		}
	})
}

// create begins a book in a folder of its own.
func create(t *testing.T) (*Book, string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "20260304-101500-0badcafe")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := Create(root, File{Run: filepath.Base(root), Repository: "/srv/service"})
	if err != nil {
		t.Fatal(err)
	}
	return b, root
}

func reread(t *testing.T, b *Book) *File {
	t.Helper()
	text, err := os.ReadFile(b.Path())
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(b.Path(), text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// The file follows a run from its first worktree to its last proof, and then it is gone.
func TestBook(t *testing.T) {
	b, root := create(t)
	info, err := os.Stat(b.Path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	f := reread(t, b)
	if f.Owner.PID != os.Getpid() || f.Fate(proc.Table{}) != Lives || f.Boot == "" {
		t.Errorf("owner %+v of boot %s", f.Owner, f.Boot)
	}
	tree := filepath.Join(root, "base")
	must(t, b.Worktree(tree), b.Worktree(tree))
	must(t, b.Starting(Round{TMPDIR: tmp, Port: 20000, Log: "/x/server.log", Dir: tree, Env: []string{"PATH", "BASH_FUNC_x%%"}}))
	if f = reread(t, b); f.Rounds[0].State != "starting" || len(f.Rounds[0].Env) != 1 || !slices.Equal(f.Worktrees, []string{tree}) {
		t.Errorf("%+v", f)
	}
	must(t, b.Seen(tmp, []Process{{PID: 50, Start: 7, Command: "sh"}, {PID: 51, Start: 8}}))
	must(t, b.Seen(tmp, []Process{{PID: 50, Start: 7, Command: "./server"}, {PID: 52, Start: 9}}))
	must(t, b.Seen("/tmp/tailgate-ffffffffffffffff", []Process{{PID: 60, Start: 7}}))
	f = reread(t, b)
	if got := f.Rounds[0]; got.State != "running" || !slices.Equal(got.Processes, []Process{{PID: 51, Start: 8}, {PID: 50, Start: 7, Command: "./server"}, {PID: 52, Start: 9}}) {
		t.Errorf("%+v", got)
	}
	if err := b.Close(); !errors.Is(err, ErrOpen) {
		t.Errorf("closed with a server on record: %v", err)
	}
	must(t, b.Gone(tmp), b.Removed(tree), b.Close())
	left, err := os.ReadDir(root)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	var none *Book
	must(t, none.Worktree("/a/b"), none.Gone(tmp), none.Close())
}

// A thousand short-lived children do not fill the disk, nor push out those that live.
func TestBookIsBounded(t *testing.T) {
	b, _ := create(t)
	must(t, b.Starting(Round{TMPDIR: tmp, Port: 20000}))
	for i := range 600 {
		must(t, b.Seen(tmp, []Process{{PID: 50, Start: 7}, {PID: 100 + i, Start: 8}}))
	}
	got := reread(t, b).Rounds[0].Processes
	if len(got) > keepDead+2 || !slices.Contains(got, Process{PID: 50, Start: 7}) || !slices.Contains(got, Process{PID: 699, Start: 8}) {
		t.Errorf("%d processes, last %+v", len(got), got[len(got)-2:])
	}
}

// An unchanged file is not written again, a full or missing disk is an error at once and once more at the end.
func TestBookWrites(t *testing.T) {
	b, root := create(t)
	before, err := os.Stat(b.Path())
	must(t, err, b.Removed("/nothing"))
	after, err := os.Stat(b.Path())
	if must(t, err); !os.SameFile(before, after) {
		t.Error("written again without a change")
	}
	must(t, os.Rename(root, root+"-away"))
	if err := b.Worktree(filepath.Join(root, "base")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	must(t, os.Rename(root+"-away", root))
	must(t, b.Removed(filepath.Join(root, "base")))
	if err := b.Close(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the end does not tell of the write that failed: %v", err)
	}
	if err := b.Starting(Round{TMPDIR: "/tmp"}); err == nil {
		t.Error("a server without a TMPDIR of its own is taken")
	}
}

func TestBookIsSafeForConcurrentUse(t *testing.T) {
	b, _ := create(t)
	var all sync.WaitGroup
	for i := range 4 {
		dir := fmt.Sprintf("/tmp/tailgate-%016x", i)
		all.Go(func() {
			for range 20 {
				_ = b.Starting(Round{TMPDIR: dir, Port: 20000 + i})
				_ = b.Seen(dir, []Process{{PID: 50 + i, Start: 7}})
				_ = b.Gone(dir)
			}
		})
	}
	all.Wait()
	if f := reread(t, b); len(f.Rounds) > 0 {
		t.Errorf("%+v", f.Rounds)
	}
	must(t, b.Close())
}

func TestTake(t *testing.T) {
	b, root := create(t)
	held, err := Take(b.Path())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(b.Path()); !errors.Is(err, ErrBusy) {
		t.Errorf("taken twice: %v", err)
	}
	held.Release()
	held, err = Take(b.Path())
	must(t, err, held.Remove())
	held.Release()
	if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the empty root is left: %v", err)
	}
	if _, err := Take(b.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
	link := filepath.Join(t.TempDir(), Name)
	target := filepath.Join(t.TempDir(), "elsewhere")
	text, _ := json.Marshal(sound())
	must(t, os.WriteFile(target, text, 0o600), os.Symlink(target, link))
	if _, err := Take(link); err == nil {
		t.Error("a link was followed")
	}
	if _, err := Take(t.TempDir()); err == nil {
		t.Error("a folder was read")
	}
	if os.Geteuid() == 0 {
		must(t, os.Chown(target, 12345, -1))
		if _, err := Take(target); !errors.Is(err, ErrForeign) {
			t.Errorf("another user's file: %v", err)
		}
	}
}

func TestFate(t *testing.T) {
	here, namespace := Here(proc.Table{})
	self, err := proc.Table{}.Read(os.Getpid())
	if must(t, err); here == "" || namespace == "" {
		t.Fatalf("boot %q, namespace %q", here, namespace)
	}
	tests := []struct {
		name string
		edit func(*File)
		want Fate
	}{
		{"alive", func(*File) {}, Lives},
		{"dead", func(f *File) { f.Owner.Start++ }, Dead},
		{"another boot", func(f *File) { f.Boot = boot }, BeforeBoot},
		{"another container", func(f *File) { f.Namespace = "pid:[1]" }, Elsewhere},
		{"namespace unknown then", func(f *File) { f.Namespace = "" }, Lives},
	}
	for _, tt := range tests {
		f := sound()
		f.Boot, f.Namespace, f.Owner = here, namespace, Process{PID: self.PID, Start: self.Start}
		if tt.edit(&f); f.Fate(proc.Table{}) != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, f.Fate(proc.Table{}), tt.want)
		}
	}
	f := sound()
	if got := f.Fate(proc.Table{Root: t.TempDir()}); got != Elsewhere {
		t.Errorf("without a process table: %v", got)
	}
}

// On a file's word only folders of this user go, where a run makes them, and none through a link.
func TestRemovable(t *testing.T) {
	b, root := create(t)
	held, err := Take(b.Path())
	must(t, err)
	defer held.Release()
	tree, outside := filepath.Join(root, "base"), filepath.Join(t.TempDir(), "base")
	must(t, os.Mkdir(tree, 0o700), os.Mkdir(outside, 0o700), os.Symlink(outside, filepath.Join(root, "head")))
	for path, want := range map[string]bool{tree: true, outside: false, filepath.Join(root, "head"): false, filepath.Join(root, "none"): false, root: false} {
		if held.Removable(path) != want {
			t.Errorf("%s: removable %t", path, !want)
		}
	}
	parent := t.TempDir()
	own, link, plain := filepath.Join(parent, filepath.Base(tmp)), filepath.Join(parent, "tailgate-00112233aabbccde"), filepath.Join(parent, "home")
	must(t, os.Mkdir(own, 0o700), os.Symlink(own, link), os.Mkdir(plain, 0o700))
	for path, want := range map[string]bool{own: true, link: false, plain: false, filepath.Join(parent, "none"): false} {
		if Disposable(path) != want {
			t.Errorf("%s: disposable %t", path, !want)
		}
	}
}
