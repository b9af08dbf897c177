package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// wants opens a lock and is ready to take it.
func wants(t *testing.T, path, content string, timeout time.Duration) (*taking, *[]string) {
	t.Helper()
	file, err := openLock(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	var said []string
	return &taking{file: file, path: path, content: content, timeout: timeout, say: func(line string) { said = append(said, line) }}, &said
}

func TestLockPaths(t *testing.T) {
	gpus := []record.GPU{{UUID: "GPU-b"}, {UUID: "GPU-a"}, {UUID: "GPU-b"}, {UUID: "../x"}}
	tests := []struct {
		name string
		wish lockWish
		gpus []record.GPU
		want []string
	}{
		{"each GPU once, in one order", lockWish{}, gpus, []string{"/run/lock/tailgate----x.lock", "/run/lock/tailgate-GPU-a.lock", "/run/lock/tailgate-GPU-b.lock"}},
		{"no GPU, no lock", lockWish{}, nil, nil},
		{"off", lockWish{path: "off"}, gpus, nil},
		{"a file for all", lockWish{path: "/x/lock"}, gpus, []string{"/x/lock"}},
		{"a file without a GPU", lockWish{path: "/x/lock"}, nil, []string{"/x/lock"}},
	}
	for _, tt := range tests {
		if got := tt.wish.paths(tt.gpus); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// One holds the lock; the other waits, says for whom, gives up in time, and gets it once it is free.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, _ := wants(t, path, "run 1, pid 7, https://example.com/1\x1b[2J", time.Second)
	if err := first.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, said := wants(t, path, "run 2", 10*time.Millisecond)
	locked, ok := errors.AsType[*lockedError](second.take(t.Context()))
	if !ok || !strings.Contains(locked.Error(), "held by run 1, pid 7, https://example.com/1") || strings.Contains(locked.Error(), "\x1b") {
		t.Fatalf("error %v", locked)
	}
	if len(*said) != 1 || !strings.HasPrefix((*said)[0], "waiting for "+path+", held by run 1") {
		t.Errorf("said %q", *said)
	}
	third, _ := wants(t, path, "run 3", time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := third.take(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	hostLock{first.file}.release()
	fourth, _ := wants(t, path, "run 4", time.Minute)
	if err := fourth.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "run 4\n" {
		t.Errorf("the file says %q", text)
	}
}

// A child never inherits the lock: a leftover server would hold it for ever.
func TestLockIsCloseOnExec(t *testing.T) {
	l, _ := wants(t, filepath.Join(t.TempDir(), "lock"), "run 1", time.Second)
	flags, err := unix.FcntlInt(l.file.Fd(), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %x, %v", flags, err)
	}
}

// A lock whose file was removed keeps nobody out: the new file is taken.
func TestLockFileReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, _ := wants(t, path, "run 1", time.Minute)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := l.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "run 1\n" {
		t.Errorf("the file at the path says %q", text)
	}
}

func TestOpenLock(t *testing.T) {
	dir := t.TempDir()
	old := syscall.Umask(0o077)
	file, err := openLock(filepath.Join(dir, "lock"))
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("mode %v, %v: another user must be able to open it", info.Mode(), err)
	}
	_ = file.Close()
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Symlink(filepath.Join(dir, "target"), link), unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, filepath.Join(dir, "pipe"), dir, filepath.Join(dir, "none", "lock")} {
		if f, err := openLock(path); err == nil {
			t.Errorf("%s was opened as a lock", path)
			_ = f.Close()
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "target")); err == nil {
		t.Error("a file was made through a link")
	}
	for _, w := range []lockWish{{path: filepath.Join(dir, "none", "lock")}, {timeout: -time.Second}} {
		if exit, ok := errors.AsType[*exitError](w.check()); !ok || exit.code != 2 || exit.hint == "" {
			t.Errorf("%+v: not refused", w)
		}
	}
	if err := errors.Join(lockWish{}.check(), lockWish{path: "off"}.check(), lockWish{path: filepath.Join(dir, "lock")}.check()); err != nil {
		t.Error(err)
	}
}

// Where the machine's folder cannot be written, the runner's own takes the lock, and it is said that this protects less.
func TestLockFallsBack(t *testing.T) {
	temp := filepath.Join(t.TempDir(), "_temp")
	c := &comparison{app: &app{environ: []string{"RUNNER_TEMP=" + temp}}}
	file, at, err := c.openFirst("/proc/tailgate-GPU-a.lock")
	if err != nil || at != filepath.Join(filepath.Dir(temp), "tailgate-GPU-a.lock") {
		t.Fatalf("%s, %v", at, err)
	}
	_ = file.Close()
	c.lock.path = "/proc/mine.lock"
	if _, _, err := c.openFirst(c.lock.path); err == nil {
		t.Error("a lock that was asked for by name is replaced by another")
	}
}
