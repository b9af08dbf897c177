package workload

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestRoundTrip(t *testing.T) {
	w := hundred(t)
	dir := t.TempDir()
	if err := Write(dir, w); err != nil {
		t.Fatal(err)
	}
	got, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := Diff(w, got); d != nil {
		t.Errorf("read back otherwise: %v", d)
	}
	if a, b := wire(t, w, 8e9, 1e9), wire(t, got, 8e9, 1e9); a != b {
		t.Error("the same workload sends other bytes after a round trip")
	}
	if err := Write(dir, w); err == nil {
		t.Error("a workload was written over another")
	}
}

func TestEqualWorkloadsGiveEqualFiles(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		if err := Write(dir, hundred(t)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{manifestFile, turnsFile + ".gz"} {
		x, err := os.ReadFile(filepath.Join(a, name))
		if err != nil {
			t.Fatal(err)
		}
		y, _ := os.ReadFile(filepath.Join(b, name))
		if string(x) != string(y) {
			t.Errorf("%s differs between two writes", name)
		}
	}
}

// Each edit breaks one rule; the error must say where.
func TestReaderIsStrict(t *testing.T) {
	good := folder(t, hundred(t))
	if _, err := Read(good); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, old, text, want string }{
		"unknown key":        {manifestFile, `"seed"`, `"sede": "1", "seed"`, `manifest.json: unknown field "sede"`},
		"unknown turn key":   {turnsFile, `"conv"`, `"colour":1,"conv"`, `turns.jsonl:1: unknown field "colour"`},
		"key twice":          {turnsFile, `"id":"s000"`, `"id":"s000","id":"x"`, `turns.jsonl:1: the key "id" occurs twice`},
		"key in capitals":    {turnsFile, `"id":"s000"`, `"ID":"s000"`, `turns.jsonl:1: unknown field "ID"`},
		"float":              {turnsFile, `"in_tokens":40`, `"in_tokens":40.5`, `turns.jsonl:1: in_tokens: want an integer`},
		"NaN":                {turnsFile, `"in_tokens":40`, `"in_tokens":NaN`, `turns.jsonl:1: invalid character 'N'`},
		"negative length":    {turnsFile, `"in_tokens":40`, `"in_tokens":-1`, `turns.jsonl:1: in_tokens: want 0`},
		"negative time":      {turnsFile, `"conv":"s000"`, `"at":-5,"conv":"s000"`, `turns.jsonl:1: at: a length of time`},
		"duplicate id":       {turnsFile, `"id":"t000.1"`, `"id":"s000"`, `turns.jsonl:2: id: "s000" was used before`},
		"dangling after":     {turnsFile, `"after":["t000.1"]`, `"after":["t009.1"]`, `turns.jsonl:3: after: "t009.1" is no earlier turn`},
		"too few blocks":     {turnsFile, `"hash_ids":[0,100]`, `"hash_ids":[0]`, `turns.jsonl:1: hash_ids: 1 blocks of 32 for 40`},
		"two prompts":        {turnsFile, `"hash_ids":[0,100]`, `"hash_ids":[0,100],"prompt":"x"`, `turns.jsonl:1: hash_ids: want exactly one`},
		"dangling text":      {turnsFile, `"hash_ids":[0,100]`, `"prompt":{"text":"no"}`, `turns.jsonl:1: prompt: there is no text "no"`},
		"negative id":        {turnsFile, `"hash_ids":[0,100]`, `"hash_ids":[0,-7]`, `hash id "-7" is neither`},
		"out of order":       {turnsFile, `"conv":"s000"`, `"at":900000000,"conv":"s000"`, `turns.jsonl:2: out of order`},
		"outside the span":   {manifestFile, `"span_ns": 12000000000`, `"span_ns": 9000000000`, `at: 9000000000 lies outside the span`},
		"trailing data":      {turnsFile, "}\n", "} 7\n", `turns.jsonl:1: there is something after`},
		"blank line":         {turnsFile, "}\n", "}\n\n", `turns.jsonl:2: the JSON value is cut short`},
		"not UTF-8":          {turnsFile, `"id":"s000"`, "\"id\":\"\xff\"", `turns.jsonl:1: the text is not UTF-8`},
		"wrong count":        {manifestFile, `"turns": 100`, `"turns": 99`, `manifest.json: counts.turns: says 99, the turns have 100`},
		"newer format":       {manifestFile, `"format": 1`, `"format": 2, "new_key": 1`, `manifest.json: format: 2 is newer than 1`},
		"bad seed":           {manifestFile, `"seed": "42"`, `"seed": "-1"`, `manifest.json: seed: want a decimal integer`},
		"bad mode":           {manifestFile, `"mode": "force"`, `"mode": "forced"`, `manifest.json: output.mode: "forced" is none of`},
		"edited offset":      {turnsFile, `"at":250000000`, `"at":250000001`, `manifest.json: digest: says sha256:`},
		"empty name":         {manifestFile, `"name": "hundred"`, `"name": ""`, `manifest.json: name: want`},
		"delay without turn": {turnsFile, `"conv":"s000"`, `"conv":"s000","delay":5`, `turns.jsonl:1: delay: needs a predecessor`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(edit(t, good, c.file, c.old, c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if _, ok := errors.AsType[*Error](err); err != nil && !ok {
				t.Errorf("%T does not say where", err)
			}
		})
	}
}

func TestReaderNeedsItsFiles(t *testing.T) {
	good := folder(t, hundred(t))
	for name, drop := range map[string]string{"no manifest": manifestFile, "no turns": turnsFile} {
		files := fstest.MapFS{}
		for n, f := range good {
			if n != drop {
				files[n] = f
			}
		}
		if _, err := Read(files); err == nil || !strings.Contains(err.Error(), drop) {
			t.Errorf("%s: %v, want an error that names %s", name, err, drop)
		}
	}
	both := edit(t, good, turnsFile, "{", "{")
	both[turnsFile+".gz"] = &fstest.MapFile{Data: []byte("x")}
	if _, err := Read(both); err == nil || !strings.Contains(err.Error(), "stands beside") {
		t.Errorf("turns twice: %v", err)
	}
	delete(both, turnsFile)
	if _, err := Read(both); err == nil || !strings.Contains(err.Error(), "not gzip") {
		t.Errorf("not gzip: %v", err)
	}
}

// A link out of the folder is not followed: a workload can come from a pull request.
func TestOpenStaysInItsFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := Write(outside, hundred(t)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{manifestFile, turnsFile + ".gz"} {
		if err := os.Symlink(filepath.Join(outside, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir); err == nil {
		t.Error("a link out of the folder was followed")
	}
	if _, err := Open(filepath.Join(dir, "absent")); err == nil {
		t.Error("an absent folder was opened")
	}
}
