package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

func newWorkload(t *testing.T, m workload.Manifest, turns ...workload.Turn) *workload.Workload {
	t.Helper()
	m.Name = "t"
	if m.Output.DefaultTokens == 0 {
		m.Output.DefaultTokens = 8
	}
	for i := range turns {
		turns[i].N, turns[i].Conv = 1, turns[i].ID
	}
	w, err := workload.New(m, turns, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func offlineClient(t *testing.T, o Options) *Client {
	t.Helper()
	if o.URL == "" {
		o.URL = "http://127.0.0.1:8000"
	}
	o.Clock = record.NewClock()
	c, err := prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEncodeBodies(t *testing.T) {
	hi := &workload.Text{Inline: `say <hi> & "bye"`}
	seed, no := int64(7), false
	tests := []struct {
		name     string
		o        Options
		manifest workload.Manifest
		turn     workload.Turn
		want     string
	}{
		{
			"force, chat, defaults",
			Options{Model: "m"},
			workload.Manifest{},
			workload.Turn{ID: "a", Prompt: hi, Out: workload.Output{Mode: workload.Force, Tokens: 5}},
			`{"ignore_eos":true,"max_tokens":5,"messages":[{"role":"user","content":"say <hi> & \"bye\""}],"min_tokens":5,"model":"m","seed":0,"stream":true,"stream_options":{"include_usage":true},"temperature":0}`,
		},
		{
			"cap, completions, parameters",
			Options{Dialect: "openai-completions"},
			workload.Manifest{Dialect: "openai-completions", Params: workload.Params{Temperature: "0.70", TopP: "0.9", Seed: &seed}},
			workload.Turn{ID: "a", Prompt: hi, Out: workload.Output{Mode: workload.Cap, Tokens: 5}},
			`{"max_tokens":5,"prompt":"say <hi> & \"bye\"","seed":7,"stream":true,"stream_options":{"include_usage":true},"temperature":0.70,"top_p":0.9}`,
		},
		{
			"free: four times the planned p99; a turn without stream",
			Options{},
			workload.Manifest{},
			workload.Turn{ID: "a", Prompt: hi, Params: workload.Params{Stream: &no}, Out: workload.Output{Mode: workload.Free, Tokens: 5}},
			`{"max_tokens":20,"messages":[{"role":"user","content":"say <hi> & \"bye\""}],"seed":0,"stream":false,"temperature":0}`,
		},
		{
			"a whole body keeps its keys and its digits",
			Options{Model: "m", Settings: Settings{PerEventTokens: "usage"}},
			workload.Manifest{},
			workload.Turn{ID: "a", Body: &workload.Text{Inline: `{"top_k":1e2,"model":"own","stream":false,"temperature":0.25,"max_tokens":3}`}, Out: workload.Output{Mode: workload.Cap, Tokens: 5}},
			`{"max_tokens":3,"model":"own","seed":0,"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"temperature":0.25,"top_k":1e2}`,
		},
		{
			"logprobs",
			Options{Settings: Settings{PerEventTokens: "logprobs"}, NoStream: true},
			workload.Manifest{},
			workload.Turn{ID: "a", Prompt: &workload.Text{Inline: "x"}, Out: workload.Output{Mode: workload.Cap, Tokens: 5}},
			`{"logprobs":true,"max_tokens":5,"messages":[{"role":"user","content":"x"}],"seed":0,"stream":false,"temperature":0}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorkload(t, tt.manifest, tt.turn)
			plan, err := w.Plan(w.Span(), w.Span())
			if err != nil {
				t.Fatal(err)
			}
			r, err := offlineClient(t, tt.o).Encode(3, w, plan.Measured[0])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(r.Body)); diff != "" {
				t.Error(diff)
			}
			if r.Seq != 3 || r.Phase != record.PhaseMeasure || r.bodySHA != sha16(r.Body) {
				t.Errorf("request %+v", r)
			}
			checkWire(t, r)
		})
	}
}

// checkWire reads a request back as a server would.
func checkWire(t *testing.T, r *Request) {
	t.Helper()
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(r.Wire)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil || !bytes.Equal(body, r.Body) {
		t.Errorf("body %q, %v", body, err)
	}
	if !json.Valid(body) {
		t.Errorf("body is not JSON: %s", body)
	}
	if got := req.Header.Get("Accept-Encoding"); got != "identity" {
		t.Errorf("Accept-Encoding %q", got)
	}
	if req.Header.Get("Idempotency-Key") != "" || req.Method != http.MethodPost {
		t.Errorf("%s with %v", req.Method, req.Header)
	}
}

// The port differs between rounds; the body, which the wire digest covers, must not.
func TestBodiesDoNotNameThePort(t *testing.T) {
	w := newWorkload(t, workload.Manifest{}, workload.Turn{ID: "a", Prompt: &workload.Text{Inline: "x"}})
	turn := workload.Request{Turn: &w.Turns[0]}
	a, err := offlineClient(t, Options{URL: "http://127.0.0.1:8001"}).Encode(0, w, turn)
	if err != nil {
		t.Fatal(err)
	}
	b, err := offlineClient(t, Options{URL: "http://127.0.0.1:8002"}).Encode(0, w, turn)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Body, b.Body) {
		t.Errorf("bodies differ:\n%s\n%s", a.Body, b.Body)
	}
	if bytes.Equal(a.Wire, b.Wire) {
		t.Error("the Host header does not name the port")
	}
}

func TestEncodeRefuses(t *testing.T) {
	w := newWorkload(t, workload.Manifest{},
		workload.Turn{ID: "chat", Messages: []workload.TurnMessage{{Role: "user", Content: workload.Text{Inline: "x"}}}})
	_, err := offlineClient(t, Options{Dialect: "openai-completions"}).Encode(0, w, workload.Request{Turn: &w.Turns[0]})
	if err == nil || !strings.Contains(err.Error(), "turn chat: it has chat messages") {
		t.Errorf("error %v", err)
	}
	if _, err := checkOf(w, &workload.Turn{}, &workload.Assertion{EqualsRecorded: true}); err == nil {
		t.Error("equals_recorded without a reply was taken")
	}
	if _, err := checkOf(w, &workload.Turn{}, &workload.Assertion{}); err == nil {
		t.Error("an assertion that checks nothing was taken")
	}
}

// Every kind of assertion becomes a check that can pass and can fail.
func TestAssertions(t *testing.T) {
	two, three, yes := 2, 3, true
	recorded := &workload.Turn{Reply: &workload.Reply{Text: &workload.Text{Inline: `{"a":[1.0,2]}`}}}
	tests := []struct {
		assertion workload.Assertion
		wrong     string
	}{
		{workload.Assertion{Finish: []string{"stop", "length"}}, ""},
		{workload.Assertion{Finish: []string{"length"}}, "finish"},
		{workload.Assertion{MinTokens: &two}, ""},
		{workload.Assertion{MinTokens: &three}, "min_tokens: 2 tokens"},
		{workload.Assertion{MaxTokens: &two}, ""},
		{workload.Assertion{MaxTokens: new(1)}, "max_tokens"},
		{workload.Assertion{Contains: `"a"`}, ""},
		{workload.Assertion{Contains: "b"}, "contains"},
		{workload.Assertion{Regexp: `^\{.*\}$`}, ""},
		{workload.Assertion{Regexp: "^x"}, "regexp"},
		{workload.Assertion{JSON: true}, ""},
		{workload.Assertion{Status: 200}, ""},
		{workload.Assertion{Status: 201}, "status 200"},
		{workload.Assertion{EqualsRecorded: true}, ""},
		{workload.Assertion{Pointer: &workload.Pointer{Path: "/a/0", Equals: "1"}}, ""},
		{workload.Assertion{Pointer: &workload.Pointer{Path: "/a/0", Equals: "2"}}, "another value"},
		{workload.Assertion{Pointer: &workload.Pointer{Path: "/a", Shape: []int{2}}}, ""},
		{workload.Assertion{Pointer: &workload.Pointer{Path: "/a", Shape: []int{3}}}, "shape"},
		{workload.Assertion{Pointer: &workload.Pointer{Path: "/a/1", Min: "1.5", Max: "2"}}, ""},
		{workload.Assertion{Pointer: &workload.Pointer{Path: "/a/1", Min: "2.5"}}, "below 2.5"},
		{workload.Assertion{Pointer: &workload.Pointer{Path: "/a/1", Max: "1"}}, "above 1"},
		{workload.Assertion{Pointer: &workload.Pointer{Path: "/a/1", Type: "number"}}, ""},
		{workload.Assertion{Pointer: &workload.Pointer{Path: "/a/1", Type: "string"}}, "type number"},
		{workload.Assertion{Pointer: &workload.Pointer{Path: "/b", Exists: &yes}}, "exists"},
		{workload.Assertion{Pointer: &workload.Pointer{Path: "/a/7", Type: "number"}}, "no such value"},
	}
	a := &answer{choices: []choice{{text: []byte(`{"a":[1.0,2]}`), finish: "stop"}}}
	for _, tt := range tests {
		c, err := checkOf(&workload.Workload{}, recorded, &tt.assertion)
		if err != nil {
			t.Errorf("%+v: %v", tt.assertion, err)
			continue
		}
		results, failed := runChecks([]check{c}, a, tally{out: new(2)}, 200)
		if (failed == "") != (tt.wrong == "") || !strings.Contains(failed, tt.wrong) || results[0].OK != (tt.wrong == "") {
			t.Errorf("%+v: failed %q, want %q; results %v", tt.assertion, failed, tt.wrong, results)
		}
	}
	if _, failed := runChecks([]check{jsonCheck()}, &answer{}, tally{}, 200); failed == "" {
		t.Error("no text was valid JSON")
	}
	if _, failed := runChecks([]check{tokensCheck("min_tokens", 0, func(int, int) bool { return true })}, a, tally{}, 200); failed == "" {
		t.Error("an unknown count passed a check of it")
	}
}
