package client

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// Each dialect gets what the workload says in its own words: path, prompt, cap, forced length, sampling.
func TestEncodeDialects(t *testing.T) {
	hi := &workload.Text{Inline: "hi"}
	plan := func(mode workload.OutputMode) workload.Turn {
		return workload.Turn{ID: "a", Prompt: hi, Out: workload.Output{Mode: mode, Tokens: 5}}
	}
	whole := workload.Turn{ID: "a", Body: &workload.Text{Inline: `{"inputs":[{"name":"x","data":[1.50]}]}`}}
	warm := plan(workload.Cap)
	warm.Params = workload.Params{Temperature: "0.7", TopP: "0.9"}
	tests := []struct {
		name string
		o    Options
		turn workload.Turn
		path string
		want string
	}{
		{"cap field", Options{Settings: Settings{CapField: "max_completion_tokens"}}, plan(workload.Cap), "/v1/chat/completions", `{"max_completion_tokens":5,"messages":[{"role":"user","content":"hi"}],"seed":0,"stream":true,"stream_options":{"include_usage":true},"temperature":0}`},
		{"both cap fields, forced", Options{Settings: Settings{CapField: "both"}, NoStream: true}, plan(workload.Force), "/v1/chat/completions", `{"ignore_eos":true,"max_completion_tokens":5,"max_tokens":5,"messages":[{"role":"user","content":"hi"}],"min_tokens":5,"seed":0,"stream":false,"temperature":0}`},
		{"ollama", Options{Dialect: "ollama", Model: "m"}, plan(workload.Cap), "/api/chat", `{"messages":[{"role":"user","content":"hi"}],"model":"m","options":{"num_predict":5,"seed":0,"temperature":0},"stream":true}`},
		{"ollama with a prompt", Options{Dialect: "ollama", Model: "m", Settings: Settings{Path: "/api/generate"}}, plan(workload.Cap), "/api/generate", `{"model":"m","options":{"num_predict":5,"seed":0,"temperature":0},"prompt":"hi","stream":true}`},
		{"tgi", Options{Dialect: "tgi"}, plan(workload.Cap), "/generate_stream", `{"inputs":"hi","parameters":{"details":true,"do_sample":false,"max_new_tokens":5,"seed":0}}`},
		{"tgi, sampling, one piece", Options{Dialect: "tgi", NoStream: true}, warm, "/generate", `{"inputs":"hi","parameters":{"details":true,"do_sample":true,"max_new_tokens":5,"seed":0,"temperature":0.7,"top_p":0.9}}`},
		{"kserve-infer", Options{Dialect: "kserve-infer", Model: "my model/1"}, plan(workload.Cap), "/v2/models/my%20model%2F1/infer", `{"id":"a","inputs":[{"data":["hi"],"datatype":"BYTES","name":"text_input","shape":[1]}]}`},
		{"kserve-infer, own tensors", Options{Dialect: "kserve-infer", Model: "m"}, whole, "/v2/models/m/infer", `{"id":"a","inputs":[{"data":[1.50],"name":"x"}]}`},
		{"triton-generate", Options{Dialect: "triton-generate", Model: "m"}, plan(workload.Cap), "/v2/models/m/generate_stream", `{"max_tokens":5,"seed":0,"stream":true,"temperature":0,"text_input":"hi"}`},
		{"triton-generate, one piece", Options{Dialect: "triton-generate", Model: "m", NoStream: true}, plan(workload.Cap), "/v2/models/m/generate", `{"max_tokens":5,"seed":0,"stream":false,"temperature":0,"text_input":"hi"}`},
		{"llamacpp", Options{Dialect: "llamacpp"}, plan(workload.Force), "/completion", `{"cache_prompt":true,"ignore_eos":true,"n_predict":5,"prompt":"hi","seed":0,"stream":true,"temperature":0}`},
		{"http-json sends bodies as they are", Options{Dialect: "http-json", Model: "m", Settings: Settings{Path: "/score"}}, workload.Turn{ID: "a", Body: &workload.Text{Inline: `[1.50, {"z":1,"a":2}]`}}, "/score", `[1.50, {"z":1,"a":2}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorkload(t, workload.Manifest{}, tt.turn)
			p, err := w.Plan(w.Span(), w.Span())
			if err != nil {
				t.Fatal(err)
			}
			r, err := offlineClient(t, tt.o).Encode(0, w, p.Measured[0])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(r.Body)); diff != "" {
				t.Error(diff)
			}
			if !strings.HasPrefix(string(r.Wire), "POST "+tt.path+" HTTP/1.1\r\n") {
				t.Errorf("%.60q", r.Wire)
			}
			checkWire(t, r)
		})
	}
}

func TestGetHasNoBody(t *testing.T) {
	w := newWorkload(t, workload.Manifest{}, workload.Turn{ID: "a", Body: &workload.Text{Inline: `{}`}})
	c := offlineClient(t, Options{Dialect: "http-json", Settings: Settings{Method: http.MethodGet, Path: "/x?y=1"}})
	r, err := c.Encode(0, w, workload.Request{Turn: &w.Turns[0]})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(r.Wire), "GET /x?y=1 HTTP/1.1\r\n") || len(r.Body) != 0 || strings.Contains(string(r.Wire), "Content-") {
		t.Errorf("%q", r.Wire)
	}
}

// A setting that does nothing hides a mistake.
func TestSettingsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		dialect string
		s       Settings
		want    string
	}{
		{"tgi", Settings{CapField: "max_tokens"}, "dialect tgi has no such setting"},
		{"openai-chat", Settings{CapField: "max"}, "want one of both, max_tokens, max_completion_tokens"},
		{"ollama", Settings{PerEventTokens: "usage"}, "no such setting"},
		{"openai-chat", Settings{TritonText: "whole"}, "no such setting"},
		{"triton-generate", Settings{TritonText: "all"}, "want one of delta, whole"},
		{"openai-chat", Settings{Stream: "sse"}, "no such setting"},
		{"http-json", Settings{Stream: "ws"}, "want one of none, sse, ndjson"},
		{"http-json", Settings{Method: "DELETE"}, "want one of POST, PUT, GET"},
		{"http-json", Settings{Path: "x"}, "begins with /"},
		{"http-json", Settings{Path: "/x HTTP/1.1\r\nA: b"}, "no blanks"},
		{"http-json", Settings{Pointers: Pointers{Text: "text"}}, "a JSON Pointer begins with /"},
		{"openai-chat", Settings{Pointers: Pointers{NIn: "/n"}}, "fields of its own"},
		{"triton-generate", Settings{Pointers: Pointers{Text: "/t"}}, "n_in and n_out, only"},
		{"smtp", Settings{}, "known: openai-chat, openai-completions, ollama"},
		{"triton-generate", Settings{TritonText: "whole", Pointers: Pointers{NOut: "/n"}}, ""},
		{"openai-chat", Settings{PerEventTokens: "none", CapField: "both"}, ""},
		{"ollama", Settings{PerEventTokens: "none", Stream: "none"}, ""},
		{"", Settings{}, ""},
	} {
		err := tt.s.Check(tt.dialect)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %+v: %v, want %q", tt.dialect, tt.s, err, tt.want)
		}
	}
}

// dialectCase is a body and what is to be read of it.
type dialectCase struct {
	name, dialect, body string
	want                func(*expectation)
	class               record.Outcome
	text, finish        string
	in, out, cached     int
	from                record.TokenSource
	flags               []string
}

// What the scripts of testdata do not show: whole answers, older servers, odd counts. -1 is n/a.
func dialectCases() []dialectCase {
	plain := func(e *expectation) { e.stream = false }
	return []dialectCase{
		{"ollama in one piece", "ollama", `{"model":"m","message":{"content":"AB"},"done":true,"done_reason":"stop","eval_count":2,"prompt_eval_count":7}`, plain, record.OK, "AB", "stop", 7, 2, -1, record.FromUsage, nil},
		{"ollama that does not stream", "ollama", `{"message":{"content":"AB"},"done":true,"done_reason":"stop","eval_count":2}` + "\n", nil, record.OK, "AB", "stop", -1, 2, -1, record.FromUsage, []string{FlagNotStreamed}},
		{"ollama, last line without its end", "ollama", `{"message":{"content":"A"},"done":false}` + "\n" + `{"message":{"content":""},"done":true,"done_reason":"stop","eval_count":1}`, nil, record.OK, "A", "stop", -1, 1, -1, record.FromUsage, nil},
		{"ollama, last line cut", "ollama", `{"message":{"content":"A"},"done":false}` + "\n" + `{"message":{"content":""},"do`, nil, record.Truncated, "A", "", -1, -1, -1, record.Estimated, nil},
		{"ollama calls a tool", "ollama", `{"message":{"content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},"done":false}` + "\n" + `{"message":{"content":""},"done":true,"done_reason":"stop","eval_count":9}`, nil, record.OK, "", "stop", -1, 9, -1, record.FromUsage, nil},
		{"ollama, nothing said", "ollama", `{"message":{"content":""},"done":true,"done_reason":"load"}` + "\n", nil, record.EmptyOutput, "", "load", -1, -1, -1, "", nil},
		{"ollama, a web page", "ollama", "<html>\n<p>busy\n", nil, record.Malformed, "", "", -1, -1, -1, "", []string{FlagNotStreamed}},
		{"tgi in one piece", "tgi", `{"generated_text":"AB","details":{"finish_reason":"length","generated_tokens":2,"input_length":6}}`, plain, record.OK, "AB", "length", 6, 2, -1, record.FromUsage, nil},
		{"tgi without details counts its events", "tgi", "data:{\"token\":{\"text\":\"A\",\"special\":false},\"generated_text\":null}\n\ndata:{\"token\":{\"text\":\"</s>\",\"special\":true},\"generated_text\":\"A\"}\n\n", nil, record.OK, "A", "", -1, 2, -1, record.FromEventUsage, []string{FlagNoFinishReason}},
		{"triton in one piece", "triton-generate", `{"model_name":"m","text_output":"AB"}`, plain, record.OK, "AB", "", -1, -1, -1, record.Estimated, nil},
		{"triton, each event holds all", "triton-generate", "data: {\"text_output\":\"A\"}\n\ndata: {\"text_output\":\"AB\"}\n\ndata: {\"text_output\":\"AB\"}\n\n", func(e *expectation) { e.growing = true }, record.OK, "AB", "", -1, -1, -1, record.Estimated, nil},
		{"llamacpp in one piece", "llamacpp", `{"content":"AB","stop":true,"stop_type":"limit","tokens_predicted":2,"tokens_evaluated":6,"tokens_cached":7,"timings":{"prompt_n":2,"prompt_ms":1.5,"predicted_ms":3}}`, plain, record.OK, "AB", "limit", 6, 2, 4, record.FromUsage, nil},
		{"llamacpp of old", "llamacpp", "data: {\"content\":\"A\",\"stop\":false}\n\ndata: {\"content\":\"\",\"stop\":true,\"stopped_eos\":true,\"stopped_word\":false,\"tokens_predicted\":1,\"tokens_evaluated\":6,\"truncated\":true}\n\n", nil, record.OK, "A", "eos", 6, 1, -1, record.FromUsage, []string{FlagContextCut}},
		{"llamacpp, cached as it says", "llamacpp", "data: {\"content\":\"A\",\"stop\":true,\"stop_type\":\"eos\",\"tokens_predicted\":1,\"tokens_evaluated\":6,\"timings\":{\"cache_n\":3,\"prompt_n\":3}}\n\n", nil, record.OK, "A", "eos", 6, 1, 3, record.FromUsage, nil},
		{"chat with a finish and no usage", "openai-chat", helloEvent + finishEvent + doneEvent, nil, record.OK, "A", "stop", -1, -1, -1, record.Estimated, nil},
		{"kserve without outputs", "kserve-infer", `{"model_name":"m","outputs":[]}`, plain, record.EmptyOutput, "", "", -1, -1, -1, "", nil},
		{"kserve, something else", "kserve-infer", `{"status":"ok"}`, plain, record.Malformed, "", "", -1, -1, -1, "", nil},
		{"kserve, an error in a 200", "kserve-infer", `{"error":"bad shape"}`, plain, record.StreamError, "", "", -1, -1, -1, "", nil},
	}
}

func TestDialectsRead(t *testing.T) {
	for _, tt := range dialectCases() {
		t.Run(tt.name, func(t *testing.T) {
			want := streamed(t, tt.dialect, 8)
			if tt.want != nil {
				tt.want(&want)
			}
			for _, piece := range []int{0, 1} {
				a := readAnswer([]byte(tt.body), piece, want)
				checkAnswer(t, a)
				tokens, o := a.tally(), a.outcome(false)
				if o.class != tt.class {
					t.Fatalf("class %s: %s, want %s", o.class, o.detail, tt.class)
				}
				text, finish := "", ""
				if len(a.choices) > 0 {
					text, finish = string(a.choices[0].text), a.choices[0].finish
				}
				for _, c := range []struct {
					what string
					want int
					got  *int
				}{{"in", tt.in, tokens.in}, {"out", tt.out, tokens.out}, {"cached", tt.cached, tokens.cached}} {
					if (c.want < 0) != (c.got == nil) || c.got != nil && *c.got != c.want {
						t.Errorf("tokens %s: want %d, got %v", c.what, c.want, c.got)
					}
				}
				if text != tt.text || finish != tt.finish || tokens.from != tt.from {
					t.Errorf("text %q, finish %q, counts from %q", text, finish, tokens.from)
				}
				if diff := cmp.Diff(tt.flags, a.flags(tokens)); diff != "" {
					t.Error(diff)
				}
				if want.stream && tt.flags == nil && a.payloads == 0 != a.empty() {
					t.Errorf("%d payload events, empty %t", a.payloads, a.empty())
				}
			}
		})
	}
}

// The raw tensors behind the JSON are counted against what the tensors announce, and never kept.
func TestKServeBinary(t *testing.T) {
	body := `{"outputs":[{"name":"y","parameters":{"binary_data_size":8}}]}`
	for _, tt := range []struct {
		length, raw string
		class       record.Outcome
		detail      string
	}{
		{"62", "12345678", record.OK, ""},
		{"62", "1234567", record.Malformed, "announce 8 bytes of binary data, 7 came"},
		{"62", "123456789", record.Malformed, "9 came"},
		{"61", "12345678", record.Malformed, "none of 1 events"},
		{"1000", "12345678", record.Malformed, "the JSON part alone was to be 1000"},
		{"many", "12345678", record.Malformed, "not a length"},
		{"-1", "12345678", record.Malformed, "not a length"},
		{"", "12345678", record.Malformed, "none of 1 events"},
	} {
		for _, piece := range []int{0, 1} {
			a := newAnswer(expectation{speaks: kserveInfer(), layout: inOnePiece})
			if tt.length != "" {
				a.expectBinary(tt.length)
			}
			for _, part := range cutUp(body+tt.raw, piece) {
				a.write(part, mark{1, 1})
			}
			a.close(mark{2, 2})
			o := a.outcome(false)
			if o.class != tt.class || !strings.Contains(o.detail, tt.detail) || len(a.whole) > len(body)+len(tt.raw) {
				t.Errorf("%+v: %v", tt, o)
			}
		}
	}
}

// What http-json reads is where the pointers say.
func TestPointersOfHTTPJSON(t *testing.T) {
	p := Pointers{Text: "/out/0/te~1xt", Finish: "/done", Error: "/err", NIn: "/u/in", NOut: "/u/out"}
	for _, tt := range []struct {
		body, stream string
		p            Pointers
		class        record.Outcome
		text, finish string
		out          int
	}{
		{`{"out":[{"te/xt":"AB"}],"done":"stop","err":null,"u":{"in":3,"out":2}}`, "", p, record.OK, "AB", "stop", 2},
		{`{"out":[{"te/xt":"AB"}],"done":true,"err":"","u":{"in":3,"out":2.5}}`, "", p, record.OK, "AB", "finished", -1},
		{`{"out":[],"err":false}`, "", p, record.EmptyOutput, "", "", -1},
		{`{"out":[],"err":{"message":"no"}}`, "", p, record.StreamError, "", "", -1},
		{`[0.5,0.25]`, "", Pointers{}, record.OK, `[0.5,0.25]`, "", -1},
		{`[[0.5,0.25]]`, "", Pointers{Text: "/0/1"}, record.OK, `0.25`, "", -1},
		{`[[0.5,0.25]]`, "", Pointers{Text: "/0/01"}, record.EmptyOutput, "", "", -1},
		{`{"a":1`, "", Pointers{}, record.Malformed, "", "", -1},
		{``, "", Pointers{}, record.EmptyOutput, "", "", -1},
		{"data: {\"t\":\"A\",\"n\":1}\n\ndata: {\"t\":\"B\",\"n\":2}\n\n", "sse", Pointers{Text: "/t", NOut: "/n"}, record.OK, "AB", "", 2},
		{"data: {\"t\":\"A\"}\n\ndata: [DONE]\n\n", "sse", Pointers{Text: "/t"}, record.OK, "A", "", -1},
		{"{\"t\":\"A\"}\n{\"t\":\"B\"}\n", "ndjson", Pointers{Text: "/t"}, record.OK, "AB", "", -1},
		{"{\"t\":\"A\"}\n{\"e\":\"broken\"}\n", "ndjson", Pointers{Text: "/t", Error: "/e"}, record.StreamError, "A", "", -1},
	} {
		c := offlineClient(t, Options{Dialect: "http-json", Settings: Settings{Stream: tt.stream, Pointers: tt.p}})
		want := c.verbatim(nil, true).want
		if want.stream != (tt.stream != "") {
			t.Errorf("stream %q: expects a stream %t", tt.stream, want.stream)
		}
		a := readAnswer([]byte(tt.body), 0, want)
		checkAnswer(t, a)
		o, tokens, text, finish := a.outcome(false), a.tally(), "", ""
		if len(a.choices) > 0 {
			text, finish = string(a.choices[0].text), a.choices[0].finish
		}
		if o.class != tt.class || text != tt.text || finish != tt.finish {
			t.Errorf("%s: %v, text %q, finish %q", tt.body, o, text, finish)
		}
		if (tokens.out == nil) != (tt.out < 0) || tokens.out != nil && *tokens.out != tt.out {
			t.Errorf("%s: tokens %v, want %d", tt.body, tokens.out, tt.out)
		}
	}
}

// Tokens of each event: given by the dialect, or asked for. What is counted and never shown may be left over.
func TestTokensOfEachEvent(t *testing.T) {
	llama := func(counts ...string) string {
		var b strings.Builder
		for _, n := range counts {
			b.WriteString(`data: {"content":"x","stop":false,"tokens_predicted":` + n + "}\n\n")
		}
		return b.String() + `data: {"content":"","stop":true,"stop_type":"eos","tokens_predicted":7,"tokens_evaluated":1}` + "\n\n"
	}
	for _, tt := range []struct {
		name, dialect, body string
		want                []int
	}{
		{"running counts", "llamacpp", llama("1", "3", "6"), []int{1, 2, 3}},
		{"counts that fall", "llamacpp", llama("3", "1", "6"), nil},
		{"more than the whole", "llamacpp", llama("1", "3", "9"), nil},
		{"one event without a count", "llamacpp", llama("1", "null", "6"), nil},
		{"one token each", "tgi", "data:{\"token\":{\"text\":\"A\"}}\n\ndata:{\"token\":{\"text\":\"B\"},\"generated_text\":\"AB\",\"details\":{\"finish_reason\":\"length\",\"generated_tokens\":2}}\n\n", []int{1, 1}},
		{"none", "ollama", `{"message":{"content":"A"}}` + "\n" + `{"message":{"content":""},"done":true,"eval_count":1}` + "\n", nil},
	} {
		a := readAnswer([]byte(tt.body), 0, streamed(t, tt.dialect, 8))
		if diff := cmp.Diff(tt.want, a.tally().perEvent); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// The server's own times are kept and are no part of a latency.
func TestServerTimes(t *testing.T) {
	a := readAnswer([]byte(`{"message":{"content":"A"},"done":false}`+"\n"+`{"message":{"content":""},"done":true,"load_duration":250000000,"prompt_eval_duration":0,"eval_duration":9}`+"\n"), 0, streamed(t, "ollama", 8))
	if diff := cmp.Diff(record.ServerTimes{Load: new(int64(250e6)), Prompt: new(int64(0)), Decode: new(int64(9))}, a.times.record()); diff != "" {
		t.Error(diff)
	}
	a = readAnswer([]byte(`data: {"content":"A","stop":true,"timings":{"prompt_ms":1.5,"predicted_ms":-1}}`+"\n\n"), 0, streamed(t, "llamacpp", 8))
	if diff := cmp.Diff(record.ServerTimes{Prompt: new(int64(1.5e6))}, a.times.record()); diff != "" {
		t.Error(diff)
	}
}
