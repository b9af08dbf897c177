package workload

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"testing"
	"testing/fstest"
)

// head is the first lines of a trace, as a seed.
func head(f *testing.F, file string, n int) []byte {
	f.Helper()
	in, err := os.Open(tracePath(file))
	if err != nil {
		f.Fatal(err)
	}
	defer in.Close()
	r, err := inflate(file, in)
	if err != nil {
		f.Fatal(err)
	}
	var b bytes.Buffer
	s := bufio.NewScanner(r)
	for range n {
		s.Scan()
		b.Write(s.Bytes())
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// checkWorkload holds for every workload that was accepted: it survives a round trip and says something for every turn.
func checkWorkload(t *testing.T, w *Workload) {
	t.Helper()
	if w.Manifest.Digest != w.Digest() {
		t.Fatal("the digest does not hold")
	}
	if err := w.check(); err != nil {
		t.Fatalf("an accepted workload breaks its own rules: %v", err)
	}
	if w.Manifest.Counts.InTokens > 1<<20 {
		return
	}
	again, err := Read(folder(t, w))
	if err != nil {
		t.Fatalf("not readable after writing: %v", err)
	}
	for i := range again.index.resolved {
		if _, err := again.Content(Request{Turn: &again.index.resolved[i]}); err != nil && again.index.resolved[i].After == nil {
			t.Fatalf("no content: %v", err)
		}
	}
	if p, err := w.Plan(w.Span(), w.Span()/3+1); err == nil {
		checkPlan(t, p.Measured, 0, w.Span())
	}
}

func fuzzImport(f *testing.F, kind string) {
	f.Helper()
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := Import(kind, Input{Name: "f", Data: bytes.NewReader(data)}, Options{Name: "f", MaxBad: 1, Dequantise: "uniform"})
		if err != nil {
			return
		}
		checkWorkload(t, w)
	})
}

func FuzzMooncake(f *testing.F) {
	f.Add(head(f, "mooncake-conversation-1800s.jsonl.gz", 4))
	f.Add(head(f, "mooncake-synthetic.jsonl.gz", 4))
	f.Add([]byte(`{"timestamp":1.5,"input_length":1,"output_length":1,"hash_ids":["a"],"session_id":"s"}` + "\n" +
		`{"delay":10,"input_length":1,"output_length":1,"hash_ids":[18446744073709551615],"session_id":"s"}`))
	fuzzImport(f, "mooncake")
}

func FuzzAzure(f *testing.F) {
	f.Add(head(f, "azure-code.csv.gz", 4))
	f.Add(head(f, "azure-conv.csv.gz", 4))
	fuzzImport(f, "azure-csv")
}

func FuzzManifest(f *testing.F) {
	files := folder(f, hundred(f))
	f.Add(files[manifestFile].Data)
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzRead(t, fstest.MapFS{manifestFile: {Data: data}, turnsFile: files[turnsFile]})
	})
}

func FuzzTurns(f *testing.F) {
	files := folder(f, hundred(f))
	f.Add(files[turnsFile].Data, []byte(nil))
	f.Add([]byte(`{"conv":"a","id":"a","messages":[{"content":{"text":"x"},"role":"user"}],"out":{"tokens":1},"turn":1}`),
		[]byte(`{"id":"x","text":"y"}`))
	f.Fuzz(func(t *testing.T, turns, texts []byte) {
		fuzzRead(t, fstest.MapFS{manifestFile: files[manifestFile], turnsFile: {Data: turns}, textsFile: {Data: texts}})
	})
}

// fuzzRead reads a folder, and if only counts and digest are wrong, makes a workload of it all the same.
func fuzzRead(t *testing.T, files fstest.MapFS) {
	t.Helper()
	w, err := Read(files)
	if err == nil {
		checkWorkload(t, w)
		return
	}
	if _, ok := errors.AsType[*Error](err); !ok {
		t.Fatalf("%T: %v; want an error with a place", err, err)
	}
	w = &Workload{}
	if readManifest(files[manifestFile].Data, &w.Manifest) != nil || readLines(files, turnsFile, true, w.addTurn) != nil ||
		readLines(files, textsFile, false, w.addText) != nil {
		return
	}
	if w, err = New(w.Manifest, w.Turns, w.Texts); err == nil {
		checkWorkload(t, w)
	}
}
