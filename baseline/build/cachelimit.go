package build

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// defaultLimit is the most that all entries of a cache take, bytes.
	defaultLimit = 20 << 30
	// staleAfter is the age of a half-written entry whose writer must be gone.
	staleAfter = 24 * time.Hour
)

func (c Cache) limit() int64 { return cmp.Or(c.Limit, defaultLimit) }

// entryInfo is one entry of a cache.
type entryInfo struct {
	path string
	size int64
	used time.Time
}

// shrink deletes the least recently used entries until the rest fits, but not the one that was just written. The caller holds
// the cache's lock, alone.
func (c Cache) shrink(newest string) error {
	var entries []entryInfo
	total := int64(0)
	for _, space := range []string{protectedSpace, changeSpace} {
		list, err := os.ReadDir(filepath.Join(c.Dir, space))
		if err != nil {
			return err
		}
		for _, d := range list {
			e := measureEntry(filepath.Join(c.Dir, space, d.Name()))
			entries = append(entries, e)
			total += e.size
		}
	}
	slices.SortFunc(entries, func(a, b entryInfo) int { return a.used.Compare(b.used) })
	var errs []error
	for _, e := range entries {
		if total <= c.limit() {
			break
		}
		if e.path == newest {
			continue
		}
		if left := remove(e.path); len(left) > 0 {
			errs = append(errs, &LeftError{left})
			continue
		}
		total -= e.size
	}
	return errors.Join(append(errs, c.sweep())...)
}

// measureEntry adds up an entry's files. Without a manifest it counts as never used.
func measureEntry(path string) entryInfo {
	e := entryInfo{path: path}
	if info, err := os.Stat(filepath.Join(path, manifestName)); err == nil {
		e.used = info.ModTime()
	}
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				e.size += info.Size()
			}
		}
		return nil
	})
	return e
}

// sweep deletes what a process that was killed left half-written.
func (c Cache) sweep() error {
	dir := filepath.Join(c.Dir, "tmp")
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, d := range list {
		info, err := d.Info()
		if err == nil && time.Since(info.ModTime()) > staleAfter {
			remove(filepath.Join(dir, d.Name()))
		}
	}
	return nil
}
