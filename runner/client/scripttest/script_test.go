package scripttest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client/scripttest"
)

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"stream: 1\nwhat: x":       "line 2: unknown key",
		"stream: 1\nno colon":      "line 2: want key: value",
		"status: ok":               "line 1",
		"headers-at: soon":         "line 1",
		"+x close":                 "line 1",
		"+10000000000000":          "line 1: 10000000000000 ms is no time within a day",
		"+1 hold -1":               "no time within a day",
		"+1 hold long":             "line 1",
		"+1 \"unterminated":        "line 1",
		"+1 x*\"a\"":               "line 1",
		"+5 close\n+3 close":       "line 2: time goes backwards",
		"+1 99999999*\"aaaaaaaa\"": "line 1: too much",
	} {
		if _, err := scripttest.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	s, err := scripttest.Parse("# a comment\nstream: 1\nmethod: POST\npath: /x\nstatus: 200\nheaders-at: 5\nheader: A: b\n\n" +
		"+8 `data: ` 2*\"\\xe4\"\n   \"\\n\\n\"\n+9 hold 20\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(s.Body()); got != "data: \xe4\xe4\n\n" {
		t.Errorf("body %q", got)
	}
	last := s.Steps[len(s.Steps)-1]
	if s.Steps[0].At != 8*time.Millisecond || last.What != "hold" || last.Hold != 20*time.Millisecond || *s.HeadersAt != 5*time.Millisecond {
		t.Errorf("script %+v", s)
	}
}

// FuzzParse: no panic, and no body out of proportion to its script.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("../testdata/streams/*/script.txt")
	if err != nil || len(paths) == 0 {
		f.Fatal("no scripts", err)
	}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scripttest.Parse(text)
		if err != nil {
			return
		}
		if n := len(s.Body()); n > scripttest.MaxBody {
			t.Fatalf("a body of %d bytes", n)
		}
		at := time.Duration(0)
		for _, st := range s.Steps {
			if st.At < at {
				t.Fatal("time goes backwards")
			}
			at = st.At
		}
	})
}
