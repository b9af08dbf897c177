package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

var (
	// ErrForeign says that a file belongs to another user.
	ErrForeign = errors.New("another user's")
	// ErrBusy says that somebody else has taken the file just now.
	ErrBusy = errors.New("somebody else cleans up after this run just now")
)

// Held is a state file that nobody else may clean up after meanwhile.
type Held struct {
	*File
	// Path is the file.
	Path string
	file *os.File
}

// Take reads a file and holds it. It returns fs.ErrNotExist when there is none, ErrForeign for another user's, ErrBusy while
// somebody else holds it, and a [FormatError] for one that no run wrote. It follows no link.
func Take(path string) (*Held, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("%s: %w", path, ErrForeign)
		}
		return nil, err
	}
	h, err := take(path, file)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return h, nil
}

func take(path string, file *os.File) (*Held, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &FormatError{File: path, Text: "not a file"}
	}
	if !mine(info) {
		return nil, fmt.Errorf("%s: %w", path, ErrForeign)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("%s: %w", path, ErrBusy)
	}
	// Between the opening and the lock the file may have been removed, or replaced by an owner that lives.
	if now, err := os.Lstat(path); err != nil || !os.SameFile(info, now) {
		return nil, fmt.Errorf("%s: %w", path, ErrBusy)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, err
	}
	f, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	return &Held{File: f, Path: path, file: file}, nil
}

// mine reports whether this user owns a file.
func mine(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// Release lets others take the file.
func (h *Held) Release() { _ = h.file.Close() }

// Remove removes the file, and the run's root if nothing else is in it. A lock ends with it.
func (h *Held) Remove() error {
	_ = os.Remove(h.Path + ".tmp") // of a write that did not come to its end
	if err := os.Remove(h.Path); err != nil {
		return err
	}
	if err := os.Remove(filepath.Dir(h.Path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("what is left beside the state file: %w", err)
	}
	return nil
}

// Fate is what became of a file's owner.
type Fate int

// An owner lives; is dead; is dead since the machine was started anew, and with it everything that ran; or counts its pids
// elsewhere, in another container, so that nobody here can tell.
const (
	Lives Fate = iota
	Dead
	BeforeBoot
	Elsewhere
)

// Fate says what became of the owner.
func (f *File) Fate(t proc.Table) Fate {
	boot, namespace := Here(t)
	switch {
	case boot == "":
		return Elsewhere // nothing is known of this machine
	case f.Boot != boot:
		return BeforeBoot
	case f.Namespace != "" && namespace != "" && f.Namespace != namespace:
		return Elsewhere
	case t.Alive(f.Owner.ID()):
		return Lives
	default:
		return Dead
	}
}

// Removable reports whether a worktree of the file may be removed on its word: it lies beside the file, no link leads there.
func (h *Held) Removable(worktree string) bool {
	root, err := filepath.EvalSymlinks(filepath.Dir(h.Path))
	if err != nil {
		return false
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(worktree))
	if err != nil || parent != root {
		return false
	}
	info, err := os.Lstat(worktree)
	return err == nil && info.IsDir() && mine(info)
}

// Disposable reports whether a temporary folder of the file may be removed on its word: a folder of this user, no link.
func Disposable(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && mine(info) && (tempDir.MatchString(filepath.Base(dir)) || scratchDir.MatchString(filepath.Base(dir)))
}
