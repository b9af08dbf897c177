package proc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMaskFile(t *testing.T) {
	m := NewMask([]string{"API_KEY=canary-1234", "MODEL=small", "CERT_KEY=first-line\nsecond-line"})
	long := strings.Repeat("x", 2<<20)
	for name, c := range map[string]struct{ text, want string }{
		"a secret":        {"key canary-1234\nMODEL small\n", "key ***\nMODEL small\n"},
		"no line feed":    {"canary-1234", "***"},
		"a long line":     {long + "canary-1234" + long + "\nend", long + "***" + long + "\nend"},
		"several lines":   {"-first-line\nsecond-line-", "-***\n***-"},
		"nothing to hide": {"plain\n", "plain\n"},
		"empty":           {"", ""},
	} {
		path := filepath.Join(t.TempDir(), "server.log")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := MaskFile(path, m); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(c.want))
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*masked*")); len(left) > 0 || err != nil {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
	if err := MaskFile(filepath.Join(t.TempDir(), "absent"), m); err != nil {
		t.Errorf("an absent log: %v", err)
	}
	if err := MaskFile(filepath.Join(t.TempDir(), "absent"), nil); err != nil {
		t.Errorf("no mask: %v", err)
	}
}

func TestMaskFileSaysWhatItCannotMask(t *testing.T) {
	dir := t.TempDir() // a folder has no lines
	if err := MaskFile(dir, NewMask([]string{"API_KEY=canary-1234"})); err == nil {
		t.Error("a folder was masked")
	}
}
