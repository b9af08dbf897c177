package client

import (
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/runner/client/scripttest"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// eventOf is a stream's usual payload event in each dialect, as its servers write it.
func eventOf() map[string]string {
	return map[string]string{
		"openai-chat":        "data: " + `{"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk","created":1718000000,"model":"meta-llama/Llama-3.1-8B-Instruct","choices":[{"index":0,"delta":{"content":" caf\u00e9"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n",
		"openai-completions": "data: " + `{"id":"cmpl-0123456789abcdef","object":"text_completion","created":1718000000,"model":"m","choices":[{"index":0,"text":" hello","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null}` + "\n\n",
		"ollama":             `{"model":"llama3.2","created_at":"2026-01-01T00:00:00.123456789Z","message":{"role":"assistant","content":" hello"},"done":false}` + "\n",
		"tgi":                "data:" + `{"index":1,"token":{"id":101,"text":" hello","logprob":-0.5,"special":false},"generated_text":null,"details":null}` + "\n\n",
		"triton-generate":    "data: " + `{"model_name":"m","model_version":"1","sequence_end":false,"sequence_id":0,"sequence_start":false,"text_output":" hello"}` + "\n\n",
		"llamacpp":           "data: " + `{"index":0,"content":" hello","tokens":[22172],"stop":false,"id_slot":0,"tokens_predicted":7,"tokens_evaluated":31}` + "\n\n",
		"http-json":          "data: " + `{"results":[{"text":" hello","n":1}],"usage":{"in":3,"out":1}}` + "\n\n",
	}
}

// streamed is what a request of a dialect expects of a stream of so many tokens.
func streamed(tb testing.TB, name string, tokens int) expectation {
	tb.Helper()
	d, err := findDialect(name)
	if err != nil {
		tb.Fatal(err)
	}
	want := expectation{speaks: d, stream: true, layout: d.layout, choices: 1, planned: tokens}
	if name == "http-json" {
		want.layout = inEvents
		if want.pointers, err = parsePointers(Pointers{Text: "/results/0/text", Error: "/error", NIn: "/usage/in", NOut: "/usage/out"}); err != nil {
			tb.Fatal(err)
		}
	}
	return want
}

// A payload event of an answer no longer than planned allocates nothing, however it is cut.
func TestEventsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector a pool forgets at random")
	}
	const tokens = 1000
	for name, text := range eventOf() {
		for _, piece := range []int{0, 7} {
			a := newAnswer(streamed(t, name, tokens))
			parts := scripttest.Cut([]byte(text), piece)
			n := 0
			write := func() {
				n++
				for _, part := range parts {
					a.write(part, mark{1, n})
				}
			}
			for range 3 {
				write()
			}
			if got := testing.AllocsPerRun(tokens-100, write); got != 0 {
				t.Errorf("%s in pieces of %d: %v allocations an event", name, piece, got)
			}
			if a.payloads != n || a.bad > 0 || a.unknown > 0 || len(a.choices[0].text) < 5*n {
				t.Errorf("%s: %d payload events of %d, %d bad, %d unknown, %d bytes of text", name, a.payloads, n, a.bad, a.unknown, len(a.choices[0].text))
			}
		}
	}
}

// BenchmarkEvent reads one payload event, the cutting included.
func BenchmarkEvent(b *testing.B) {
	for name, text := range eventOf() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			event, n := []byte(text), 0
			a := newAnswer(streamed(b, name, 4096))
			for b.Loop() {
				if n++; n%4096 == 0 {
					b.StopTimer()
					a = newAnswer(streamed(b, name, 4096))
					b.StartTimer()
				}
				a.write(event, mark{1, n})
			}
			if a.payloads != n%4096+min(n/4096, 1) && n >= 4096 || a.bad > 0 {
				b.Fatalf("%d payload events, %d bad", a.payloads, a.bad)
			}
		})
	}
}

// BenchmarkSSE cuts a stream into events, in reads of one event and of the size of a socket buffer.
func BenchmarkSSE(b *testing.B) {
	body := []byte(strings.Repeat(eventOf()["openai-chat"], 64))
	for name, piece := range map[string]int{"event": len(body) / 64, "16KiB": 16 << 10} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			parts := scripttest.Cut(body, piece)
			var p sse
			for b.Loop() {
				n := 0
				for _, part := range parts {
					if _, err := p.push(part, func(sseEvent) bool { n++; return true }); err != nil {
						b.Fatal(err)
					}
				}
				if n != 64 {
					b.Fatalf("%d events", n)
				}
			}
		})
	}
}

// BenchmarkNDJSON cuts a stream into lines.
func BenchmarkNDJSON(b *testing.B) {
	body := []byte(strings.Repeat(eventOf()["ollama"], 64))
	for name, piece := range map[string]int{"line": len(body) / 64, "16KiB": 16 << 10} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			parts := scripttest.Cut(body, piece)
			var p lines
			for b.Loop() {
				n := 0
				for _, part := range parts {
					if _, err := p.push(part, func([]byte) bool { n++; return true }); err != nil {
						b.Fatal(err)
					}
				}
				if n != 64 {
					b.Fatalf("%d lines", n)
				}
			}
		})
	}
}

// BenchmarkLongEvent reads an answer of 500 KB in one event, in reads of a page, up to the digest of its text.
func BenchmarkLongEvent(b *testing.B) {
	body := []byte(`data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", copyBytes) + `"}}]}` + "\n\n" + finishEvent + doneEvent)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	parts := scripttest.Cut(body, pageSize)
	for b.Loop() {
		a := newAnswer(expectation{stream: true, planned: 8})
		for i, part := range parts {
			a.write(part, mark{record.Instant(i + 1), i + 1})
		}
		if a.payloads != 1 || !a.over.at.Reached() || a.textSHA() == "" {
			b.Fatalf("%d payload events, %d bad", a.payloads, a.bad)
		}
	}
}

// cutUp cuts a text into pieces.
func cutUp(text string, piece int) [][]byte { return scripttest.Cut([]byte(text), piece) }
