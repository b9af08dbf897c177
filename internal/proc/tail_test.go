package proc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestTail(t *testing.T) {
	long := strings.Repeat("x", tailLine+10)
	tests := []struct {
		name, log string
		n         int
		want      []string
	}{
		{"empty", "", 5, nil},
		{"fewer than asked", "a\nb\n", 5, []string{"a", "b"}},
		{"the last ones", "a\nb\nc\nd", 2, []string{"c", "d"}},
		{"carriage return ends a line", "10%\r20%\r\ndone\r\n", 9, []string{"10%", "20%", "done"}},
		{"colour and title", "\x1b[31mred\x1b[0m \x1b]0;t\x07x\a", 1, []string{"red x"}},
		{"masked", "token hf_abcdef!", 1, []string{"token ***!"}},
		{"masked across a colour code", "token hf_\x1b[1mabcdef!", 1, []string{"token ***!"}},
		{"invalid and bidirectional text", "a\xff\u202eb", 1, []string{"a\uFFFDb"}},
		{"long line", long, 1, []string{long[:tailLine-3] + "…"}},
		{"none asked", "a\n", 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tt.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, Tail(path, tt.n, NewMask([]string{"TOKEN=hf_abcdef"}))); diff != "" && len(tt.want) > 0 {
				t.Errorf("tail (-want +got):\n%s", diff)
			}
		})
	}
	if got := Tail(filepath.Join(t.TempDir(), "absent"), 5, nil); got != nil {
		t.Errorf("absent log: %q", got)
	}
}

func TestTailLeavesOutALineCutByTheWindow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	// The window starts inside the secret: its second half alone would not be recognised.
	log := "hf_abcdef" + strings.Repeat("x", tailWindow-6-len("\nlast")) + "\nlast"
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"last"}, Tail(path, 5, NewMask([]string{"TOKEN=hf_abcdef"}))); diff != "" {
		t.Error(diff)
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "plain", "\x1b[31mred", "\x1b]0;t\x07", "a\xffb", "\u202e", "…………", "\r\n\t"} {
		f.Add(s, 7)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 3 + max(0, limit)%100
		got := Clean(s, limit)
		if !utf8.ValidString(got) || len(got) > limit || strings.ContainsAny(got, "\x1b\r\n\x00\u202e") {
			t.Errorf("Clean(%q, %d) = %q", s, limit, got)
		}
	})
}
