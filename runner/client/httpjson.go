package client

import (
	"fmt"
	"strings"
)

// Pointers say where an answer of dialect http-json keeps what is measured, as JSON Pointers (RFC 6901) into each event or
// into the whole answer; dialect triton-generate takes NIn and NOut. An empty pointer is none.
type Pointers struct {
	// Text is the generated output: a string, or any value, which stands for itself. Empty: the whole answer.
	Text string
	// Finish is set once the answer is complete; its value is the finish reason.
	Finish string
	// Error holds something, anything but null, false and "", when the request failed.
	Error string
	// NIn and NOut are counts of tokens, of the answer so far.
	NIn, NOut string
}

// httpJSON is any service that takes and gives JSON over HTTP.
func httpJSON() *dialect {
	return &dialect{
		name: "http-json", path: "/", layout: inOnePiece, read: readPointers, marker: true, endless: true, anyJSON: true, verbatim: true,
		settings: settings{pointers: true, request: true},
	}
}

func readPointers(w *walk, e *event, how reading) {
	all := w.value()
	if w.err != nil {
		return
	}
	p := how.pointers
	if v, ok := how.find(all, p.error); ok {
		e.error(v)
	}
	out := e.part()
	switch v, ok := how.find(all, p.text); {
	case !ok || string(v) == "null":
	case v[0] == '"':
		out.text = v
	default:
		out.verbatim = v
	}
	if v, ok := how.find(all, p.finish); ok && v.set() {
		out.finish = v
		if v[0] != '"' {
			out.finish = raw(`"finished"`)
		}
	}
	how.counts(all, e)
}

// pointers are [Pointers] taken apart. A nil list of tokens is no pointer, an empty one the whole value.
type pointers struct {
	text, finish, error, nIn, nOut []string
}

// parsePointers checks and splits pointers.
func parsePointers(p Pointers) (*pointers, error) {
	out := new(pointers)
	for _, field := range []struct {
		name, pointer string
		to            *[]string
	}{{"text", p.Text, &out.text}, {"finish", p.Finish, &out.finish}, {"error", p.Error, &out.error}, {"n_in", p.NIn, &out.nIn}, {"n_out", p.NOut, &out.nOut}} {
		if field.pointer == "" {
			continue
		}
		if !strings.HasPrefix(field.pointer, "/") {
			return nil, fmt.Errorf("pointer %s %q: a JSON Pointer begins with /, such as /outputs/0/text", field.name, clean(field.pointer, 64))
		}
		for token := range strings.SplitSeq(field.pointer[1:], "/") {
			*field.to = append(*field.to, strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
		}
	}
	if out.text == nil {
		out.text = []string{}
	}
	return out, nil
}

// find follows a pointer; ok is false when there is no pointer or no such value. all must be JSON.
func (r reading) find(all raw, tokens []string) (v raw, ok bool) {
	if tokens == nil {
		return nil, false
	}
	for _, token := range tokens {
		if all, ok = r.step(all, token); !ok {
			return nil, false
		}
	}
	return all, true
}

// step finds one member or item.
func (r reading) step(all raw, token string) (v raw, ok bool) {
	w := r.finder
	w.open(all)
	if w.is('{') {
		w.object(func(name []byte) {
			if string(name) == token {
				v = w.value()
			}
		})
		return v, v != nil
	}
	index, number := digits(raw(token))
	if !number || token == "" || token[0] == '0' && token != "0" {
		return nil, false
	}
	w.array(func() {
		item := w.value()
		if index == 0 {
			v = item
		}
		index--
	})
	return v, v != nil
}

// counts reads the counts of tokens from where they were configured to be.
func (r reading) counts(all raw, e *event) {
	if r.pointers == nil {
		return
	}
	if v, ok := r.find(all, r.pointers.nIn); ok {
		e.usage.prompt, e.hasUsage = countOf(v), true
	}
	if v, ok := r.find(all, r.pointers.nOut); ok {
		e.usage.completion, e.hasUsage = countOf(v), true
	}
}
