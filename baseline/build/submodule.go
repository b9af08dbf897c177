package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

// addSubmodules checks the submodules of a tree out. What .gitmodules says was written by the commit under test: names and paths
// must not lead out of their folders, and URLs are followed over the network only.
func (t *tree) addSubmodules(ctx context.Context, links []gitlink) (notes []string, err error) {
	if t.depth == deepestSubmodule {
		return nil, fmt.Errorf("target.git.submodules: %s lies %d submodules deep; leave it out, or build it in target.build", proc.Clean(t.name, refLimit), t.depth)
	}
	common, err := t.text(ctx, "rev-parse", "--git-common-dir")
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(common) {
		common = filepath.Join(t.top, common)
	}
	for _, link := range links {
		shown := proc.Clean(t.joined(link.path), refLimit)
		if link.name == "" || link.url == "" {
			notes = append(notes, fmt.Sprintf("%s is a repository that .gitmodules does not name; its folder is empty in the worktrees", shown))
			continue
		}
		if !filepath.IsLocal(link.name) || !filepath.IsLocal(link.path) || strings.HasPrefix(link.url, "-") {
			return notes, fmt.Errorf("target.git.submodules: .gitmodules of commit %.12s: submodule %s: a name, path or URL that git refuses", t.commit, shown)
		}
		sub, err := t.addSubmodule(ctx, link, filepath.Join(common, "modules", link.name))
		if err != nil {
			return notes, err
		}
		more, err := sub.complete(ctx)
		notes = append(notes, more...)
		if err != nil {
			return notes, err
		}
	}
	return notes, nil
}

// addSubmodule makes a repository in the folder of a submodule and checks its commit out. It borrows the objects of the one
// that the user's checkout has, which stays as it is, and downloads what is not there.
func (t *tree) addSubmodule(ctx context.Context, link gitlink, module string) (*tree, error) {
	dir := filepath.Join(t.dir, filepath.FromSlash(link.path))
	// git made an empty folder; anything else was put there by something that is not ours.
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("submodule folder %s: %w", dir, errors.Join(err, errNoFolder))
	}
	sub := &tree{
		repository: &repository{git: t.git, top: dir}, dir: dir, commit: link.commit, name: t.joined(link.path), depth: t.depth + 1, o: t.o, env: t.env,
	}
	if _, err := t.do(ctx, call{trust: []string{dir}}, "init", "--quiet", "--template=", dir); err != nil {
		return nil, err
	}
	if isRepository(module) {
		// A repository that borrows finds what lies there, also what no branch of it leads to.
		alternates := filepath.Join(dir, ".git", "objects", "info", "alternates")
		if err := os.MkdirAll(filepath.Dir(alternates), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(alternates, []byte(filepath.Join(module, "objects")+"\n"), 0o600); err != nil {
			return nil, err
		}
		// Submodules of the submodule are looked for beside it.
		if nested := filepath.Join(module, "modules"); isFolder(nested) {
			if err := os.Symlink(nested, filepath.Join(dir, ".git", "modules")); err != nil {
				return nil, err
			}
		}
	}
	if err := sub.download(ctx, t, link); err != nil {
		return nil, err
	}
	_, err := sub.run(ctx, nil, "checkout", "--quiet", "--detach", "--force", link.commit)
	return sub, err
}

// errNoFolder says that something took the place of a submodule's folder.
var errNoFolder = errors.New("not a folder")

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// download fetches the commit of a submodule unless it is there.
func (t *tree) download(ctx context.Context, parent *tree, link gitlink) error {
	url := link.url
	if strings.HasPrefix(url, "./") || strings.HasPrefix(url, "../") {
		origin, err := parent.text(ctx, "config", "--get", "remote.origin.url")
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		url = relativeURL(cmp.Or(origin, parent.top), url)
	}
	// The URLs of its own submodules may be relative to it.
	if _, err := t.run(ctx, nil, "config", "remote.origin.url", url); err != nil {
		return err
	}
	_, err := t.repository.commit(ctx, link.commit)
	if !errors.Is(err, errUnknown) {
		return err
	}
	// As git does for submodules, it then follows no path of this machine.
	with := call{env: append(slices.Clone(t.env), "GIT_PROTOCOL_FROM_USER=0")}
	args := []string{"-c", "protocol.version=2"}
	if t.o.LocalSubmodules {
		args = append(args, "-c", "protocol.file.allow=always")
	}
	args = append(args, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--depth=1", "--", url, link.commit)
	if _, err = t.do(ctx, with, args...); err == nil {
		_, err = t.repository.commit(ctx, link.commit)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("target.git.submodules: commit %.12s of submodule %s is not here and could not be fetched: %w; "+
			"run git submodule update --init --recursive in the checkout before, in CI check out with submodules: recursive", link.commit, proc.Clean(t.name, refLimit), err)
	}
	return err
}

// relativeURL resolves a submodule's URL against that of the repository around it, as git does: each ../ takes one part away,
// at a slash or, in host:path, at the colon.
func relativeURL(origin, url string) string {
	origin = strings.TrimRight(origin, "/")
	separator := "/"
	for {
		if rest, ok := strings.CutPrefix(url, "./"); ok {
			url = rest
			continue
		}
		rest, ok := strings.CutPrefix(url, "../")
		if !ok {
			return origin + separator + url
		}
		url = rest
		if i := strings.LastIndexByte(origin, '/'); i >= 0 {
			origin = origin[:i]
		} else if i := strings.LastIndexByte(origin, ':'); i >= 0 {
			origin, separator = origin[:i], ":"
		}
	}
}
