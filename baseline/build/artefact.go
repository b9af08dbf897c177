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
	paths, matched, err := matching(ctx, tree, patterns)
	if err != nil {
		return nil, err
	}
	if i := slices.Index(matched, false); i >= 0 {
		return nil, &FailedError{Text: fmt.Sprintf("the build left nothing under %q; see target.outputs", patterns[i].text)}
	}
	if len(paths) == 0 {
		return nil, &FailedError{Text: "the worktree is empty: there is no build to measure"}
	}
	return paths, nil
}

// matching lists the files that the patterns match, sorted, and says which patterns matched. No patterns match all files.
func matching(ctx context.Context, tree fs.FS, patterns []pattern) (paths []string, matched []bool, err error) {
	matched = make([]bool, len(patterns))
	err = fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
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
		return nil, nil, fmt.Errorf("outputs: %w", err)
	}
	slices.Sort(paths) // WalkDir sorts by folder, which is another order
	return paths, matched, nil
}

// CheckOutputs refuses output globs that no build can fulfil, with a [UsageError].
func CheckOutputs(globs []string) error {
	_, err := compile(globs)
	return err
}

// entry writes one file's line to the digest.
func entry(list io.Writer, root *os.Root, path string) error {
	info, err := root.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		target, err := root.Readlink(path)
		if err != nil {
			return err
		}
		line(list, path, "l", int64(len(target)), sha256Of(target))
		return nil
	}
	kind := "-"
	if info.Mode()&0o100 != 0 {
		kind = "x"
	}
	f, err := root.Open(path)
	if err != nil {
		return err
	}
	content := sha256.New()
	_, err = io.Copy(content, f)
	if err := cmp.Or(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	line(list, path, kind, info.Size(), hex.EncodeToString(content.Sum(nil)))
	return nil
}

// line is what the digest covers of one file. NUL ends a path, so that no file name can imitate another list. A hash never
// fails to write.
func line(list io.Writer, path, kind string, size int64, sum string) {
	_, _ = fmt.Fprintf(list, "%s\x00%s %d %s\n", path, kind, size, sum)
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
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
