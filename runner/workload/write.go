package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Write writes a workload as a folder that [Open] reads: manifest.json, turns.jsonl.gz and, where there is real text,
// texts.jsonl.gz. It makes the folder if need be and refuses one that holds a workload already: a workload that is in use
// is not changed under its name. The bytes depend on the workload alone.
func Write(dir string, w *Workload) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a workload is meant to be read and committed
		return err
	}
	for _, name := range []string{manifestFile, turnsFile, turnsFile + ".gz", textsFile, textsFile + ".gz"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%s exists: raise the version and write to a new folder", filepath.Join(dir, name))
		}
	}
	err := writeFile(dir, turnsFile+".gz", func(out io.Writer) error {
		for i := range w.Turns {
			if err := writeLine(out, &w.Turns[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(w.Texts) > 0 {
		err = writeFile(dir, textsFile+".gz", func(out io.Writer) error {
			for _, id := range slices.Sorted(maps.Keys(w.Texts)) {
				if err := writeLine(out, textLine{ID: id, Text: w.Texts[id]}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	// The manifest comes last: a folder without one is no workload.
	var manifest bytes.Buffer
	e := json.NewEncoder(&manifest)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(w.Manifest); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), manifest.Bytes(), 0o644) //nolint:gosec // as above
}

func writeLine(out io.Writer, v any) error {
	line, err := canonical(v)
	if err != nil {
		return err
	}
	_, err = out.Write(append(line, '\n'))
	return err
}

// writeFile writes gzip without a name or time in its header, so that equal content gives equal files.
func writeFile(dir, name string, fill func(io.Writer) error) (err error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // as above
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(z)
	if err := fill(b); err != nil {
		return err
	}
	return errors.Join(b.Flush(), z.Close())
}
