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
	// Four at once: a session waits most of its time.
	ended := 0
	err = c.Run(t.Context(), len(kinds), 4, func(_ int, o chaos.Outcome) {
		ended++
		if len(o.Wrong) > 0 {
			t.Errorf("%s after %s:\n%s", o.Kind, o.At, strings.Join(o.Wrong, "\n"))
		}
	})
	if err != nil || ended != len(kinds) {
		t.Fatalf("%d of %d sessions ended: %v", ended, len(kinds), err)
	}
}
