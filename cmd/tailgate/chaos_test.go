package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/internal/chaos"
)

// TestChaos interrupts one session of each kind; `scripts/chaos N` does N.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("runs ten sessions; run without -short")
	}
	path, err := exec.LookPath("tailgate")
	if err != nil {
		t.Fatal(err)
	}
	kinds, missing := chaos.Kinds(t.Context())
	if missing != "" {
		t.Log(missing)
	}
	c := &chaos.Chaos{Binary: path, Path: os.Getenv("PATH"), Scratch: t.TempDir(), Seed: 7, Kinds: kinds}
	for n := range kinds {
		o, err := c.Session(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Wrong) > 0 {
			t.Errorf("%s after %s:\n%s", o.Kind, o.At, strings.Join(o.Wrong, "\n"))
		}
	}
}
