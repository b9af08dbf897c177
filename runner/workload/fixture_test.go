package workload

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// hundred is a workload of 100 turns: 40 single requests in shared and private blocks, and 20 conversations of three turns.
func hundred(tb testing.TB) *Workload {
	tb.Helper()
	var turns []Turn
	for i := range 40 {
		turns = append(turns, Turn{
			ID: fmt.Sprintf("s%03d", i), Conv: fmt.Sprintf("s%03d", i), N: 1, Group: fmt.Sprintf("g%d", i%10),
			At: time.Duration(i) * 250 * time.Millisecond, InTokens: 40 + i,
			HashIDs: blocks(40+i, 32, 0, uint64(100+i%10), uint64(1000+i)), Out: Output{Tokens: 8 + i%5},
		})
	}
	for i := range 20 {
		conv := fmt.Sprintf("t%03d", i)
		for n := range 3 {
			turn := Turn{
				ID: fmt.Sprintf("%s.%d", conv, n+1), Conv: conv, N: n + 1, InTokens: 30 + 25*n,
				HashIDs: blocks(30+25*n, 32, 0, uint64(5000+10*i), uint64(5001+10*i)), Out: Output{Tokens: 12},
			}
			if n == 0 {
				turn.At = time.Duration(i) * 500 * time.Millisecond
			} else {
				turn.After, turn.Delay = []string{fmt.Sprintf("%s.%d", conv, n)}, 400*time.Millisecond
			}
			turns = append(turns, turn)
		}
	}
	w, err := New(Manifest{
		Name: "hundred", Seed: "42", BlockSize: 32, HashScope: ScopeGlobal,
		Arrivals: Arrivals{Kind: "generated", SpanNS: int64(12 * time.Second)},
	}, turns, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// blocks takes as many of ids as n tokens need.
func blocks(n, size int, ids ...uint64) []BlockID {
	var out []BlockID
	for _, id := range ids[:(n+size-1)/size] {
		out = append(out, BlockID{Number: id})
	}
	return out
}

// folder writes a workload and gives its files, turns inflated to plain text.
func folder(tb testing.TB, w *Workload) fstest.MapFS {
	tb.Helper()
	dir := tb.TempDir()
	if err := Write(dir, w); err != nil {
		tb.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, name := range []string{manifestFile, turnsFile, textsFile} {
		if data := content(tb, dir, name); data != nil {
			files[name] = &fstest.MapFile{Data: data}
		}
	}
	return files
}

func content(tb testing.TB, dir, name string) []byte {
	tb.Helper()
	if data, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
		return data
	}
	f, err := os.Open(filepath.Join(dir, name+".gz"))
	if err != nil {
		return nil
	}
	defer f.Close()
	r, err := inflate(name+".gz", f)
	if err != nil {
		tb.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// edit replaces text in one file; it must be there.
func edit(tb testing.TB, files fs.FS, name, old, text string) fstest.MapFS {
	tb.Helper()
	out := fstest.MapFS{}
	for n, f := range files.(fstest.MapFS) {
		data := string(f.Data)
		if n == name {
			if !strings.Contains(data, old) {
				tb.Fatalf("%s does not contain %q:\n%.400s", n, old, data)
			}
			data = strings.Replace(data, old, text, 1)
		}
		out[n] = &fstest.MapFile{Data: []byte(data)}
	}
	return out
}

// wire is a digest over what would be sent: offsets and content in order of the plan, warm-up included.
func wire(tb testing.TB, w *Workload, measure, window time.Duration) string {
	tb.Helper()
	p, err := w.Plan(measure, window)
	if err != nil {
		tb.Fatal(err)
	}
	h := sha256.New()
	for _, rs := range [][]Request{p.Measured, p.Tail, p.Warmup(0), p.Warmup(1)} {
		for _, r := range rs {
			c, err := w.Content(r)
			if err != nil {
				tb.Fatal(err)
			}
			b, err := json.Marshal(c)
			if err != nil {
				tb.Fatal(err)
			}
			fmt.Fprintf(h, "%d %v %d %s\n", r.Offset, r.After, r.Delay, b)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// said is the text of a request's only message.
func said(tb testing.TB, w *Workload, r Request) string {
	tb.Helper()
	c, err := w.Content(r)
	if err != nil {
		tb.Fatal(err)
	}
	if len(c.Messages) != 1 {
		tb.Fatalf("%d messages, want 1", len(c.Messages))
	}
	return c.Messages[0].Content
}
