package build

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Artefact digests what a build left in dir: for each file below the output globs, by sorted path, its path, whether it
// may be executed, its size and the SHA-256 of its content, or of its target for a symbolic link. No globs: all of dir.
// Anything named .git, sockets, pipes and devices are left out; times and owners do not count. It returns 64 hex and the
// number of files. A glob that matches nothing is a [FailedError]: the build did not make what it was meant to make.
func Artefact(ctx context.Context, dir string, globs []string) (sum string, files int, err error) {
	patterns, err := compile(globs)
	if err != nil {
		return "", 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = root.Close() }()
	paths, err := outputs(ctx, root.FS(), patterns)
	if err != nil {
		return "", 0, err
	}
	list := sha256.New()
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return "", 0, err
		}
		if err := entry(list, root, path); err != nil {
			return "", 0, err
		}
	}
	return hex.EncodeToString(list.Sum(nil)), len(paths), nil
}

// outputs lists the files that the patterns match, sorted, and refuses a pattern that matches none.
func outputs(ctx context.Context, tree fs.FS, patterns []pattern) ([]string, error) {
	matched := make([]bool, len(patterns))
	var paths []string
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.Name() == ".git" && d.IsDir():
			return fs.SkipDir
		case d.Name() == ".git" || (!d.Type().IsRegular() && d.Type() != fs.ModeSymlink):
			return nil
		}
		hit := len(patterns) == 0
		for i, p := range patterns {
			if p.matches(path) {
				hit, matched[i] = true, true
			}
		}
		if hit {
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("outputs: %w", err)
	}
	if i := slices.Index(matched, false); i >= 0 {
		return nil, &FailedError{Text: fmt.Sprintf("the build left nothing under %q; see target.outputs", patterns[i].text)}
	}
	if len(paths) == 0 {
		return nil, &FailedError{Text: "the worktree is empty: there is no build to measure"}
	}
	slices.Sort(paths) // WalkDir sorts by folder, which is another order
	return paths, nil
}

// entry writes one file's line to the digest. NUL ends a path, so that no file name can imitate another list.
func entry(list io.Writer, root *os.Root, path string) error {
	info, err := root.Lstat(path)
	if err != nil {
		return err
	}
	content := sha256.New()
	kind, size := "-", info.Size()
	if info.Mode().Type() == fs.ModeSymlink {
		target, err := root.Readlink(path)
		if err != nil {
			return err
		}
		kind, size = "l", int64(len(target))
		_, _ = io.WriteString(content, target)
	} else {
		if info.Mode()&0o100 != 0 {
			kind = "x"
		}
		f, err := root.Open(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(content, f)
		if err := cmp.Or(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	_, err = fmt.Fprintf(list, "%s\x00%s %d %x\n", path, kind, size, content.Sum(nil))
	return err
}

// pattern is one output glob, split at its slashes.
type pattern struct {
	text  string
	parts []string
}

func compile(globs []string) ([]pattern, error) {
	var patterns []pattern
	for _, glob := range globs {
		p, err := newPattern(strings.TrimSuffix(strings.TrimPrefix(glob, "./"), "/"))
		if err != nil {
			return nil, usagef("target.outputs: %q: %v", glob, err)
		}
		p.text = glob
		patterns = append(patterns, p)
	}
	return patterns, nil
}
