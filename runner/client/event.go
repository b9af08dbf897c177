package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
)

var errNotJSON = errors.New("not a JSON object")

// chunkJSON is an event of openai-chat or openai-completions, or a whole answer of either: the fields we must know.
type chunkJSON struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Object  string          `json:"object"`
	Error   json.RawMessage `json:"error"`
	Message json.RawMessage `json:"message"`
	Choices []choiceJSON    `json:"choices"`
	Usage   *usageJSON      `json:"usage"`
}

type choiceJSON struct {
	Index int `json:"index"`
	// Delta is a part of the answer, Message the whole, Text either in openai-completions.
	Delta    *deltaJSON    `json:"delta"`
	Message  *deltaJSON    `json:"message"`
	Text     string        `json:"text"`
	Finish   string        `json:"finish_reason"`
	Logprobs *logprobsJSON `json:"logprobs"`
}

type deltaJSON struct {
	Content          string     `json:"content"`
	ReasoningContent string     `json:"reasoning_content"`
	Reasoning        string     `json:"reasoning"`
	Refusal          string     `json:"refusal"`
	ToolCalls        []toolJSON `json:"tool_calls"`
	Audio            *struct {
		Data string `json:"data"`
	} `json:"audio"`
}

type toolJSON struct {
	Index    int `json:"index"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// logprobsJSON is read for its lengths alone: one entry is one token.
type logprobsJSON struct {
	Content []skipped `json:"content"`
	Tokens  []skipped `json:"tokens"`
}

func (l *logprobsJSON) tokens() int {
	if l == nil {
		return 0
	}
	return max(len(l.Content), len(l.Tokens))
}

type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

type usageJSON struct {
	Prompt     count `json:"prompt_tokens"`
	Completion count `json:"completion_tokens"`
	PromptMore *struct {
		Cached count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionMore *struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// count is a number of tokens as a server wrote it. A negative, fractional or non-numeric one is bad, not an error: the
// text beside it is still good.
type count struct {
	n        int
	set, bad bool
}

// UnmarshalJSON never fails.
func (c *count) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || f < 0 || f != math.Trunc(f) || f > math.MaxInt32 {
		*c = count{set: true, bad: true}
		return nil //nolint:nilerr // a count that cannot be true is a fact about the answer, not an error
	}
	*c = count{n: int(f), set: true}
	return nil
}

// decodeChunk reads one JSON object. A known field of an unknown type is left empty: one odd field must not cost the
// event.
func decodeChunk(data []byte) (*chunkJSON, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return nil, errNotJSON
	}
	c := new(chunkJSON)
	if err := json.Unmarshal(data, c); err != nil {
		if _, odd := errors.AsType[*json.UnmarshalTypeError](err); !odd {
			return nil, errNotJSON
		}
	}
	return c, nil
}

// fault returns the error an event carries, cleaned. An error in the generated text is text.
func (c *chunkJSON) fault() (text string, is bool) {
	switch string(c.Error) {
	case "", "null", "false", `""`:
	default:
		return faultText(c.Error), true
	}
	if c.Object == "error" {
		return faultText(c.Message), true
	}
	return "", false
}

// faultText finds the message in what a server sent as an error: an object with a message, a string, or anything.
func faultText(raw []byte) string {
	var object struct {
		Message string          `json:"message"`
		Error   json.RawMessage `json:"error"`
		Detail  json.RawMessage `json:"detail"`
	}
	var text string
	switch {
	case json.Unmarshal(raw, &text) == nil:
	case json.Unmarshal(raw, &object) != nil:
		text = string(raw[:min(len(raw), 4*maxDetail)])
	case object.Message != "":
		text = object.Message
	case len(object.Error) > 0 && len(object.Error) < len(raw):
		return faultText(object.Error)
	case len(object.Detail) > 0 && len(object.Detail) < len(raw):
		return faultText(object.Detail)
	default:
		text = string(raw[:min(len(raw), 4*maxDetail)])
	}
	if text = clean(text, maxDetail); text == "" {
		return "error without a message"
	}
	return text
}

// maxDetail bounds the text of an outcome's detail, in bytes.
const maxDetail = 300
