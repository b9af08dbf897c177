package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]options{
		"":                         {sessions: 20, jobs: 1, seed: 1},
		"12":                       {sessions: 12, jobs: 1, seed: 1},
		"--jobs 3 12":              {sessions: 12, jobs: 3, seed: 1},
		"--jobs=2 --seed 5":        {sessions: 20, jobs: 2, seed: 5},
		"--scratch /s --binary /b": {sessions: 20, jobs: 1, seed: 1, scratch: "/s", binary: "/b"},
	} {
		if got, err := parse(strings.Fields(line), io.Discard); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", line, got, err, want)
		}
	}
	for line, want := range map[string]string{
		"--jobs 0 3":  "--jobs 0: at least one session runs at a time",
		"--jobs -1":   "--jobs -1: ",
		"--jobs x":    "invalid value",
		"0":           `"0" is no number of sessions`,
		"3 --jobs 2":  `"--jobs" is too much; see --help`,
		"--nonsense":  "not defined",
		"twenty":      `"twenty" is no number of sessions`,
		"--seed -1 3": "invalid value",
	} {
		if _, err := parse(strings.Fields(line), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", line, err, want)
		}
	}
}

// A tailgate that does nothing at all is unclean, whoever runs beside it. What the caller named is not removed.
func TestRunNamesEachSession(t *testing.T) {
	scratch := t.TempDir()
	precious := filepath.Join(scratch, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	clean, err := run(t.Context(), []string{"--jobs", "2", "--binary", "/bin/false", "--scratch", scratch, "3"}, &out, io.Discard)
	if clean || err != nil {
		t.Errorf("clean: %t, %v", clean, err)
	}
	text := out.String()
	if !strings.HasSuffix(text, "\n0 of 3 clean\n") {
		t.Errorf("the last line is not the count:\n%s", text)
	}
	for _, want := range []string{`(?m)^ +1/3  SIGINT .*UNCLEAN, see .*/0000$`, `(?m)^ +2/3  SIGTERM .*/0001\n +WRONG: `, `(?m)^ +3/3  kill -9 .*/0002$`} {
		if len(regexp.MustCompile(want).FindAllString(text, -1)) != 1 {
			t.Errorf("no single %s in\n%s", want, text)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestRunSaysWhatStoppedIt(t *testing.T) {
	scratch := t.TempDir()
	if err := os.Mkdir(filepath.Join(scratch, "0000"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := run(t.Context(), []string{"--binary", "/bin/false", "--scratch", scratch, "1"}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "session 1: an earlier session") || !strings.Contains(err.Error(), "0 of 1 ended before, 0 of them clean; what is left is in "+scratch) {
		t.Errorf("got %v", err)
	}
}

// What was made for the sessions goes, what the caller named stays.
func TestPrepareRemovesWhatItMade(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o := options{binary: "tailgate"}
	remove, err := o.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(o.binary) || !filepath.IsAbs(o.scratch) {
		t.Errorf("binary %s, scratch %s: sessions run elsewhere", o.binary, o.scratch)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(o.scratch); !os.IsNotExist(err) {
		t.Errorf("the scratch folder is still there: %v", err)
	}
	named := options{scratch: t.TempDir(), binary: "tailgate"}
	if remove, err = named.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(named.scratch); err != nil {
		t.Errorf("the caller's folder was removed: %v", err)
	}
}
