package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

const (
	starting = "starting"
	running  = "running"
	// keepDead is how many processes a round keeps on record although the last look did not find them. A dead one does no
	// harm: its pid and start time never come again.
	keepDead = 256
)

// ErrOpen says that a state file stays because something it names is still there.
var ErrOpen = errors.New("not everything is gone")

// Book writes the state file of a run that lives. Its methods are safe for concurrent use; a nil one keeps nothing.
type Book struct {
	path string

	mu   sync.Mutex // guards what follows
	file File
	// last is what the file holds.
	last []byte
	err  error
	// ended is set once the file was removed.
	ended bool
}

// Create writes the file into a run's root, which must exist. f names run, repository, GPUs and what else is known; boot,
// namespace and owner are filled in.
func Create(root string, f File) (*Book, error) {
	self, err := proc.Table{}.Read(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	f.Schema = Schema
	f.Boot, f.Namespace = Here(proc.Table{})
	f.Owner = Process{PID: self.PID, Start: self.Start, PGID: self.PGID, SID: self.SID}
	f.Worktrees, f.GPUs, f.Rounds = slices.Clone(f.Worktrees), slices.Clone(f.GPUs), slices.Clone(f.Rounds)
	b := &Book{path: filepath.Join(root, Name), file: f}
	if field, text := f.check(); text != "" {
		return nil, &FormatError{File: b.path, Field: field, Text: text}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b, b.write()
}

// Path is where the file is; empty for a nil book.
func (b *Book) Path() string {
	if b == nil {
		return ""
	}
	return b.path
}

// Worktree adds a folder that is about to be made beside the file.
func (b *Book) Worktree(path string) error {
	return b.change(func(f *File) {
		if !slices.Contains(f.Worktrees, path) {
			f.Worktrees = append(f.Worktrees, path)
		}
	})
}

// Removed takes a worktree out again.
func (b *Book) Removed(path string) error {
	return b.change(func(f *File) {
		f.Worktrees = slices.DeleteFunc(f.Worktrees, func(have string) bool { return have == path })
	})
}

// Starting adds a server that is about to be started. Its TMPDIR is its name from then on. Variables that no shell can name
// are left out: no stop command can miss them.
func (b *Book) Starting(r Round) error {
	r.State, r.Processes = starting, []Process{}
	r.Env = slices.DeleteFunc(slices.Clone(r.Env), func(name string) bool { return !envKey.MatchString(name) })
	if field, text := r.check(); text != "" {
		return &FormatError{File: b.Path(), Field: "rounds[]." + field, Text: text}
	}
	return b.change(func(f *File) { f.Rounds = append(f.Rounds, r) })
}

// Seen puts processes of a server on record, the youngest last. What was seen before stays, since a process that hides from
// one look is still there. A server that is not in the book is nobody's.
func (b *Book) Seen(tmp string, seen []Process) error {
	return b.change(func(f *File) {
		for i := range f.Rounds {
			if r := &f.Rounds[i]; r.TMPDIR == tmp && len(seen) > 0 {
				r.State = running
				r.Processes = merged(r.Processes, seen)
			}
		}
	})
}

// merged is what was seen now, and of what was seen earlier the latest.
func merged(before, now []Process) []Process {
	list := slices.DeleteFunc(slices.Clone(before), func(old Process) bool {
		return slices.ContainsFunc(now, func(p Process) bool { return p.ID() == old.ID() })
	})
	list = append(list[max(0, len(list)-keepDead):], now...)
	return list[max(0, len(list)-maxProcesses):]
}

// Gone takes a server out: it is proven gone.
func (b *Book) Gone(tmp string) error {
	return b.change(func(f *File) {
		f.Rounds = slices.DeleteFunc(f.Rounds, func(r Round) bool { return r.TMPDIR == tmp })
	})
}

// Close removes the file when nothing that it names is left, and returns ErrOpen when something is. It also returns the
// first error of a write that nobody was told of.
func (b *Book) Close() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.file.Rounds) > 0 || len(b.file.Worktrees) > 0 {
		return errors.Join(fmt.Errorf("%s: %w", b.path, ErrOpen), b.err)
	}
	err := os.Remove(b.path)
	b.ended = err == nil
	return errors.Join(err, b.err)
}

// Ended reports whether the file was removed. A nil book has none.
func (b *Book) Ended() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// change edits the file and writes it if that made a difference.
func (b *Book) change(edit func(*File)) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	edit(&b.file)
	err := b.write()
	if b.err == nil {
		b.err = err
	}
	return err
}

// write replaces the file; the caller holds the lock. It is not synced: after a crash of the machine nothing in it runs.
func (b *Book) write() error {
	f := b.file
	for _, list := range []*[]string{&f.Worktrees, &f.GPUs} {
		if *list == nil {
			*list = []string{}
		}
	}
	if f.Rounds == nil {
		f.Rounds = []Round{}
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	if slices.Equal(text, b.last) {
		return nil
	}
	tmp := b.path + ".tmp"
	if err := os.WriteFile(tmp, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("state file: %w", errors.Join(err, os.Remove(tmp)))
	}
	if err := os.Rename(tmp, b.path); err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	b.last = text
	return nil
}
