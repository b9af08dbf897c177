package client

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/client/scripttest"
)

// events runs input through the parser in pieces of n bytes; the final string says how it ended.
func events(input []byte, n, limit int) (out []string, left int) {
	p := sse{limit: limit}
	done := false
	for _, part := range scripttest.Cut(input, n) {
		if done {
			left += len(part)
			continue
		}
		k, err := p.push(part, func(ev sseEvent) bool {
			s := ev.kind + "|" + string(ev.data)
			if ev.fault != nil {
				s += "|" + string(ev.fault)
			}
			out = append(out, s)
			done = string(ev.data) == "end"
			return !done
		})
		left += k
		if err != nil {
			return append(out, err.Error()), left
		}
	}
	return out, left
}

func TestSSE(t *testing.T) {
	tests := []struct {
		name, input string
		want        []string
	}{
		{"rule 1: LF, CRLF and CR are equal", "data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\r\n\ndata: e\n\r\n", []string{"|a", "|b", "|c", "|d", "|e"}},
		{"rule 2: at most one space goes", "data:a\n\ndata: b\n\ndata:  c\n\n", []string{"|a", "|b", "| c"}},
		{"rule 2: data lines are joined", "data: a\ndata:\ndata: b\n\n", []string{"|a\n\nb"}},
		{"rule 3: a byte-order mark goes, once", "\ufeffdata: a\n\n\ufeffdata: b\n\n", []string{"|a"}},
		{"rule 3: other fields are ignored, event is kept", "id: 1\nretry: 2\nx: y\nevent: k\ndata: a\n\ndata: b\n\n", []string{"k|a", "|b"}},
		{"rule 4: comments and empty events dispatch nothing", ": data: x\n\n:\n\n\n\nevent: k\n\ndata: a\n\n", []string{"|a"}},
		{"rule 15: a field line error", "error: {}\n\n", []string{"||{}"}},
		{"a line without colon is a field", "data\ndata: a\n\ndata\n\n", []string{"|\na"}},
		{"rule 8: a last event without its blank line is dropped", "data: a\n\ndata: b\n", []string{"|a"}},
		{"a field name must match whole", "datax: a\n\ndat: b\n\n Data: c\n\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for n := 0; n <= len(tt.input); n++ {
				got, _ := events([]byte(tt.input), n, 0)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Fatalf("in pieces of %d: %s", n, diff)
				}
			}
		})
	}
}

// A CR ends its event at once: no byte after it is needed.
func TestBareCRDispatchesAtOnce(t *testing.T) {
	if got, _ := events([]byte("data: a\r\r"), 0, 0); len(got) != 1 {
		t.Errorf("events %q", got)
	}
}

func TestWhatFollowsTheEndIsCounted(t *testing.T) {
	for end, want := range map[string]int{"\n\n": 9, "\r\n\r\n": 9, "\r\r": 9} {
		input := []byte("data: end" + end + "data: x\n\n")
		if _, left := events(input, 0, 0); left != want {
			t.Errorf("%q: %d bytes left, want %d", end, left, want)
		}
	}
}

// Rule 7: an event beyond the limit is an error, however it is cut, and the parser holds no more than the limit.
func TestEventLimit(t *testing.T) {
	for _, input := range []string{
		"data: " + strings.Repeat("x", 200),
		strings.Repeat("data: xxxxxxx\n", 40),
		"error: " + strings.Repeat("x", 200) + "\n\n",
		strings.Repeat("y", 300),
	} {
		for _, n := range []int{0, 1, 7} {
			got, _ := events([]byte(input), n, 100)
			if len(got) != 1 || got[0] != errEventTooLarge.Error() {
				t.Errorf("%.20q in pieces of %d: %q", input, n, got)
			}
		}
	}
	p := sse{limit: 100}
	err := errors.New("never")
	for range 1000 {
		if _, err = p.push([]byte("data: xxxxxxxxxxxxxxxxxx\n"), func(sseEvent) bool { return true }); err != nil {
			break
		}
	}
	if !errors.Is(err, errEventTooLarge) || cap(p.data)+cap(p.line) > 1000 {
		t.Errorf("error %v with %d bytes held", err, cap(p.data)+cap(p.line))
	}
}

// A line that came in many reads becomes the data without a copy; what follows it must not write over it.
func TestLongLinesAreNotWrittenOver(t *testing.T) {
	long := strings.Repeat("x", 3*longLine)
	for _, body := range []string{
		"data: " + long + "\ndata: second\nevent: k\n\ndata: third\n\n",
		"data: first\ndata: " + long + "\n\ndata: " + long + "\n: comment\n\n",
		"data: " + long + "\r\r" + "data: " + long + "\revent: " + strings.Repeat("k", longLine) + "\r\r",
	} {
		whole, _ := events([]byte(body), 0, 0)
		for _, piece := range []int{1000, longLine, longLine + 7} {
			pieces, _ := events([]byte(body), piece, 0)
			if diff := cmp.Diff(whole, pieces); diff != "" || len(whole) != 2 {
				t.Errorf("%d events; in pieces of %d: %s", len(whole), piece, diff)
			}
		}
	}
}

func FuzzSSE(f *testing.F) {
	for _, s := range loadScripts(f) {
		if b := s.Body(); len(b) < 64<<10 {
			f.Add(b, 3)
		}
	}
	f.Add([]byte("data: end\r\n\r\n\n"), 1)
	f.Fuzz(func(t *testing.T, input []byte, n int) {
		const limit = 1 << 10
		whole, leftWhole := events(input, 0, limit)
		for _, k := range []int{1, 1 + (n&0xff)%32} {
			pieces, left := events(input, k, limit)
			if diff := cmp.Diff(whole, pieces); diff != "" {
				t.Fatalf("in pieces of %d: %s", k, diff)
			}
			// The LF of a CRLF may come in a later piece, where this test's own count does not know it.
			if len(whole) > 0 && strings.HasSuffix(whole[len(whole)-1], "|end") && left-leftWhole > 1 {
				t.Fatalf("%d bytes left, in pieces %d", leftWhole, left)
			}
		}
	})
}

func BenchmarkAnswer(b *testing.B) {
	event := []byte(`data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	body := bytes.Repeat(event, 100)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		a := newAnswer(expectation{stream: true, planned: 100})
		a.write(body, mark{1, 1})
		if a.payloads != 100 {
			b.Fatal(a.payloads)
		}
	}
}
