package client

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestProbeText pins what people see of four kinds of answer. Refresh with `go test ./runner/client -run TestProbeText
// -update`.
func TestProbeText(t *testing.T) {
	for _, s := range loadScripts(t) {
		switch s.Name {
		case "R-09b-two-tool-calls", "R-13b-n2-in-one-event", "S-02c-reasoning-only", "S-03a-error-after-tokens", "K-02-429":
		default:
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			var b strings.Builder
			synctest.Test(t, func(t *testing.T) {
				dial, wait := memory(t, &s, 0)
				c := scriptClient(t, &s, dial)
				body, stream := scriptBody(t, &s)
				sample, trace, err := c.once(t.Context(), body, stream)
				if err != nil {
					t.Fatal(err)
				}
				c.Close()
				wait()
				if err := ProbeText(&b, sample, trace); err != nil {
					t.Fatal(err)
				}
			})
			path := filepath.Join("testdata", "probe", s.Name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a server sends may hold control sequences and be long; the terminal gets neither.
func TestProbeTextCleansForeignText(t *testing.T) {
	evil := "\x1b[2J" + strings.Repeat("x", 10_000)
	trace := Trace{Choices: []Choice{{
		Text: evil, Reasoning: evil, Refusal: evil, Finish: evil, ToolCalls: []ToolCall{{evil, evil}},
	}}}
	var b strings.Builder
	if err := ProbeText(&b, record.Sample{Class: record.OK}, trace); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsRune(b.String(), '\x1b') || b.Len() > 4000 {
		t.Errorf("%d bytes: %.300q", b.Len(), b.String())
	}
}
