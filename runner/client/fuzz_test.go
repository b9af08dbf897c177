package client

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/client/scripttest"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// The targets below feed a body to a dialect whole, in single bytes and in halves. Whatever it holds: no panic, exactly one
// outcome with a detail when it is a failure, never a success without output, the same whatever the cut, and no more kept
// than the limit of one event.

func FuzzDialectOpenAIChat(f *testing.F) { fuzzDialect(f, "openai-chat", expectation{}) }

func FuzzDialectOpenAICompletions(f *testing.F) { fuzzDialect(f, "openai-completions", expectation{}) }

func FuzzDialectOllama(f *testing.F) { fuzzDialect(f, "ollama", expectation{}) }

func FuzzDialectTGI(f *testing.F) { fuzzDialect(f, "tgi", expectation{}) }

func FuzzDialectTritonGenerate(f *testing.F) { fuzzDialect(f, "triton-generate", expectation{}) }

func FuzzDialectLlamaCPP(f *testing.F) { fuzzDialect(f, "llamacpp", expectation{}) }

// FuzzPerEventTokens reads running counts and logprobs beside the text.
func FuzzPerEventTokens(f *testing.F) {
	fuzzDialect(f, "openai-chat", expectation{perEvent: perEventUsage, maxTokens: 64, choices: 2})
}

// FuzzGrowingText reads events that repeat what came before.
func FuzzGrowingText(f *testing.F) { fuzzDialect(f, "triton-generate", expectation{growing: true}) }

func FuzzDialectHTTPJSON(f *testing.F) {
	p, err := parsePointers(Pointers{Text: "/choices/0/delta/content", Finish: "/choices/0/finish_reason", Error: "/error", NIn: "/usage/prompt_tokens", NOut: "/usage/completion_tokens"})
	if err != nil {
		f.Fatal(err)
	}
	fuzzDialect(f, "http-json", expectation{pointers: p, layout: inEvents})
}

func fuzzDialect(f *testing.F, name string, want expectation) {
	f.Helper()
	d, err := findDialect(name)
	if err != nil {
		f.Fatal(err)
	}
	want.speaks = d
	if want.layout == inEvents {
		want.layout = d.layout
	}
	if want.pointers != nil {
		want.layout = inEvents
	}
	for _, s := range loadScripts(f) {
		// The dialect's own, and some of the others: a server may speak any of them.
		if b := s.Body(); len(b) < 16<<10 && (s.Dialect == name || len(b) < 400) {
			f.Add(b, true)
		}
	}
	f.Add([]byte(eventOf()[name]), true)
	f.Add([]byte(`{"choices":[{"message":{"content":"x"}}],"generated_text":"x","text_output":"x","content":"x","response":"x","done":true,"stop":true}`), false)
	f.Fuzz(func(t *testing.T, body []byte, stream bool) {
		want := want
		want.stream = stream
		whole := readAnswer(body, 0, want)
		checkAnswer(t, whole)
		for _, piece := range []int{1, max(1, len(body)/2)} {
			sameAnswer(t, whole, readAnswer(body, piece, want))
		}
	})
}

func readAnswer(body []byte, piece int, want expectation) *answer {
	a := newAnswer(want)
	for _, part := range scripttest.Cut(body, piece) {
		a.write(part, mark{1, 1})
	}
	a.close(mark{2, 2})
	return a
}

// sameAnswer holds that how the bytes came makes no difference.
func sameAnswer(t *testing.T, a, b *answer) {
	t.Helper()
	if x, y := a.outcome(false), b.outcome(false); x != y {
		t.Fatalf("whole %v, cut %v", x, y)
	}
	if diff := cmp.Diff(a.report(), b.report()); diff != "" {
		t.Fatal(diff)
	}
	x := []int{a.events, a.payloads, a.bad, a.badUTF8, a.unknown, int(a.trailing), a.logprobs}
	y := []int{b.events, b.payloads, b.bad, b.badUTF8, b.unknown, int(b.trailing), b.logprobs}
	if !slices.Equal(x, y) {
		t.Fatalf("counters: whole %v, cut %v", x, y)
	}
	if diff := cmp.Diff(a.tally(), b.tally(), cmp.AllowUnexported(tally{})); diff != "" {
		t.Fatal(diff)
	}
}

// checkAnswer holds what is true of every answer.
func checkAnswer(t *testing.T, a *answer) {
	t.Helper()
	o, tokens := a.outcome(false), a.tally()
	if !slices.Contains(record.Outcomes(), o.class) {
		t.Fatalf("outcome %v", o)
	}
	if !utf8.ValidString(o.detail) || len(o.detail) > maxDetail || (o.class == record.OK) != (o.detail == "") {
		t.Fatalf("class %s, detail %q", o.class, o.detail)
	}
	if o.class == record.OK && (a.empty() || !a.ended()) {
		t.Fatalf("a success: empty %t, ended %t", a.empty(), a.ended())
	}
	if a.kept > maxEvent || len(a.whole) > maxEvent || cap(a.gaps) > 4096+2*a.payloads {
		t.Fatalf("kept %d bytes of text, %d of the body", a.kept, len(a.whole))
	}
	for _, n := range []*int{tokens.in, tokens.out, tokens.cached, tokens.reasoning} {
		if n != nil && *n < 0 {
			t.Fatalf("a count of %d", *n)
		}
	}
	if tokens.out != nil && *tokens.out == 0 && !a.empty() {
		t.Fatal("no tokens beside text")
	}
	if a.reader != nil {
		t.Fatal("an answer that waits holds a reader, and with it a page of bytes")
	}
	checkStream(t, a)
	for _, c := range a.report() {
		if !utf8.ValidString(c.Finish) || len(c.Finish) > 64 {
			t.Fatalf("finish reason %q", c.Finish)
		}
	}
}

func checkStream(t *testing.T, a *answer) {
	t.Helper()
	st := a.stream(0, a.tally().perEvent)
	if len(st.T) != a.payloads || st.N != nil && len(st.N) != a.payloads || a.payloads > a.events {
		t.Fatalf("%d events, %d payloads, stream %+v", a.events, a.payloads, st)
	}
}

// FuzzKServeBinary reads an answer with raw tensors behind its JSON, split where a header says.
func FuzzKServeBinary(f *testing.F) {
	f.Add([]byte(`{"outputs":[{"name":"y","parameters":{"binary_data_size":8}}]}12345678`), "62")
	f.Add([]byte(`{"outputs":[{"name":"y","data":[1]}]}`), "")
	f.Add([]byte(`{"error":"bad shape"}`), "21")
	for _, s := range loadScripts(f) {
		if s.Dialect == "kserve-infer" {
			f.Add(s.Body(), "111")
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, length string) {
		read := func(piece int) *answer {
			a := newAnswer(expectation{speaks: kserveInfer(), layout: inOnePiece})
			if length != "" {
				a.expectBinary(length)
			}
			for _, part := range scripttest.Cut(body, piece) {
				a.write(part, mark{1, 1})
			}
			a.close(mark{2, 2})
			return a
		}
		whole := read(0)
		checkAnswer(t, whole)
		sameAnswer(t, whole, read(1))
		if int64(len(whole.whole))+whole.beyond > int64(len(body)) {
			t.Fatalf("%d bytes became %d and %d", len(body), len(whole.whole), whole.beyond)
		}
		if o := whole.outcome(false); o.class == record.OK && !json.Valid(whole.whole) {
			t.Fatal("a success that is no JSON")
		}
	})
}

// FuzzNDJSON holds the line cutter against bytes.Split.
func FuzzNDJSON(f *testing.F) {
	for _, s := range loadScripts(f) {
		if s.Dialect == "ollama" {
			f.Add(s.Body(), 3)
		}
	}
	f.Add([]byte("\xef\xbb\xbf{}\r\n\n \n{\"a\":1}"), 1)
	f.Fuzz(func(t *testing.T, body []byte, piece int) {
		var want, got []string
		for i, line := range bytes.Split(body, []byte("\n")) {
			if i == 0 {
				line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			}
			if line = bytes.TrimSpace(line); len(line) > 0 {
				want = append(want, string(line))
			}
		}
		var p lines
		take := func(line []byte) bool {
			got = append(got, string(line))
			return true
		}
		for _, part := range scripttest.Cut(body, max(1, piece&0xff)) {
			if left, err := p.push(part, take); err != nil || left != 0 {
				t.Fatalf("left %d, %v", left, err)
			}
		}
		p.finish(take)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzWalk holds the walk against encoding/json: what is an object, what a string says, and what a member of it holds.
func FuzzWalk(f *testing.F) {
	for _, s := range []string{
		`{"a":"\u00e9\ud83d\ude00\n","a":"last"}`, `{"a":1e3,"b":[1,2,{"a":"no"}]}`, "{\"a\":\"\xff\"}", `{"\u0061":"escaped name"}`,
		`{"a":"\ud800"}`, `{"a":01}`, `{"a":"x"} {}`, `{"a":}`, `[1]`, `null`, ``, `{`, `{"a":"x",}`, `{"a":null}`, `{"b":{"a":"deep"}}`,
	} {
		f.Add([]byte(s))
	}
	for _, e := range eventOf() {
		f.Add([]byte(e))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var w walk
		var text []byte
		found := false
		w.open(data)
		object := w.is('{')
		w.object(func(name []byte) {
			if string(name) == "a" {
				s := w.text()
				text, found = s.appendTo(nil), s != nil
			}
		})
		ok := w.close() == nil && object
		var want map[string]json.RawMessage
		err := json.Unmarshal(data, &want)
		if ok != (err == nil && want != nil) {
			t.Fatalf("walk %t, encoding/json: %v", ok, err)
		}
		if !ok {
			return
		}
		var s string
		member, there := want["a"]
		is := there && len(member) > 0 && member[0] == '"'
		if is != found {
			t.Fatalf("member a: found %t, encoding/json %q", found, member)
		}
		if is && json.Unmarshal(member, &s) == nil && s != string(text) {
			t.Fatalf("text %q, encoding/json %q", text, s)
		}
	})
}
