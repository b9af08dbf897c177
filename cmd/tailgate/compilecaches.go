package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/baseline/build"
	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// makeCaches makes the folders of target.cache_env: one for each name, of each arm's own, so that no arm finds what the other
// has compiled. Their paths are equally long and say nothing of the arm.
func (c *comparison) makeCaches() error {
	for _, name := range []record.Arm{record.Base, record.Head} {
		a := c.arms[name]
		a.caches = map[string]string{}
		for _, variable := range a.target.CacheEnv {
			dir, err := proc.PrivateDir(c.trees)
			if err != nil {
				return err
			}
			a.caches[variable] = dir
		}
		c.arms[name] = a
	}
	return nil
}

// noteCaches says how far the compile caches filled while the session went on. They began empty.
func (c *comparison) noteCaches() {
	for _, name := range []record.Arm{record.Base, record.Head} {
		caches := c.arms[name].caches
		var parts []string
		for _, variable := range slices.Sorted(maps.Keys(caches)) {
			parts = append(parts, fmt.Sprintf("%s 0 files before the first start, %s after the last", variable, countFiles(caches[variable])))
		}
		if len(parts) > 0 {
			c.note("compile_cache", string(name)+": "+strings.Join(parts, "; "))
		}
	}
}

// countFiles counts what lies below a folder and is none itself.
func countFiles(dir string) string {
	files := 0
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files++
		}
		return err
	})
	if err != nil {
		return fmt.Sprintf("n/a (%v)", err)
	}
	return fmt.Sprint(files)
}

// removeCaches takes the folders away.
func (c *comparison) removeCaches() error {
	var errs []error
	for _, a := range c.arms {
		for _, dir := range a.caches {
			errs = append(errs, build.RemoveFolder(dir))
		}
	}
	return errors.Join(errs...)
}

// maskLogs hides secret values in what servers wrote, once they are gone: a server writes its log itself.
func (c *comparison) maskLogs() error {
	var env []string
	for _, a := range c.arms {
		env = append(env, c.app.serverEnv(a, c.id)...)
	}
	mask := proc.NewMask(env)
	return filepath.WalkDir(c.writer.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) != ".log" {
			return err
		}
		return proc.MaskFile(path, mask)
	})
}
