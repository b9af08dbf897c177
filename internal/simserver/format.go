package simserver

import (
	"encoding/json"
	"strconv"
)

// dialect is what differs between the two inference endpoints.
type dialect struct {
	chat   bool
	prefix string // of the answer's id
	object string // of an answer
	chunk  string // of an event
	open   string // from the choice's index to the text of an event
	close  string // after that text
}

// The two endpoints.
func chatDialect() dialect {
	return dialect{
		chat: true, prefix: "chatcmpl-", object: "chat.completion", chunk: "chat.completion.chunk",
		open: `"delta":{"content":"`, close: `"}`,
	}
}

func completionDialect() dialect {
	return dialect{
		prefix: "cmpl-", object: "text_completion", chunk: "text_completion",
		open: `"text":"`, close: `"`,
	}
}

// form writes the events of one stream. What is the same in all of them is laid out once; a token costs two appends and
// no JSON encoder.
type form struct {
	api     dialect
	usage   usageMode
	head    []byte // to the choices
	prompt  int
	cached  int
	written int // tokens so far
}

func newForm(api dialect, c *call, id string, created int64) form {
	head := append([]byte(`data: {"id":"`), api.prefix...)
	head = append(head, id...)
	head = append(head, `","object":"`...)
	head = append(head, api.chunk...)
	head = append(head, `","created":`...)
	head = strconv.AppendInt(head, created, 10)
	head = append(head, `,"model":`...)
	head = append(head, quote(c.model)...)
	head = append(head, `,"choices":[`...)
	return form{api: api, usage: c.usage, head: head, prompt: c.prompt.tokens}
}

// role is the first event of a chat stream, which carries no text.
func (f *form) role(dst []byte) []byte {
	if !f.api.chat {
		return dst
	}
	dst = append(dst, f.head...)
	dst = append(dst, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	return f.end(dst, f.usage == usageEach)
}

// tokens is an event with the answer's tokens from f.written to upTo; finish is empty but in the last one.
func (f *form) tokens(dst []byte, upTo int, finish string, seed, hash uint64) []byte {
	dst = append(dst, f.head...)
	dst = append(dst, `{"index":0,`...)
	dst = append(dst, f.api.open...)
	for ; f.written < upTo; f.written++ {
		dst = appendToken(dst, seed, hash, f.written)
	}
	dst = append(dst, f.api.close...)
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	if finish == "" {
		dst = append(dst, `null}]`...)
	} else {
		dst = append(dst, '"')
		dst = append(dst, finish...)
		dst = append(dst, `"}]`...)
	}
	return f.end(dst, f.usage == usageEach)
}

// done is what follows the last token: usage if asked for, and the end marker.
func (f *form) done(dst []byte) []byte {
	if f.usage != usageNone {
		dst = append(dst, f.head...)
		dst = append(dst, ']')
		dst = f.end(dst, true)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

func (f *form) end(dst []byte, usage bool) []byte {
	if usage {
		dst = append(dst, `,"usage":`...)
		dst = appendUsage(dst, f.prompt, f.written, f.cached)
	}
	return append(dst, "}\n\n"...)
}

func appendUsage(dst []byte, prompt, output, cached int) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(prompt), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(prompt+output), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(output), 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, int64(cached), 10)
	return append(dst, `}}`...)
}

// whole is the answer that is not streamed, with its first n tokens.
func whole(api dialect, c *call, id string, created int64, n, cached int, seed uint64) []byte {
	dst := append([]byte(`{"id":"`), api.prefix...)
	dst = append(dst, id...)
	dst = append(dst, `","object":"`...)
	dst = append(dst, api.object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, created, 10)
	dst = append(dst, `,"model":`...)
	dst = append(dst, quote(c.model)...)
	dst = append(dst, `,"choices":[{"index":0,`...)
	open, shut := api.open, api.close
	if api.chat {
		open = `"message":{"role":"assistant","content":"`
	}
	dst = append(dst, open...)
	for i := range n {
		dst = appendToken(dst, seed, c.prompt.hash, i)
	}
	dst = append(dst, shut...)
	dst = append(dst, `,"logprobs":null,"finish_reason":"`...)
	dst = append(dst, c.finish...)
	dst = append(dst, `"}],"usage":`...)
	dst = appendUsage(dst, c.prompt.tokens, n, cached)
	return append(dst, '}')
}

// failure is an error object as vLLM's server writes it.
func failure(status int, kind, text string) []byte {
	data, err := json.Marshal(map[string]any{
		"error": map[string]any{"message": text, "type": kind, "param": nil, "code": status},
	})
	if err != nil {
		return []byte(`{"error":{"message":"unprintable"}}`) // strings and ints always marshal
	}
	return data
}

// quote writes a JSON string.
func quote(s string) []byte {
	data, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`) // a string always marshals
	}
	return data
}
