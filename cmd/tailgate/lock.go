package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// lockFolder holds the locks of a machine, for all of its users.
	lockFolder = "/run/lock"
	// lockOff is the flag's word for no lock.
	lockOff = "off"
	// lockEvery is the pause between two tries, lockSay between two lines about whom a run waits for.
	lockEvery, lockSay = 200 * time.Millisecond, time.Minute
	// defaultLockTimeout is how long another session is waited for where nobody says.
	defaultLockTimeout = 30 * time.Minute
	// holderLimit bounds what is read of a lock's holder, bytes.
	holderLimit = 1024
)

// lockWish says which lock keeps other sessions off this machine's GPUs.
type lockWish struct {
	// path is a file; empty for one per GPU in the machine's folder, "off" for none.
	path string
	// timeout is how long another session is waited for.
	timeout time.Duration
}

// flags adds the flags of the host lock.
func (w *lockWish) flags(f *pflag.FlagSet) {
	f.StringVar(&w.path, "gpu-lock", "", "lock file that keeps other sessions away while this one measures, or off (default: one per watched GPU in "+lockFolder+", none without a GPU)")
	f.DurationVar(&w.timeout, "lock-timeout", defaultLockTimeout, "how long to wait for a session that holds the lock")
}

// check refuses a lock that could not be taken later, after two builds.
func (w lockWish) check() error {
	if w.timeout < 0 {
		return usage(fmt.Errorf("--lock-timeout %s is negative", w.timeout), "write how long to wait for another session, such as 30m")
	}
	if w.path == "" || w.path == lockOff {
		return nil
	}
	f, err := openLock(w.path)
	if err != nil {
		return usage(fmt.Errorf("--gpu-lock: %w", err), "name a file that this user may create or write, or off")
	}
	return f.Close()
}

// paths are the locks to be taken, in an order that all sessions keep to: two that want the same GPUs never wait for each
// other.
func (w lockWish) paths(gpus []record.GPU) []string {
	switch w.path {
	case lockOff:
		return nil
	case "":
		var paths []string
		for _, g := range gpus {
			name := regexp.MustCompile(`[^A-Za-z0-9-]`).ReplaceAllString(g.UUID, "-")
			paths = append(paths, filepath.Join(lockFolder, "tailgate-"+name+".lock"))
		}
		slices.Sort(paths)
		return slices.Compact(paths)
	default:
		return []string{w.path}
	}
}

// lockedError says that another session kept a lock for too long.
type lockedError struct {
	path, holder string
	waited       time.Duration
}

// Error names the lock, its holder and the way out.
func (e *lockedError) Error() string {
	return fmt.Sprintf("%s was held by %s for %s: another session measures on this machine; wait for it, or lengthen --lock-timeout",
		e.path, e.holder, e.waited.Round(time.Second))
}

// lockHost takes the locks and reports whether the session may measure. Without a GPU, and without --gpu-lock, there are none.
func (c *comparison) lockHost(ctx context.Context) (release func(), ok bool, err error) {
	var held hostLock
	content := fmt.Sprintf("run %s, pid %d", c.id, os.Getpid())
	if c.runner.URL != "" {
		content += ", " + c.runner.URL
	}
	for _, path := range c.lock.paths(c.run.Environment.GPUs) {
		file, at, openErr := c.openFirst(path)
		if openErr != nil {
			held.release()
			return nil, false, openErr
		}
		if at != path {
			c.note("gpu_lock_local", fmt.Sprintf("%s cannot be written, the lock is %s: it protects this runner only", path, at))
		}
		t := taking{file: file, path: at, content: content, timeout: c.lock.timeout, say: func(line string) { fmt.Fprintln(c.progress, line) }}
		if err := t.take(ctx); err != nil {
			held.release()
			if locked, is := errors.AsType[*lockedError](err); is {
				c.incident(record.Incident{ID: record.GPULocked, Text: locked.Error()})
				return nil, false, nil
			}
			return nil, false, err
		}
		held = append(held, t.file)
	}
	return held.release, true, nil
}

// openFirst opens a lock where all users of the machine find it, or else where this runner's sessions do.
func (c *comparison) openFirst(path string) (file *os.File, at string, err error) {
	if file, err = openLock(path); err == nil || c.lock.path == path {
		return file, path, err
	}
	folder := os.TempDir()
	if temp := c.app.getenv("RUNNER_TEMP"); temp != "" {
		folder = filepath.Dir(temp) // the runner's own: its temporary folder is emptied with each job
	}
	at = filepath.Join(folder, filepath.Base(path))
	local, localErr := openLock(at)
	if localErr != nil {
		return nil, "", errors.Join(err, localErr)
	}
	return local, at, nil
}

// openLock opens a lock file, or makes it so that every user can. It is opened as it is first: where the folder is everybody's,
// the kernel refuses to create a file that another user has made (fs.protected_regular). A link is never followed.
func openLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o666); err == nil { //nolint:gosec // every user must be able to lock
			_ = file.Chmod(0o666) // the umask took something away; another user's file has its mode already
		}
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// taking is the wait for one lock.
type taking struct {
	file          *os.File
	path, content string
	timeout       time.Duration
	say           func(line string)
}

// take waits until the lock is ours, the time is over or ctx ends. The file is open and ours to close in any case.
func (t *taking) take(ctx context.Context) error {
	began, said := time.Now(), time.Time{}
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		ours, err := t.try()
		if ours || err != nil {
			return err
		}
		holder, waited := t.holder(), time.Since(began)
		if waited >= t.timeout {
			_ = t.file.Close()
			return &lockedError{path: t.path, holder: holder, waited: waited}
		}
		if time.Since(said) >= lockSay {
			said = time.Now()
			t.say(fmt.Sprintf("waiting for %s, held by %s, for %s so far, at most %s", t.path, holder, waited.Round(time.Second), t.timeout))
		}
		select {
		case <-ctx.Done():
			_ = t.file.Close()
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// try takes the lock if it is free. A file that was removed meanwhile would lock out nobody: the one that is there now is
// opened instead.
func (t *taking) try() (bool, error) {
	err := unix.Flock(int(t.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if err != nil {
		_ = t.file.Close()
		return false, fmt.Errorf("%s: %w", t.path, err)
	}
	info, err := t.file.Stat()
	now, nowErr := os.Lstat(t.path)
	if err != nil || nowErr != nil || !os.SameFile(info, now) {
		_ = t.file.Close()
		t.file, err = openLock(t.path)
		return false, err
	}
	// Who holds it is for people; a disk that cannot take the line does not make the lock less ours.
	if t.file.Truncate(0) == nil {
		_, _ = t.file.WriteAt([]byte(t.content+"\n"), 0)
	}
	return true, nil
}

// holder is who wrote the file last, as text that is safe to show.
func (t *taking) holder() string {
	text, err := io.ReadAll(io.NewSectionReader(t.file, 0, holderLimit))
	if who := strings.TrimSpace(proc.Clean(string(text), holderLimit)); err == nil && who != "" {
		return who
	}
	return "somebody who does not say who"
}

// hostLock holds the locks of one session. The process's end releases them as well.
type hostLock []*os.File

func (l hostLock) release() {
	for _, file := range l {
		_ = file.Truncate(0)
		_ = file.Close()
	}
}
