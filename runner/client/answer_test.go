package client

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	helloEvent  = `data: {"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":null}]}` + "\n\n"
	finishEvent = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	doneEvent   = "data: [DONE]\n\n"
)

func usageEvent(usage string) string { return `data: {"choices":[],"usage":` + usage + "}\n\n" }

// Rule 24: a count that cannot be true costs the count, not the answer.
func TestCountsThatCannotBeTrue(t *testing.T) {
	for usage, want := range map[string]tally{
		`{"prompt_tokens":3,"completion_tokens":2}`:                                                    {in: new(3), out: new(2), from: record.FromUsage},
		`{"prompt_tokens":3,"completion_tokens":2.0}`:                                                  {in: new(3), out: new(2), from: record.FromUsage},
		`{"prompt_tokens":3,"completion_tokens":-1}`:                                                   {in: new(3), inconsistent: true},
		`{"prompt_tokens":3,"completion_tokens":1.5}`:                                                  {in: new(3), inconsistent: true},
		`{"prompt_tokens":3,"completion_tokens":"2"}`:                                                  {in: new(3), inconsistent: true},
		`{"prompt_tokens":3,"completion_tokens":9}`:                                                    {in: new(3), inconsistent: true},
		`{"prompt_tokens":3,"completion_tokens":0}`:                                                    {in: new(3), inconsistent: true},
		`{"prompt_tokens":-3,"completion_tokens":2}`:                                                   {inconsistent: true},
		`{"prompt_tokens":3,"completion_tokens":1e99}`:                                                 {in: new(3), inconsistent: true},
		`{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}`:        {in: new(3), inconsistent: true},
		`{"prompt_tokens":3,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1}}`: {in: new(3), out: new(2), reasoning: new(1), from: record.FromUsage},
		`{"prompt_tokens":3}`:                                                                          {in: new(3), from: record.Estimated},
		`"none"`:                                                                                       {from: record.Estimated},
		`null`:                                                                                         {from: record.Estimated},
	} {
		a := newAnswer(expectation{stream: true, maxTokens: 8})
		a.write([]byte(helloEvent+finishEvent+usageEvent(usage)+doneEvent), mark{1, 1})
		if diff := cmp.Diff(want, a.tally(), cmp.AllowUnexported(tally{})); diff != "" {
			t.Errorf("%s: %s", usage, diff)
		}
		if got := a.outcome(false); got.class != record.OK {
			t.Errorf("%s: %v", usage, got)
		}
	}
}

func TestTokensPerEvent(t *testing.T) {
	content := `{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[%s]}}]}`
	a := newAnswer(expectation{stream: true, perEvent: perEventLogprobs})
	a.write(fmt.Appendf(nil, "data: "+content+"\n\ndata: "+content+"\n\n", `{"token":"a","logprob":-1},{"token":"b"}`, `{}`), mark{1, 1})
	got := a.tally()
	if diff := cmp.Diff(tally{out: new(3), from: record.FromLogprobs, perEvent: []int{2, 1}}, got, cmp.AllowUnexported(tally{})); diff != "" {
		t.Error(diff)
	}

	// An event without a count makes all of them unknown: half a series is no series.
	a.write([]byte(helloEvent), mark{2, 2})
	if got := a.tally().perEvent; got != nil {
		t.Errorf("per event %v", got)
	}

	// A stream cut in the middle of running usage has what came so far.
	a = newAnswer(expectation{stream: true, perEvent: perEventUsage})
	a.write([]byte(`data: {"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"completion_tokens":4}}`+"\n\n"), mark{1, 1})
	if diff := cmp.Diff(tally{out: new(4), from: record.FromEventUsage, perEvent: []int{4}}, a.tally(), cmp.AllowUnexported(tally{})); diff != "" {
		t.Error(diff)
	}

	// text completions list their tokens
	a = newAnswer(expectation{stream: true, perEvent: perEventLogprobs})
	a.write([]byte(`data: {"choices":[{"index":0,"text":"xy","logprobs":{"tokens":["x","y"]}}]}`+"\n\n"), mark{1, 1})
	if got := a.tally(); got.out == nil || *got.out != 2 {
		t.Errorf("tally %+v", got)
	}
}

// Rule 23: what comes in place of a stream is read as a single answer if it is one.
func TestAnswersThatAreNoStream(t *testing.T) {
	for body, want := range map[string]outcome{
		`{"choices":[{"message":{"content":"A"},"finish_reason":"stop"}]}`: {class: record.OK},
		`<html>busy</html>`:                 {record.Malformed, "none of 1 events is JSON of dialect openai-chat"},
		`{"status":"ok"}`:                   {record.Malformed, "a JSON answer without anything that dialect openai-chat has"},
		`{"error":{"message":"no"}}`:        {record.StreamError, "no"},
		`{"object":"error","message":"no"}`: {record.StreamError, "no"},
		`[1]`:                               {record.Malformed, "none of 1 events is JSON of dialect openai-chat"},
		`{"choices":[]}`:                    {record.Malformed, "a JSON answer without anything that dialect openai-chat has"},
		`{"choices":[{"message":{}}]}`:      {record.EmptyOutput, "the answer holds no output"},
	} {
		a := newAnswer(expectation{stream: true})
		a.write([]byte("\n"+body), mark{5, 1})
		a.close(mark{7, 2})
		if diff := cmp.Diff(want, a.outcome(false), cmp.AllowUnexported(outcome{})); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
		if !a.notStreamed() || a.first.at.Reached() {
			t.Errorf("%s: not streamed %t, first %d", body, a.notStreamed(), a.first.at)
		}
	}
}

// A hostile answer may hold any index and any amount; what we keep is bounded.
func TestHostileAnswersAreBounded(t *testing.T) {
	a := newAnswer(expectation{stream: true})
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, `data: {"choices":[{"index":%d,"delta":{"tool_calls":[{"index":%d,"function":{"name":"x"}}]}}]}`+"\n\n", -i*1e6, i)
		fmt.Fprintf(&b, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"name":"x"}}]}}]}`+"\n\n", i)
	}
	a.write([]byte(b.String()), mark{1, 1})
	if len(a.choices) > maxChoices || len(a.choices[len(a.choices)-1].tools) > maxTools || !a.textCut {
		t.Errorf("%d choices, text cut %t", len(a.choices), a.textCut)
	}

	a = newAnswer(expectation{stream: true})
	big := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 1<<20) + `"}}]}` + "\n\n"
	for range 18 {
		a.write([]byte(big), mark{1, 1})
	}
	if a.kept > maxEvent || a.payloads != 18 || !a.textCut {
		t.Errorf("kept %d bytes of %d events", a.kept, a.payloads)
	}
	a = newAnswer(expectation{})
	for range 18 {
		a.write(make([]byte, 1<<20), mark{1, 1})
	}
	if got := a.outcome(false); got.class != record.Malformed || a.whole != nil {
		t.Errorf("outcome %v", got)
	}
}
