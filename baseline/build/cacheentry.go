package build

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	manifestName    = "manifest.json"
	manifestVersion = 1
	// manifestLimit is the largest manifest read, bytes.
	manifestLimit = 256 << 20
	// contentFolder holds the content of files, each under its SHA-256.
	contentFolder = "files"
)

// manifest says what an entry holds. It is manifest.json in the entry's folder.
type manifest struct {
	Version int `json:"version"`
	// Key is the entry's key, Artefact the digest of its outputs; both 64 hex.
	Key      string `json:"key"`
	Artefact string `json:"artefact"`
	// Command is for people who look into the cache.
	Command string     `json:"command"`
	Files   []keptFile `json:"files"`
}

// keptFile is one file of the outputs.
type keptFile struct {
	// Path is relative to the worktree, with forward slashes.
	Path string `json:"path"`
	// Link is the target of a symbolic link; the fields below are then unset.
	Link string `json:"link,omitempty"`
	// Mode holds the permission bits, Size bytes, SHA256 64 hex of the content.
	Mode   fs.FileMode `json:"mode,omitempty"`
	Size   int64       `json:"size"`
	SHA256 string      `json:"sha256,omitempty"`
}

var contentHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// readManifest reads an entry's manifest. One that is not of this key, or names a place it may not, is damaged.
func readManifest(entry *os.Root, key string) (*manifest, error) {
	f, err := entry.Open(manifestName)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEntry, err)
	}
	defer func() { _ = f.Close() }()
	var m manifest
	if err := json.NewDecoder(io.LimitReader(f, manifestLimit)).Decode(&m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errEntry, manifestName, err)
	}
	if m.Version != manifestVersion || m.Key != key {
		return nil, fmt.Errorf("%w: %s is of version %d and key %.12q", errEntry, manifestName, m.Version, m.Key)
	}
	for _, k := range m.Files {
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("%w: %w", errEntry, err)
		}
	}
	return &m, nil
}

// check refuses a path that is not below the worktree or belongs to git, and content that is not named by its hash.
func (k keptFile) check() error {
	for part := range strings.SplitSeq(k.Path, "/") {
		if strings.EqualFold(part, ".git") {
			return fmt.Errorf("%q belongs to git", k.Path)
		}
	}
	switch {
	case !fs.ValidPath(k.Path) || k.Path == ".":
		return fmt.Errorf("%q is not a path below the worktree", k.Path)
	case k.Link == "" && !contentHash.MatchString(k.SHA256):
		return fmt.Errorf("%q has no hash", k.Path)
	case k.Mode&^fs.ModePerm != 0:
		return fmt.Errorf("%q has mode %v", k.Path, k.Mode)
	}
	return nil
}

// place puts an entry's outputs into the worktree in place of what lies there, and returns their digest and number. Nothing
// outside the worktree is written, whatever the entry holds. After an error the worktree is neither of both.
func (m *manifest) place(ctx context.Context, entry *os.Root, o Options) (sum string, files int, err error) {
	tree, err := os.OpenRoot(o.Dir)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = tree.Close() }()
	if err := clearOutputs(ctx, tree, o.Outputs); err != nil {
		return "", 0, err
	}
	// Links come last: no file is written through one.
	for _, links := range []bool{false, true} {
		for _, k := range m.Files {
			if (k.Link != "") != links {
				continue
			}
			if err := cmp.Or(ctx.Err(), k.restore(entry, tree)); err != nil {
				return "", 0, err
			}
		}
	}
	for _, k := range m.Files {
		if k.Link != "" {
			if err := staysInside(tree, k.Path); err != nil {
				return "", 0, fmt.Errorf("%w: %w", errEntry, err)
			}
		}
	}
	sum, files, err = Artefact(ctx, o.Dir, o.Outputs)
	if _, nothing := errors.AsType[*FailedError](err); nothing || (err == nil && sum != m.Artefact) {
		return "", 0, fmt.Errorf("%w: its files have digest %.12s, not %.12s", errEntry, cmp.Or(sum, "none"), m.Artefact)
	}
	return sum, files, err
}

// clearOutputs removes what the checkout has under the outputs: a build may have removed it too.
func clearOutputs(ctx context.Context, tree *os.Root, globs []string) error {
	patterns, err := compile(globs)
	if err != nil {
		return err
	}
	paths, _, err := matching(ctx, tree.FS(), patterns)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := tree.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// restore writes one file or link, and verifies its content.
func (k keptFile) restore(entry, tree *os.Root) error {
	if dir := path.Dir(k.Path); dir != "." {
		if err := tree.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := tree.RemoveAll(k.Path); err != nil {
		return err
	}
	if k.Link != "" {
		return tree.Symlink(k.Link, k.Path)
	}
	from, err := entry.Open(path.Join(contentFolder, k.SHA256))
	if err != nil {
		return fmt.Errorf("%w: %w", errEntry, err)
	}
	defer func() { _ = from.Close() }()
	to, err := tree.OpenFile(k.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	content := sha256.New()
	size, err := io.Copy(io.MultiWriter(to, content), from)
	if err := cmp.Or(err, to.Chmod(k.Mode), to.Close()); err != nil {
		return fmt.Errorf("%s: %w", k.Path, err)
	}
	if got := hex.EncodeToString(content.Sum(nil)); size != k.Size || got != k.SHA256 {
		return fmt.Errorf("%w: %s has %d bytes and digest %.12s, not %d and %.12s", errEntry, k.Path, size, got, k.Size, k.SHA256)
	}
	return nil
}

// staysInside reports an error for a link that leads out of the tree; one that leads nowhere is no harm.
func staysInside(tree *os.Root, path string) error {
	if _, err := tree.Stat(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the link %s leads out of the worktree (%w)", path, err)
	}
	return nil
}

// fillEntry writes an entry into an empty folder: the content of every output, then the manifest. It refuses more bytes than
// limit, links out of the worktree, and outputs that are no longer those that were digested.
func fillEntry(ctx context.Context, dir string, o Options, m manifest, limit int64) error {
	patterns, err := compile(o.Outputs)
	if err != nil {
		return err
	}
	tree, err := os.OpenRoot(o.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = tree.Close() }()
	paths, _, err := matching(ctx, tree.FS(), patterns)
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, contentFolder), 0o700); err != nil {
		return err
	}
	list, total := sha256.New(), int64(0)
	for _, path := range paths {
		k, err := keepFile(dir, tree, path)
		if err := cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
		if total += k.Size; total > limit {
			return fmt.Errorf("the outputs are larger than the whole cache may be, %d MiB", limit>>20)
		}
		k.list(list)
		m.Files = append(m.Files, k)
	}
	if got := hex.EncodeToString(list.Sum(nil)); got != m.Artefact {
		return errors.New("the outputs changed after they were digested")
	}
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestName), text, 0o600)
}

// keepFile copies the content of one output into an entry.
func keepFile(dir string, tree *os.Root, path string) (keptFile, error) {
	info, err := tree.Lstat(path)
	if err != nil {
		return keptFile{}, err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		target, err := tree.Readlink(path)
		return keptFile{Path: path, Link: target}, cmp.Or(err, staysInside(tree, path))
	}
	from, err := tree.Open(path)
	if err != nil {
		return keptFile{}, err
	}
	defer func() { _ = from.Close() }()
	tmp := filepath.Join(dir, contentFolder, "new")
	to, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return keptFile{}, err
	}
	content := sha256.New()
	size, err := io.Copy(io.MultiWriter(to, content), from)
	if err := cmp.Or(err, to.Close()); err != nil {
		return keptFile{}, fmt.Errorf("%s: %w", path, err)
	}
	k := keptFile{Path: path, Mode: info.Mode().Perm(), Size: size, SHA256: hex.EncodeToString(content.Sum(nil))}
	return k, os.Rename(tmp, filepath.Join(dir, contentFolder, k.SHA256))
}

// list writes the file's line of the artefact digest.
func (k keptFile) list(to io.Writer) {
	switch {
	case k.Link != "":
		line(to, k.Path, "l", int64(len(k.Link)), sha256Of(k.Link))
	case k.Mode&0o100 != 0:
		line(to, k.Path, "x", k.Size, k.SHA256)
	default:
		line(to, k.Path, "-", k.Size, k.SHA256)
	}
}
