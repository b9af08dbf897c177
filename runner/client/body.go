package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// fields is a JSON body under construction. Encoding sorts its keys, so that equal bodies are equal bytes.
type fields map[string]any

// request completes a body with what the measurement needs and serialises it. What the caller has set stays, except stream
// and what follows from it.
func (c *Client) request(f fields, stream bool) (*Request, error) {
	stream = stream && c.streams()
	t := c.speaks.terms
	if _, set := f[t.model]; !set && t.model != "" && c.model != "" {
		f[t.model] = c.model
	}
	if t.stream != "" {
		f[t.stream] = stream
	}
	if c.speaks.complete != nil {
		c.speaks.complete(f, stream, &c.o)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	// A prompt's angle brackets are sent as they are: escaped, they would be other bytes than the source's.
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return nil, fmt.Errorf("request body: %w", err)
	}
	r := c.verbatim(bytes.TrimSuffix(b.Bytes(), []byte("\n")), stream)
	r.want.choices = max(f.integer(t.choices), 1)
	at := f.within(t.within)
	for _, name := range t.caps {
		r.want.maxTokens = max(r.want.maxTokens, at.integer(name))
	}
	return r, nil
}

// verbatim is a request with a body that is sent as it is.
func (c *Client) verbatim(body []byte, stream bool) *Request {
	stream = stream && c.streams()
	r := &Request{want: expectation{
		speaks: c.speaks, pointers: c.pointers, layout: c.layout(), stream: stream, perEvent: c.o.PerEventTokens, choices: 1,
		growing: c.o.TritonText == textWhole,
	}}
	if c.o.Method == http.MethodGet {
		body = nil
	}
	r.bodySHA, r.path = sha16(body), c.path(stream)
	r.Wire, r.Body = c.serialise(body, r.path)
	return r
}

// layout is how events are set apart: the dialect's way, or the configured one.
func (c *Client) layout() layout {
	switch c.o.Stream {
	case streamSSE:
		return inEvents
	case streamLines:
		return inLines
	default:
		return c.speaks.layout
	}
}

// streams reports whether answers can come as a stream.
func (c *Client) streams() bool { return c.layout() != inOnePiece }

// path is where an inference is asked for.
func (c *Client) path(stream bool) string {
	switch {
	case c.to.path != "":
		return c.to.path
	case c.o.Path != "":
		return c.o.Path
	default:
		return c.speaks.at(c.model, stream)
	}
}

// within is the object among the fields that has this name, made when there is none; the fields themselves for no name.
func (f fields) within(name string) fields {
	if name == "" {
		return f
	}
	switch inner := f[name].(type) {
	case fields:
		return inner
	case map[string]any:
		return inner
	}
	inner := fields{}
	f[name] = inner
	return inner
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
