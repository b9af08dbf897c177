package build

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

var errOutside = errors.New("not a path below the worktree")

// newPattern reads a slash-separated glob: path.Match in each part, and "**" for any number of parts, also none.
func newPattern(glob string) (pattern, error) {
	if !fs.ValidPath(glob) {
		return pattern{}, errOutside
	}
	if glob == "." {
		glob = "**"
	}
	p := pattern{parts: strings.Split(glob, "/")}
	for _, part := range p.parts {
		if _, err := path.Match(part, ""); err != nil {
			return pattern{}, err
		}
	}
	return p, nil
}

// matches reports whether a file is matched, by its own path or by that of a folder it lies in.
func (p pattern) matches(file string) bool { return match(p.parts, strings.Split(file, "/")) }

// match takes the pattern's parts against a path's. A pattern that ends before the path has matched a folder. The state
// is a row of "the first i parts are used up", so that many "**" cost no more than one.
func match(parts, names []string) bool {
	at := make([]bool, len(parts)+1)
	at[0] = true
	skip(parts, at)
	for _, name := range names {
		next := make([]bool, len(parts)+1)
		for i, part := range parts {
			switch {
			case !at[i]:
			case part == "**":
				next[i] = true
			default:
				if ok, _ := path.Match(part, name); ok { // syntax was checked by newPattern
					next[i+1] = true
				}
			}
		}
		skip(parts, next)
		if at = next; at[len(parts)] {
			return true
		}
	}
	return false
}

// skip lets each "**" stand for nothing.
func skip(parts []string, at []bool) {
	for i, part := range parts {
		if at[i] && part == "**" {
			at[i+1] = true
		}
	}
}
