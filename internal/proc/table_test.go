package proc

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const statRest = " 0 0 0 0 0 0 0 0 0 0 0 20 0 1 0 "

func TestParseStat(t *testing.T) {
	tests := []struct {
		name, line string
		want       Process
		bad        bool
	}{
		{
			name: "plain", line: "42 (server) S 7 42 42" + statRest + "9001 1 2 3\n",
			want: Process{ID: ID{42, 9001}, PPID: 7, PGID: 42, SID: 42, State: 'S', Comm: "server"},
		},
		{
			name: "hostile name", line: "42 (a) R 1 (b) Z 7 41 40" + statRest + "9001 1\n",
			want: Process{ID: ID{42, 9001}, PPID: 7, PGID: 41, SID: 40, State: 'Z', Comm: "a) R 1 (b"},
		},
		{name: "no name", line: "42 server S 7 42 42" + statRest + "9001", bad: true},
		{name: "short", line: "42 (server) S 7 42", bad: true},
		{name: "not a number", line: "42 (server) S x 42 42" + statRest + "9001", bad: true},
		{name: "start not a number", line: "42 (server) S 7 42 42" + statRest + "-1", bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStat([]byte(tt.line))
			if (err != nil) != tt.bad {
				t.Fatalf("error %v, want error: %v", err, tt.bad)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" && !tt.bad {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (server) S 7 42 42" + statRest + "9001 1 2 3\n"))
	f.Add([]byte("1 () () S"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if p, err := parseStat(line); err == nil && p.State == 0 {
			t.Errorf("parseStat(%q) gave no state", line)
		}
	})
}

func TestTableOfAnotherRoot(t *testing.T) {
	root := t.TempDir()
	for pid, line := range map[string]string{"42": "42 (a) S 1 42 42" + statRest + "5", "43": "43 (b) S 42 42 42" + statRest + "6"} {
		dir := filepath.Join(root, pid)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"44", "self", "sys"} { // 44 has ended: an empty folder
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	table := Table{Root: root}
	list, err := table.List(func(pid int) bool { return pid == 42 })
	if err != nil || len(list) != 1 || list[0].PID != 43 {
		t.Errorf("list = %v, %v; want pid 43 alone", list, err)
	}
	if _, err := table.Read(45); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent process: %v", err)
	}
	if got := table.Command(43, nil); got != "[b]" {
		t.Errorf("command without a command line: %q", got)
	}
}

func TestTableReportsWhatItCannotRead(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "42", "stat"), 0o700); err != nil { // a folder: not "gone" but unreadable
		t.Fatal(err)
	}
	if list, err := (Table{Root: root}).List(nil); err == nil {
		t.Errorf("list = %v without an error", list)
	}
}

func TestListenersAndHolder(t *testing.T) {
	var table Table
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		var config net.ListenConfig
		l, err := config.Listen(t.Context(), "tcp", addr)
		if err != nil {
			t.Logf("no %s here: %v", addr, err)
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		found, err := table.Listeners(port)
		if err != nil || len(found) != 1 || !found[0].Reaches() {
			t.Fatalf("listeners on %d: %v, %v", port, found, err)
		}
		if held, err := table.Holds(os.Getpid(), found[0].Inode); err != nil || !held {
			t.Errorf("our own socket is held by us: %v, %v", held, err)
		}
		if held, err := table.Holds(os.Getpid(), found[0].Inode+1_000_000_000); err != nil || held {
			t.Errorf("another socket: %v, %v", held, err)
		}
		if got := table.Holder(found[0]); !strings.HasPrefix(got, "pid ") {
			t.Errorf("holder = %q", got)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if found, err := table.Listeners(port); err != nil || len(found) != 0 {
			t.Errorf("listeners on a free port: %v, %v", found, err)
		}
	}
}

func TestShellAndQuote(t *testing.T) {
	if path, bash, err := Shell(testEnv()); err != nil || !bash || filepath.Base(path) != "bash" {
		t.Errorf("Shell = %q, %v, %v", path, bash, err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sh"), []byte("#!/bin/true\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if path, bash, err := Shell([]string{"PATH=bin:" + dir}); err != nil || bash || path != filepath.Join(dir, "sh") {
		t.Errorf("Shell without bash = %q, %v, %v", path, bash, err)
	}
	if _, _, err := Shell([]string{"PATH=" + t.TempDir()}); !errors.Is(err, ErrNoShell) {
		t.Errorf("no shell: %v", err)
	}
	for in, want := range map[string]string{"": "''", "a b": "'a b'", "it's $HOME": `'it'\''s $HOME'`} {
		if got := Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestPrivateDir(t *testing.T) {
	parent := t.TempDir()
	a, errA := PrivateDir(parent)
	b, errB := PrivateDir(parent)
	if errA != nil || errB != nil || a == b || len(a) != len(b) || filepath.Dir(a) != parent {
		t.Errorf("%q, %v and %q, %v; want two paths of one length", a, errA, b, errB)
	}
	if info, err := os.Stat(a); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode: %v, %v", info, err)
	}
	if _, err := PrivateDir(filepath.Join(parent, "absent")); err == nil {
		t.Error("a parent that does not exist")
	}
}
