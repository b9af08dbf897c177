package build

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestToolchainIsOnRecord(t *testing.T) {
	o := options(t, "touch built")
	o.Env = append(o.Env, "API_KEY=canary-1234")
	o.Toolchain = []string{"echo gcc 13; echo patched >&2", `echo "key $API_KEY"`}
	b, err := Run(t.Context(), o)
	want := []record.Tooling{
		{Command: "echo gcc 13; echo patched >&2", Output: "gcc 13 patched"},
		{Command: `echo "key $API_KEY"`, Output: "key ***"},
	}
	if diff := cmp.Diff(want, b.Toolchain); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestFailingToolIsANote(t *testing.T) {
	for command, want := range map[string]string{
		"exit 7":                  "exit status 7",
		"head -c 70000 /dev/zero": "more than 64 KiB",
	} {
		o := options(t, "touch built")
		o.Toolchain = []string{command}
		var note string
		o.Note = func(id, text string) { note = id + ": " + text }
		b, err := Run(t.Context(), o)
		if err != nil || b.SHA256 == "" || !strings.HasPrefix(note, "toolchain_failed: ") || !strings.Contains(note, want) {
			t.Errorf("%s: build %+v, %v, note %q", command, b, err, note)
		}
	}
}

func TestImageDigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	o := options(t, "echo "+digest+" > built")
	o.Image = "cat built; echo asked >&2"
	if b, err := Run(t.Context(), o); err != nil || b.Image != digest {
		t.Errorf("build %+v, %v", b, err)
	}
	if log := logOf(t, o); log != "asked\n" {
		t.Errorf("log = %q", log)
	}
	for command, want := range map[string]string{
		"echo server:latest":                  `target.image_digest printed "server:latest", not sha256: and 64 hex digits`,
		"true":                                `target.image_digest printed ""`,
		"echo " + strings.ToUpper(digest):     "not sha256:",
		"echo " + digest + "; echo " + digest: "not sha256:",
		"echo no such image >&2; exit 125":    "the target.image_digest command failed: exit status 125",
	} {
		o := options(t, "touch built")
		o.Image = command
		b, err := Run(t.Context(), o)
		if failed, ok := errors.AsType[*FailedError](err); !ok || !strings.Contains(failed.Text, want) || b.Image != "" || b.SHA256 != "" {
			t.Errorf("%s: build %+v, %v", command, b, err)
		}
	}
}

func TestUnpinned(t *testing.T) {
	for start, want := range map[string]bool{
		"docker run --rm -p $PORT:8000 server:latest": true,
		"exec podman run server":                      true,
		"cd x && docker container run server":         true,
		"docker run server@sha256:0a0a":               false,
		"./server --docker run":                       false,
		"./docker-run.sh":                             false,
		"docker compose up":                           false,
	} {
		if got := Unpinned(start, ""); got != want {
			t.Errorf("%s: %v, want %v", start, got, want)
		}
	}
	if Unpinned("docker run server", "sha256:0a") {
		t.Error("an image with a digest is not pinned")
	}
}

func TestLogsAreMaskedWhenTheBuildIsOver(t *testing.T) {
	for _, command := range []string{`echo "using $API_KEY"; touch built`, `echo "using $API_KEY"; exit 3`} {
		o := options(t, command)
		o.Env = append(o.Env, "API_KEY=canary-1234")
		_, err := Run(t.Context(), o)
		if _, failed := errors.AsType[*FailedError](err); err != nil && !failed {
			t.Fatal(err)
		}
		if log := logOf(t, o); log != "using ***\n" {
			t.Errorf("log = %q", log)
		}
	}
}
