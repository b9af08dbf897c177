package client

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// fields is a JSON body under construction. Encoding sorts its keys, so that equal bodies are equal bytes.
type fields map[string]any

// finish adds what the measurement needs, encodes the body and reads back what to expect of the answer. What the caller
// has set stays, except stream and what follows from it.
func (c *Client) finish(f fields, stream bool) (body []byte, want expectation, err error) {
	if _, set := f["model"]; !set && c.model != "" {
		f["model"] = c.model
	}
	f["stream"] = stream
	delete(f, "stream_options")
	if stream {
		options := fields{"include_usage": true}
		if c.o.PerEventTokens == perEventUsage {
			options["continuous_usage_stats"] = true
		}
		f["stream_options"] = options
	}
	if c.o.PerEventTokens == perEventLogprobs {
		if c.speaks.chat {
			f["logprobs"] = true
		} else {
			f["logprobs"] = 0
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	// A prompt's angle brackets are sent as they are: escaped, they would be other bytes than the source's.
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return nil, expectation{}, fmt.Errorf("request body: %w", err)
	}
	want = expectation{
		stream: stream, perEvent: c.o.PerEventTokens, choices: max(f.integer("n"), 1),
		maxTokens: max(f.integer("max_tokens"), f.integer("max_completion_tokens")),
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), want, nil
}

// integer is a whole number among the fields, 0 when there is none.
func (f fields) integer(key string) int {
	switch n := f[key].(type) {
	case int:
		return n
	case json.Number:
		if i, err := n.Int64(); err == nil && i > 0 && i < 1<<31 {
			return int(i)
		}
	}
	return 0
}

// parseFields reads a JSON object without losing digits.
func parseFields(data []byte) (fields, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var f fields
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("request body: %w", err)
	}
	if f == nil || d.More() {
		return nil, fmt.Errorf("request body: want one JSON object")
	}
	return f, nil
}
