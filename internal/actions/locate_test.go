package actions

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// locate runs scripts/locate.sh as the runner does, with an environment of its own.
func locate(t *testing.T, binary string) (bin, said string, code int) {
	t.Helper()
	action, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	output := filepath.Join(dir, "output")
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(action, "scripts", "locate.sh"))
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + toolsOnly(t), "GITHUB_ACTION_PATH=" + action, "GITHUB_OUTPUT=" + output, "RUNNER_TEMP=" + dir, "INPUT_BINARY_PATH=" + binary}
	text, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return readOutputs(t, output)["bin"], string(text), code
}

func TestLocateTakesTheRightBinaryOnly(t *testing.T) {
	version, err := os.ReadFile(filepath.Join("..", "..", "VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := func(name, prints string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte("#!/bin/sh\necho '"+prints+"'\n"), 0o700), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	right := "tailgate " + strings.TrimSpace(string(version)) + " linux/amd64 go1.26"
	good := program("good", right, 0o755)
	if bin, said, code := locate(t, good); bin != good || code != 0 {
		t.Fatalf("bin %q, exit %d: %s", bin, code, said)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(program("shared", right, 0o775), link); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, path, says string }{
		{"another version", program("old", "tailgate 0.0.9 linux/amd64 go1.26", 0o755), "not tailgate"},
		{"a version that only begins like ours", program("later", strings.Replace(right, " linux", "0 linux", 1), 0o755), "not tailgate"},
		{"HTML", program("html", "<!DOCTYPE html>", 0o755), "not tailgate"},
		{"not executable", program("plain", right, 0o644), "no executable file"},
		{"writable by its group", program("group", right, 0o775), "written by others"},
		{"writable by anybody", program("other", right, 0o757), "written by others"},
		{"a link to one writable by its group", link, "written by others"},
		{"a folder", dir, "no executable file"},
		{"missing", filepath.Join(dir, "nothing"), "no executable file"},
		{"relative", "./good", "absolute"},
		{"a second output", good + "\nverdict=pass", "line break"},
		{"no path and no Go", "", "no Go"},
	}
	for _, tt := range tests {
		if bin, said, code := locate(t, tt.path); code != 2 || bin != "" || !strings.Contains(said, tt.says) {
			t.Errorf("%s: exit %d, bin %q: %s", tt.name, code, bin, said)
		}
	}
}

// toolsOnly is a PATH with what the script needs, and no Go.
func toolsOnly(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sh", "cat", "find", "mkdir"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
