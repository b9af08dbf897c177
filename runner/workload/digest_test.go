package workload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// One digest means the same bytes on amd64, arm64 and every version of Go. If this golden changes, every workload in the
// world has another digest: raise Format.
func TestGoldenDigest(t *testing.T) {
	w := hundred(t)
	got := w.Digest() + "\nwire sha256:" + wire(t, w, 8e9, 1e9) + "\n"
	path := filepath.Join("testdata", "hundred.golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestDigestChanges(t *testing.T) {
	want := hundred(t).Digest()
	for name, change := range map[string]func(*Workload){
		"seed":        func(w *Workload) { w.Manifest.Seed = "43" },
		"name":        func(w *Workload) { w.Manifest.Name = "other" },
		"version":     func(w *Workload) { w.Manifest.Version = 2 },
		"tokenizer":   func(w *Workload) { w.Manifest.Tokenizer.Name = "x" },
		"block size":  func(w *Workload) { w.Manifest.BlockSize = 33 },
		"scope":       func(w *Workload) { w.Manifest.HashScope = ScopeConversation },
		"output mode": func(w *Workload) { w.Manifest.Output.Mode = Cap },
		"system":      func(w *Workload) { w.Manifest.System = "be brief" },
		"exclusions":  func(w *Workload) { w.Manifest.Counts.Excluded = map[string]int{"bad_row": 1} },
		"offset":      func(w *Workload) { w.Turns[5].At++ },
		"id":          func(w *Workload) { w.Turns[5].HashIDs[1].Number++ },
		"id as text":  func(w *Workload) { w.Turns[5].HashIDs[1].Text = w.Turns[5].HashIDs[1].String() },
		"texts":       func(w *Workload) { w.Texts = map[string]string{"a": "b"} },
		"order":       func(w *Workload) { w.Turns[5], w.Turns[6] = w.Turns[6], w.Turns[5] },
	} {
		w := hundred(t)
		change(w)
		if w.Digest() == want {
			t.Errorf("%s is not part of the digest", name)
		}
	}
}

func TestDigestStays(t *testing.T) {
	w := hundred(t)
	want := w.Digest()
	w.Manifest.Description, w.Manifest.Created, w.Manifest.Digest = "d", "2026-01-02T03:04:05Z", ""
	row, _ := note("m", "neutral", "r")
	w.Manifest.Fidelity = append(w.Manifest.Fidelity, row)
	if got := w.Digest(); got != want {
		t.Errorf("derived fields changed the digest: %s", got)
	}

	files := folder(t, hundred(t))
	files = edit(t, files, turnsFile, `"at":250000000,"conv":"s001"`, ` "conv" : "s001", "at":250000000`)
	files = edit(t, files, manifestFile, `"format": 1,`, "\n\n\t"+`"format":1 ,`)
	files[turnsFile] = &fstest.MapFile{Data: []byte(strings.TrimSuffix(string(files[turnsFile].Data), "\n"))}
	if _, err := Read(files); err != nil {
		t.Errorf("white space, key order or a missing final newline changed the digest: %v", err)
	}
}

func TestCanonical(t *testing.T) {
	for name, c := range map[string]struct {
		v    any
		want string
	}{
		"keys by bytes": {map[string]any{"b": 1, "a": 2, "B": 3, "é": 4}, `{"B":3,"a":2,"b":1,"é":4}`},
		"escapes":       {"a\"\\/\n\t\u2028<>&é\x01", `"a\"\\/\u000a\u0009` + "\u2028" + `<>&é\u0001"`},
		"nesting":       {[]any{true, nil, []int{1, -2}}, `[true,null,[1,-2]]`},
		"large integer": {uint64(1<<64 - 1), `18446744073709551615`},
	} {
		got, err := canonical(c.v)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
	if _, err := canonical(map[string]any{"a": 0.5}); err == nil {
		t.Error("a float was written")
	}
}

func TestDiff(t *testing.T) {
	a, b := hundred(t), hundred(t)
	if d := Diff(a, b); d != nil {
		t.Errorf("equal workloads differ: %v", d)
	}
	b.Turns[3].At++
	b.Manifest.Digest = b.Digest()
	d := strings.Join(Diff(a, b), "\n")
	for _, want := range []string{"digest: sha256:", "first differing turn: line 4,"} {
		if !strings.Contains(d, want) {
			t.Errorf("%q is not in\n%s", want, d)
		}
	}
}
