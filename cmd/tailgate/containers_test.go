package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A container outlives its killed client: the sweep finds it by the run's label and removes it by its id, and nothing else.
func TestSettleRemovesTheRunsContainers(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	client := func(t *testing.T, rm string) (path, log string) {
		t.Helper()
		dir := t.TempDir()
		log = filepath.Join(dir, "calls")
		script := "#!/bin/sh\necho \"$@\" >> '" + log + "'\ncase $1 in\nps) echo '" + id + "'; echo '--help; rm'; echo short;;\nrm) " + rm + ";;\nesac\n"
		if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		return dir + ":" + os.Getenv("PATH"), log
	}
	calls := func(t *testing.T, log string) string {
		t.Helper()
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	t.Run("removed", func(t *testing.T) {
		w := newWreck(t, "exec sleep 300")
		w.file.Rounds[0].Stop = "true"
		w.write(t)
		path, log := client(t, "exit 0")
		s, ok := settle(t.Context(), w.path, &app{environ: []string{"PATH=" + path}})
		want := "ps --all --quiet --no-trunc --filter label=tailgate.run=" + w.file.Run + "\nrm --force " + id + "\n"
		if got := calls(t, log); !ok || len(s.left) > 0 || s.ended != 2 || got != want {
			t.Errorf("%+v; calls:\n%swant:\n%s", s, got, want)
		}
	})
	t.Run("refused", func(t *testing.T) {
		w := newWreck(t, "exec sleep 300")
		w.file.Rounds[0].Stop = "true"
		w.write(t)
		path, _ := client(t, "exit 1")
		if s, _ := settle(t.Context(), w.path, &app{environ: []string{"PATH=" + path}}); len(s.left) != 1 || !strings.HasPrefix(s.left[0], "container 0123456789ab (docker rm: exit status 1") {
			t.Errorf("left = %q", s.left)
		}
	})
	t.Run("no stop command", func(t *testing.T) {
		w := newWreck(t, "exec sleep 300")
		path, log := client(t, "exit 0")
		if s, ok := settle(t.Context(), w.path, &app{environ: []string{"PATH=" + path}}); !ok || len(s.left) > 0 {
			t.Errorf("%+v", s)
		}
		if _, err := os.Stat(log); err == nil {
			t.Errorf("a client was asked:\n%s", calls(t, log))
		}
	})
}
