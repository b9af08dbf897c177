package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tailgate-ci/tailgate/gate/report/export"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// export writes the run in dir in the formats listed. It writes nothing into the run.
func (a *app) export(dir, list, out string) error {
	names, err := export.Parse(list)
	if err != nil {
		return usage(fmt.Errorf("--export: %w", err), "")
	}
	folder, err := record.Open(dir)
	if err != nil {
		return usage(err, "name the folder that holds run.json")
	}
	defer folder.Close() //nolint:errcheck // read only
	if out == "" {
		out = filepath.Join(".tailgate", "exports", folder.Run().ID)
		if err := ignored(out); err != nil {
			return err
		}
	}
	err = export.Write(folder, names, func(name string) (io.WriteCloser, error) {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return nil, err
		}
		fmt.Fprintln(a.out, path)
		return os.Create(path)
	})
	if err != nil {
		return usage(err, "")
	}
	for _, cut := range folder.Cut() {
		fmt.Fprintf(a.err, "tailgate: %s ends in half a line: its writer died, and what came after is not exported\n", cut)
	}
	return nil
}

// ignored makes a folder that does not show as a change in the repository it lies in.
func ignored(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o600)
}
