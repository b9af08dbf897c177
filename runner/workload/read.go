package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Open reads a workload folder: manifest.json, turns.jsonl or turns.jsonl.gz, and texts.jsonl (.gz) where there is real
// text. It is strict: anything unknown, twice, dangling, negative or out of order is an [Error] with file and line, and so
// is a digest that does not match. Links that leave the folder are not followed.
func Open(dir string) (*Workload, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	defer closeAll(root)
	w, err := Read(root.FS())
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", dir, err)
	}
	return w, nil
}

// Read is [Open] for a file system, e.g. an embedded one.
func Read(files fs.FS) (*Workload, error) {
	w := &Workload{}
	raw, err := fs.ReadFile(files, manifestFile)
	if err != nil {
		return nil, err
	}
	if err := readManifest(raw, &w.Manifest); err != nil {
		return nil, at(manifestFile, 0, err)
	}
	if err := readLines(files, turnsFile, true, w.addTurn); err != nil {
		return nil, err
	}
	if err := readLines(files, textsFile, false, w.addText); err != nil {
		return nil, err
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	if got := w.Digest(); got != w.Manifest.Digest {
		return nil, &Error{File: manifestFile, Field: "digest", Text: fmt.Sprintf(
			"says %s, the content has %s; was it edited? raise version and build it anew", clip(w.Manifest.Digest, 80), got)}
	}
	w.index = newIndex(w)
	return w, nil
}

// readManifest looks at the format first: a newer one has keys that this version does not know.
func readManifest(raw []byte, m *Manifest) error {
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(raw, &version); err == nil && version.Format > Format {
		return (&Manifest{Format: version.Format}).check()
	}
	return strict(raw, m)
}

func (w *Workload) addTurn(text []byte) error {
	var t Turn
	if err := strict(text, &t); err != nil {
		return err
	}
	w.Turns = append(w.Turns, t)
	return nil
}

func (w *Workload) addText(text []byte) error {
	var t textLine
	if err := strict(text, &t); err != nil {
		return err
	}
	if _, ok := w.Texts[t.ID]; ok || t.ID == "" {
		return fieldError("id", "%q is empty or was used before", clip(t.ID, 60))
	}
	if w.Texts == nil {
		w.Texts = map[string]string{}
	}
	w.Texts[t.ID] = t.Text
	return nil
}

// readLines reads name or name.gz. Two at once are refused: nobody could say which one is meant.
func readLines(files fs.FS, name string, required bool, add func([]byte) error) error {
	plain, plainErr := files.Open(name)
	packed, packedErr := files.Open(name + ".gz")
	defer closeAll(plain, packed)
	for _, err := range []error{plainErr, packedErr} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	switch {
	case plain != nil && packed != nil:
		return &Error{File: name, Text: "stands beside " + name + ".gz; remove one"}
	case plain != nil:
		return addLines(name, plain, add)
	case packed != nil:
		return addLines(name+".gz", packed, add)
	case required:
		return &Error{File: name, Text: "is missing"}
	default:
		return nil
	}
}

func addLines(name string, r io.Reader, add func([]byte) error) error {
	r, err := inflate(name, r)
	if err != nil {
		return err
	}
	err = lines(r, func(line int, text []byte) error {
		if err := add(text); err != nil {
			return at(name, line, err)
		}
		return nil
	})
	if e, ok := errors.AsType[*Error](err); ok && e.File == "" {
		return at(name, e.Line, e)
	}
	return err
}

// closeAll closes what was only read: an error could lose nothing.
func closeAll(files ...io.Closer) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
