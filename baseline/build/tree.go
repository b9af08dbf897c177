package build

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

const (
	// deepestSubmodule bounds submodules within submodules; one that held itself would never end.
	deepestSubmodule = 10
	// namesShown is how many paths a remark lists.
	namesShown = 3
)

// tree is a commit checked out into a folder: the worktree of an arm, or a submodule in it.
type tree struct {
	*repository
	dir, commit string
	// name is the path of a submodule in its worktree, with forward slashes; empty for the worktree itself.
	name  string
	depth int
	o     WorktreeOptions
	env   []string
}

// complete adds what the files of the commit only point to, as far as the options want it, and remarks on the rest.
func (t *tree) complete(ctx context.Context) (notes []string, err error) {
	large, err := t.pointsToLFS(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case large && !t.o.LFS:
		notes = append(notes, t.where("files kept by git-lfs are pointers in the worktrees; target.git.lfs: true fetches them"))
	case large && t.name != "":
		// Its origin is the repository it was copied from, which serves no large files.
		notes = append(notes, t.where("files kept by git-lfs are pointers: in submodules they are not fetched"))
	case large:
		if err := t.pullLFS(ctx); err != nil {
			return nil, err
		}
	}
	links, err := t.gitlinks(ctx)
	if err != nil || len(links) == 0 {
		return notes, err
	}
	if !t.o.Submodules {
		paths := make([]string, len(links))
		for i, l := range links {
			paths[i] = l.path
		}
		text := fmt.Sprintf("the folders of submodules (%s) are empty in the worktrees; target.git.submodules: true fills them", shownNames(paths))
		return append(notes, t.where(text)), nil
	}
	more, err := t.addSubmodules(ctx, links)
	return append(notes, more...), err
}

// where says which submodule a remark is about.
func (t *tree) where(text string) string {
	if t.name == "" {
		return text
	}
	return "submodule " + proc.Clean(t.name, refLimit) + ": " + text
}

// shownNames lists the first few names.
func shownNames(names []string) string {
	shown := make([]string, 0, namesShown+1)
	for _, name := range names[:min(len(names), namesShown)] {
		shown = append(shown, proc.Clean(name, refLimit))
	}
	if more := len(names) - namesShown; more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return strings.Join(shown, ", ")
}

// pointsToLFS reports whether the commit gives files to git-lfs.
func (t *tree) pointsToLFS(ctx context.Context) (bool, error) {
	_, err := t.run(ctx, nil, "grep", "--quiet", "--no-recurse-submodules", "-E", "-e", `^[^#].*filter=lfs`, t.commit, "--", ":(top,glob)**/.gitattributes")
	if exit, refused := said(err); refused && exit == 1 {
		return false, nil
	}
	return err == nil, err
}

// pullLFS replaces the pointers in the worktree. It sets the filters itself: the user's own configuration, where git-lfs
// writes them, is not read, and without them git-lfs does nothing and says that all is well.
func (t *tree) pullLFS(ctx context.Context) error {
	const mend = "; install git-lfs on this machine, or leave target.git.lfs out if the service needs no such file"
	if _, err := t.do(ctx, call{env: t.env}, "lfs", "version"); err != nil {
		if _, refused := said(err); refused {
			return errors.New("target.git.lfs: git-lfs is not installed" + mend)
		}
		return err
	}
	with := call{dir: t.dir, env: append(slices.Clone(t.env), "GIT_LFS_SKIP_SMUDGE=0")}
	_, err := t.do(ctx, with,
		"-c", "filter.lfs.clean=git-lfs clean -- %f", "-c", "filter.lfs.smudge=git-lfs smudge -- %f",
		"-c", "filter.lfs.process=git-lfs filter-process", "-c", "filter.lfs.required=true", "lfs", "pull", "origin")
	if err != nil {
		return fmt.Errorf("target.git.lfs: %w; fetch the files with git lfs fetch --all before, or give this machine access", err)
	}
	return nil
}

// gitlink is a submodule as a commit knows it.
type gitlink struct {
	path, commit string
	// name and url are what .gitmodules says; empty for a repository that was added without.
	name, url string
}

// gitlinks lists the submodules of the commit, by path.
func (t *tree) gitlinks(ctx context.Context) ([]gitlink, error) {
	out, err := t.run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", t.commit)
	if err != nil {
		return nil, err
	}
	var links []gitlink
	for entry := range strings.SplitSeq(string(out), "\x00") {
		// 160000 commit <hash>\t<path>
		head, path, _ := strings.Cut(entry, "\t")
		if fields := strings.Fields(head); len(fields) == 3 && fields[0] == "160000" {
			links = append(links, gitlink{path: path, commit: fields[2]})
		}
	}
	if len(links) == 0 || !t.o.Submodules {
		return links, nil
	}
	return links, t.readModules(ctx, links)
}

// readModules adds to links what .gitmodules of the commit says of them.
func (t *tree) readModules(ctx context.Context, links []gitlink) error {
	out, err := t.run(ctx, nil, "config", "--blob", t.commit+":.gitmodules", "-z", "--get-regexp", `^submodule\..*\.(path|url)$`)
	if _, refused := said(err); refused {
		return nil // no such file, or nothing in it: the links keep no name
	}
	if err != nil {
		return err
	}
	paths, urls := map[string]string{}, map[string]string{} // path to name, name to URL
	for entry := range strings.SplitSeq(string(out), "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		key = strings.TrimPrefix(key, "submodule.")
		if name, ok := strings.CutSuffix(key, ".path"); ok {
			paths[value] = name
		} else if name, ok := strings.CutSuffix(key, ".url"); ok {
			urls[name] = value
		}
	}
	for i := range links {
		links[i].name = paths[links[i].path]
		links[i].url = urls[links[i].name]
	}
	return nil
}

// joined is a path in the worktree, for people.
func (t *tree) joined(path string) string { return filepath.ToSlash(filepath.Join(t.name, path)) }
