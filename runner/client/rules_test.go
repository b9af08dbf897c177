package client

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// ruleCase is one of the parser rules of docs and issue 4, as a body and what must be seen of it.
type ruleCase struct {
	rule          int
	dialect, body string
	class         record.Outcome
	// seen is what [summary] says of the answer.
	seen string
}

// summary puts what the rules are about into one line.
func summary(a *answer) string {
	text := ""
	for i := range a.choices {
		c := &a.choices[i]
		text += fmt.Sprintf(" %d[%s%s%s]%s", c.index, c.text, marked("~", c.reasoning), marked("!", c.refusal), c.finish)
		for _, k := range c.tools {
			text += fmt.Sprintf("+%s(%s)", k.name, k.arguments)
		}
	}
	t := a.tally()
	return strings.TrimSpace(fmt.Sprintf("%d/%d bad %d utf8 %d unknown %d trailing %d out %s%s %s",
		a.payloads, a.events, a.bad, a.badUTF8, a.unknown, a.trailing, orNA(t.out, "%d"), text, strings.Join(a.flags(t), " ")))
}

func marked(sign string, b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return sign + string(b)
}

func chatEvent(delta, finish string) string {
	if finish != "null" {
		finish = `"` + finish + `"`
	}
	return `data: {"choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}` + "\n\n"
}

func ruleCases() []ruleCase {
	a, fin := chatEvent(`{"content":"A"}`, "null"), chatEvent(`{}`, "stop")
	use := usageEvent(`{"prompt_tokens":1,"completion_tokens":1}`)
	ok := a + fin + use + doneEvent
	const good = "1/3 bad 0 utf8 0 unknown 0 trailing 0 out 1 0[A]stop"
	chat := "openai-chat"
	return []ruleCase{
		{1, chat, strings.ReplaceAll(ok, "\n", "\r\n"), record.OK, good},
		{1, chat, strings.ReplaceAll(ok, "\n", "\r"), record.OK, good},
		{2, chat, strings.ReplaceAll(ok, "data: ", "data:"), record.OK, good},
		{2, chat, strings.Replace(ok, `{"choices":[`, "{\"choices\":\ndata:[", 1), record.OK, good},
		{3, chat, "\ufeffid: 1\nretry: 5\nx: y\n" + ok, record.OK, good},
		{4, chat, ": ping\n\n:\n\n\n" + ok, record.OK, good},
		{5, chat, chatEvent(`{"content":"\u00e9 你😀"}`, "stop") + use + doneEvent, record.OK, "1/2 bad 0 utf8 0 unknown 0 trailing 0 out 1 0[é 你😀]stop"},
		{6, chat, chatEvent("{\"content\":\"a\xffb\"}", "stop") + use + doneEvent, record.OK, "1/2 bad 0 utf8 1 unknown 0 trailing 0 out 1 0[a\ufffdb]stop"},
		{8, chat, "data: nonsense\n\n" + ok, record.OK, "1/4 bad 1 utf8 0 unknown 0 trailing 0 out 1 0[A]stop"},
		{8, chat, "data: nonsense\n\ndata: [1]\n\n" + doneEvent, record.Malformed, "0/2 bad 2 utf8 0 unknown 0 trailing 0 out n/a no_finish_reason"},
		{8, chat, a + fin + "data: [DONE]", record.OK, "1/2 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[A]stop no_done_marker"},
		{9, chat, chatEvent(`{"role":"assistant","content":""}`, "null") + chatEvent(`{"content":null}`, "null") + ok, record.OK, "1/5 bad 0 utf8 0 unknown 0 trailing 0 out 1 0[A]stop"},
		{9, chat, chatEvent(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}`, "null") + chatEvent(`{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`, "tool_calls") + doneEvent, record.OK, "2/2 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[]tool_calls+f({})"},
		{9, chat, chatEvent(`{"refusal":"no"}`, "stop") + doneEvent, record.OK, "1/1 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[!no]stop"},
		{9, chat, chatEvent(`{"audio":{"data":"AAAA"}}`, "stop") + doneEvent, record.OK, "1/1 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[]stop"},
		{9, "tgi", "data:{\"token\":{\"text\":\"A\",\"special\":false}}\n\ndata:{\"token\":{\"text\":\"</s>\",\"special\":true},\"generated_text\":\"A\",\"details\":{\"finish_reason\":\"eos_token\",\"generated_tokens\":2}}\n\n", record.OK, "1/2 bad 0 utf8 0 unknown 0 trailing 0 out 2 0[A]eos_token"},
		{11, chat, "data: {\"choices\":null}\n\ndata: {\"choices\":[]}\n\ndata: {}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":null}]}\n\n" + ok, record.OK, "1/7 bad 0 utf8 0 unknown 0 trailing 0 out 1 0[A]stop"},
		{12, chat, `data: {"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}` + "\n\n" + `data: {"choices":[],"usage":null}` + "\n\n" + doneEvent, record.OK, "1/2 bad 0 utf8 0 unknown 0 trailing 0 out 1 0[A]stop"},
		{13, chat, `data: {"choices":[{"index":1,"delta":{"content":"B"},"finish_reason":"stop"},{"index":0,"delta":{"content":"A"},"finish_reason":"stop"}]}` + "\n\n" + doneEvent, record.OK, "1/1 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[A]stop 1[B]stop"},
		{14, chat, chatEvent(`{"reasoning_content":"r","reasoning":"\u0072"}`, "null") + chatEvent(`{"reasoning":"s"}`, "stop") + doneEvent, record.OK, "2/2 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[~rs]stop reasoning_only"},
		{15, chat, a + "data: {\"error\":\"gone\"}\n\n" + doneEvent, record.StreamError, "1/2 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[A] no_finish_reason"},
		{15, chat, a + "event: error\ndata: gone\n\n", record.StreamError, "1/2 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[A]"},
		{15, chat, a + "error: {\"message\":\"gone\"}\n\n", record.StreamError, "1/2 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[A]"},
		{15, chat, chatEvent(`{"content":"{\"error\":1}"}`, "stop") + use + doneEvent, record.OK, "1/2 bad 0 utf8 0 unknown 0 trailing 0 out 1 0[{\"error\":1}]stop"},
		{16, chat, a + fin + use, record.OK, good + " no_done_marker"},
		{16, chat, a + use + doneEvent, record.OK, "1/2 bad 0 utf8 0 unknown 0 trailing 0 out 1 0[A] no_finish_reason"},
		{17, chat, a, record.Truncated, "1/1 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[A]"},
		{18, chat, ok + "data: x\n\n", record.OK, "1/3 bad 0 utf8 0 unknown 0 trailing 9 out 1 0[A]stop"},
		{19, chat, doneEvent, record.EmptyOutput, "0/0 bad 0 utf8 0 unknown 0 trailing 0 out n/a no_finish_reason"},
		{19, chat, "", record.EmptyOutput, "0/0 bad 0 utf8 0 unknown 0 trailing 0 out n/a"},
		{19, chat, chatEvent(`{"role":"assistant"}`, "stop") + doneEvent, record.EmptyOutput, "0/1 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[]stop"},
		{20, "ollama", "{\"message\":{\"content\":\"A\"}}\r\n\n \n{\"message\":{\"content\":\"B\"}}\n{\"done\":true,\"done_reason\":\"stop\",\"eval_count\":2}", record.OK, "2/3 bad 0 utf8 0 unknown 0 trailing 0 out 2 0[AB]stop"},
		{21, chat, "event: ping\ndata: {\"x\":1}\n\ndata: {\"object\":\"other\"}\n\n" + ok, record.OK, "1/5 bad 0 utf8 0 unknown 2 trailing 0 out 1 0[A]stop"},
		{23, chat, `{"choices":[{"message":{"content":"A"},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}`, record.OK, "0/1 bad 0 utf8 0 unknown 0 trailing 0 out 1 0[A]stop not_streamed"},
		{23, chat, "<html>busy</html>", record.Malformed, "0/1 bad 1 utf8 0 unknown 0 trailing 0 out n/a not_streamed"},
		{24, chat, a + fin + usageEvent(`{"completion_tokens":-1}`) + doneEvent, record.OK, "1/3 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[A]stop usage_inconsistent"},
		{24, chat, a + fin + usageEvent(`{"completion_tokens":1.5}`) + doneEvent, record.OK, "1/3 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[A]stop usage_inconsistent"},
		{24, chat, a + fin + usageEvent(`{"completion_tokens":9}`) + doneEvent, record.OK, "1/3 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[A]stop usage_inconsistent"},
		{24, chat, a + fin + usageEvent(`{"completion_tokens":0}`) + doneEvent, record.OK, "1/3 bad 0 utf8 0 unknown 0 trailing 0 out n/a 0[A]stop usage_inconsistent"},
	}
}

// TestRules holds the parser rules that are about the bytes of a body, each with the body cut in two at every byte and in
// single bytes. (Rules 7 and 25 are TestEventLimit and the fuzz targets; 10 and 22 need reads and headers: the scripts.)
func TestRules(t *testing.T) {
	for i, tt := range ruleCases() {
		t.Run(fmt.Sprintf("rule %d, case %d", tt.rule, i), func(t *testing.T) {
			want := streamed(t, tt.dialect, 8)
			want.maxTokens = 8
			body := []byte(tt.body)
			read := func(how string, parts ...[]byte) {
				a := newAnswer(want)
				for _, part := range parts {
					a.write(part, mark{1, 1})
				}
				a.close(mark{2, 2})
				checkAnswer(t, a)
				if o := a.outcome(false); o.class != tt.class || summary(a) != tt.seen {
					t.Fatalf("%s: %s %s\n got %s\nwant %s", how, o.class, o.detail, summary(a), tt.seen)
				}
			}
			for at := range len(body) + 1 {
				read(fmt.Sprintf("cut at %d", at), body[:at], body[at:])
			}
			read("in bytes", cutUp(tt.body, 1)...)
		})
	}
}
