package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// The two namespaces of a cache.
const (
	protectedSpace = "protected"
	changeSpace    = "pr"
)

const (
	// lockEvery is how often a lock that another process holds is tried again.
	lockEvery = 20 * time.Millisecond
	// lockWait is how long it is tried. Longer than the largest entry takes to copy; a process that was stopped in between
	// must not keep others from building.
	lockWait = 5 * time.Minute
)

var (
	// errEntry says that an entry is not what its manifest says, so that it must go.
	errEntry = errors.New("the entry is damaged")
	// errAbsent says that there is no entry.
	errAbsent = errors.New("no such entry")
	// errDirty says that a worktree could not be brought back to its commit after an entry failed.
	errDirty = errors.New("the worktree could not be brought back to its commit")
)

// Cache is where the outputs of builds are kept between runs, and what is built now. Two processes may use one folder at a
// time. Every hash is verified when an entry is used. That guards against accidents; a build that wants to can write into
// the folder, since it runs as the same user.
type Cache struct {
	// Dir is the folder, absolute; it is made.
	Dir string
	// Repo and Commit name what is built.
	Repo, Commit string
	// Protected says that the commit is reachable from a protected branch. Only its builds are written to the protected
	// namespace, and it reads no other.
	Protected bool
	// Worktree is how the worktree was filled. It is part of the key, and the way back when an entry fails.
	Worktree WorktreeOptions
	// Limit is the most that all entries may take, bytes; 20 GiB when 0. The least recently used goes first.
	Limit int64

	// wait is [lockWait] when 0.
	wait time.Duration
}

// shelf is the place of one build in a cache. The zero value holds nothing.
type shelf struct {
	cache Cache
	// key is 64 hex; empty when the cache is off.
	key  string
	note func(id, text string)
}

// newShelf finds the place of a build; printed is what its tools said, known whether they all did. Where the build cannot be
// kept, a note says why.
func newShelf(ctx context.Context, o Options, printed []string, known bool) *shelf {
	if o.Cache == nil || !known || strings.TrimSpace(o.Command) == "" {
		return &shelf{}
	}
	reason := ""
	key, err := cacheKey(ctx, o, printed)
	switch {
	case ctx.Err() != nil:
		return &shelf{}
	case len(o.Outputs) == 0:
		reason = "target.outputs is empty, and the whole worktree is not kept"
	case o.Image != "":
		reason = "target.image_digest is set: the image lies outside the outputs"
	case err != nil:
		reason = err.Error()
	}
	for _, name := range []string{protectedSpace, changeSpace, "tmp"} {
		if err := os.MkdirAll(filepath.Join(o.Cache.Dir, name), 0o700); err != nil && reason == "" {
			reason = err.Error()
		}
	}
	if reason != "" {
		o.Note("cache_off", reason)
		return &shelf{}
	}
	return &shelf{cache: *o.Cache, key: key, note: o.Note}
}

func (s *shelf) entry(space string) string { return filepath.Join(s.cache.Dir, space, s.key) }

// readable lists the namespaces that the build may come from. What a pull request built is never the base of another.
func (s *shelf) readable() []string {
	if s.cache.Protected {
		return []string{protectedSpace}
	}
	return []string{protectedSpace, changeSpace}
}

// take puts the kept outputs into the worktree, if there are any, and reports whether it did. A damaged entry is deleted. The
// error is of a worktree that nothing may be built in.
func (s *shelf) take(ctx context.Context, o Options, b *record.Build) (bool, error) {
	if s.key == "" {
		return false, nil
	}
	began := time.Now()
	for _, space := range s.readable() {
		sum, files, err := s.takeFrom(ctx, o, space)
		switch {
		case err == nil:
			b.SHA256, b.Files, b.Cached, b.Seconds = sum, files, true, time.Since(began).Seconds()
			return true, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case errors.Is(err, errDirty):
			return false, err
		case errors.Is(err, errEntry):
			s.note("cache_entry_bad", fmt.Sprintf("%s: %v; deleted, and built anew", s.entry(space), err))
			s.drop(ctx, space)
		case !errors.Is(err, errAbsent):
			s.note("cache_not_used", err.Error())
		}
	}
	return false, nil
}

func (s *shelf) takeFrom(ctx context.Context, o Options, space string) (sum string, files int, err error) {
	unlock, err := s.lock(ctx, syscall.LOCK_SH)
	if err != nil {
		return "", 0, err
	}
	defer unlock()
	entry, err := os.OpenRoot(s.entry(space))
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, errAbsent
	}
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = entry.Close() }()
	m, err := readManifest(entry, s.key)
	if err != nil {
		return "", 0, err
	}
	if sum, files, err = m.place(ctx, entry, o); err != nil {
		if resetErr := s.cache.renewTree(ctx, o.Dir); resetErr != nil {
			return "", 0, errors.Join(errDirty, resetErr, err)
		}
		return "", 0, err
	}
	now := time.Now()
	_ = entry.Chtimes(manifestName, now, now) // a cache that cannot be written to forgets in another order
	return sum, files, nil
}

// drop deletes an entry.
func (s *shelf) drop(ctx context.Context, space string) {
	unlock, err := s.lock(ctx, syscall.LOCK_EX)
	if err != nil {
		return
	}
	defer unlock()
	if left := remove(s.entry(space)); len(left) > 0 {
		s.note("cache_entry_left", (&LeftError{left}).Error())
	}
}

// put keeps what a build left under its outputs; sum is its artefact digest. Failure is a note.
func (s *shelf) put(ctx context.Context, o Options, sum string) {
	if s.key == "" || ctx.Err() != nil {
		return
	}
	if err := s.keep(ctx, o, sum); err != nil && ctx.Err() == nil {
		s.note("cache_not_written", err.Error())
	}
}

func (s *shelf) keep(ctx context.Context, o Options, sum string) error {
	space := changeSpace
	if s.cache.Protected {
		space = protectedSpace
	}
	tmp, err := os.MkdirTemp(filepath.Join(s.cache.Dir, "tmp"), "entry-")
	if err != nil {
		return err
	}
	defer remove(tmp)
	if err := fillEntry(ctx, tmp, o, manifest{Version: manifestVersion, Key: s.key, Artefact: sum, Command: o.shown()}, s.cache.limit()); err != nil {
		return err
	}
	unlock, err := s.lock(ctx, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	// Another process may have been faster; its entry holds the same.
	if _, err := os.Lstat(s.entry(space)); err == nil {
		return nil
	}
	if err := os.Rename(tmp, s.entry(space)); err != nil {
		return err
	}
	return s.cache.shrink(s.entry(space))
}

// lock takes the cache's lock, shared to read entries, exclusive to change which there are.
func (s *shelf) lock(ctx context.Context, how int) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.cache.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockEvery)
	defer ticker.Stop()
	wait := cmp.Or(s.cache.wait, lockWait)
	late := time.NewTimer(wait)
	defer late.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, errors.Join(fmt.Errorf("lock of the build cache: %w", err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-late.C:
			return nil, errors.Join(fmt.Errorf("another process has held the lock %s for %v", f.Name(), wait), f.Close())
		case <-ticker.C:
		}
	}
}
