package record

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the writer journals is what a reader gets back, in order.
func TestJournalIsReadBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := Create(dir, newRun())
	must(t, err)
	want := []Event{
		{T: 1, Name: "planned"},
		{T: 2, Name: "start", Slot: new(0), Arm: Base, Text: "try 1: \"quoted\"\n"},
		{T: 3, Name: "complete", Text: clip(strings.Repeat("é", 5000))},
	}
	for _, e := range want {
		must(t, w.Journal(e))
	}
	must(t, w.Close())
	f := open(t, dir)
	got, err := collect(f.Journal())
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for e := range f.Journal() {
		if e.T != 1 {
			t.Errorf("began with %+v", e)
		}
		break
	}
	golden, err := collect(open(t, filepath.Join("testdata", "run")).Journal())
	must(t, err)
	if n := len(golden); n != 10 || golden[0].Name != "planned" || golden[n-1].Name != "complete" {
		t.Errorf("%d events in the golden run: %+v", n, golden)
	}
}

// A writer that died leaves half a line, which is left out and named; damage in the middle is an error with its line.
func TestDamagedJournals(t *testing.T) {
	for name, tt := range map[string]struct {
		text, wrong string
		events      int
		cut         bool
	}{
		"cut":          {`{"t_ns":1,"event":"a"}` + "\n" + `{"t_ns":2,"ev`, "", 1, true},
		"cut at once":  {`{"t_ns":1`, "", 0, true},
		"empty":        {"", "", 0, false},
		"blank lines":  {"\n" + `{"t_ns":1,"event":"a"}` + "\n\n", "", 1, false},
		"grown":        {`{"t_ns":1,"event":"new_word","more":[{}]}` + "\n", "", 1, false},
		"no JSON":      {`{"t_ns":1,"event":"a"}` + "\nnonsense\n", "journal.jsonl: line 2", 1, false},
		"no name":      {`{"t_ns":1}` + "\n", "line 1", 0, false},
		"before epoch": {`{"t_ns":-1,"event":"a"}` + "\n", "line 1", 0, false},
		"odd arm":      {`{"t_ns":1,"event":"a","arm":"third"}` + "\n", `"third"`, 0, false},
		"long":         {`{"t_ns":1,"event":"a","text":"` + strings.Repeat("x", maxText+1) + `"}` + "\n", "4097", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, "small")
			must(t, os.WriteFile(filepath.Join(dir, journalFile), []byte(tt.text), filePerm))
			f := open(t, dir)
			events, wrong := 0, ""
			for _, err := range f.Journal() {
				if err != nil {
					wrong = err.Error()
					continue
				}
				events++
			}
			if events != tt.events || !strings.Contains(wrong, tt.wrong) || (tt.wrong == "") != (wrong == "") {
				t.Errorf("%d events, error %q; want %d, %q", events, wrong, tt.events, tt.wrong)
			}
			if got := slices.Contains(f.Cut(), journalFile); got != tt.cut {
				t.Errorf("cut %v, want %v", got, tt.cut)
			}
		})
	}
	dir := copyOf(t, "small")
	must(t, os.Remove(filepath.Join(dir, journalFile)))
	if got, err := collect(open(t, dir).Journal()); len(got) > 0 || err != nil {
		t.Errorf("no journal gives %v, %v", got, err)
	}
}

// Any text gives events that can be written again and read as the same, or an error.
func FuzzJournal(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "run", journalFile))
	if err != nil {
		f.Fatal(err)
	}
	seed(f, text)
	f.Add([]byte(`{"t_ns":5,"event":"x","slot":-3,"arm":"base","text":"\ud800"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(data []byte) (events []Event) {
			_ = lines(bytes.NewReader(data), checkEvent, func(e Event) bool {
				events = append(events, e)
				return true
			})
			return events
		}
		events := read(data)
		var again bytes.Buffer
		for _, e := range events {
			line, err := json.Marshal(e)
			must(t, err)
			again.Write(append(line, '\n'))
		}
		if diff := cmp.Diff(events, read(again.Bytes())); diff != "" {
			t.Fatalf("it changed in rewriting:\n%s", diff)
		}
	})
}
