package client

import (
	"bytes"
	"errors"
	"slices"
)

// longLine is the length from which a line is not worth copying.
const longLine = 16 << 10

// maxEvent bounds one event, and whatever else a single answer makes us hold, in bytes.
const maxEvent = 16 << 20

var errEventTooLarge = errors.New("event too large")

// sseEvent is one complete event. Its slices are valid until the handler returns.
type sseEvent struct {
	// data is the joined data lines, without a final LF.
	data []byte
	// kind is the value of the event field, "" when there was none.
	kind string
	// fault is the value of a field line "error:", which some servers send in place of data; nil when there was none.
	fault []byte
}

// sse cuts a body into server-sent events. It is pushed bytes as they come and hands on each event in the very call that
// brought its last byte. The zero value is ready; it is not safe for concurrent use.
//
// Lines end with LF, CRLF or CR. A CR ends its line at once, since waiting for a possible LF would delay the event until
// the next read; the LF, if it comes, is swallowed then.
type sse struct {
	line, data, fault []byte
	kind              string
	hasData, hasFault bool
	swallowLF, begun  bool
	limit             int
}

// push takes the next bytes. handle returns false to stop; push then reports how many bytes it did not look at.
func (p *sse) push(b []byte, handle func(sseEvent) bool) (left int, err error) {
	// lf is where the next LF of b is, len(b) when there is none, negative when that has to be looked for.
	lf := -1
	for len(b) > 0 {
		if p.swallowLF {
			p.swallowLF = false
			if b[0] == '\n' {
				b, lf = b[1:], lf-1
				continue
			}
		}
		if lf < 0 {
			if lf = bytes.IndexByte(b, '\n'); lf < 0 {
				lf = len(b)
			}
		}
		end := lf
		if cr := bytes.IndexByte(b[:lf], '\r'); cr >= 0 {
			end = cr
		}
		if end == len(b) {
			return 0, p.keep(b)
		}
		line := b[:end]
		p.swallowLF = b[end] == '\r'
		b, lf = b[end+1:], lf-end-1
		if err := p.room(len(p.line) + len(line)); err != nil {
			return len(b), err
		}
		if len(p.line) > 0 {
			p.line = append(roomFor(p.line, len(line)), line...)
			line = p.line
		}
		more := p.endLine(line, handle)
		p.line = p.line[:0]
		if !more {
			return p.rest(b), nil
		}
	}
	return 0, nil
}

// rest counts the bytes after the event that stopped the parser; the LF of a CRLF still belongs to that event.
func (p *sse) rest(b []byte) int {
	if len(b) == 0 || !p.swallowLF {
		return len(b)
	}
	// Only the very next byte can be that LF, whichever read brings it.
	p.swallowLF = false
	if b[0] == '\n' {
		return len(b) - 1
	}
	return len(b)
}

func (p *sse) keep(b []byte) error {
	if err := p.room(len(p.line) + len(b)); err != nil {
		return err
	}
	p.line = append(roomFor(p.line, len(b)), b...)
	return nil
}

// roomFor makes room for n more bytes by doubling: what grows by a read at a time would else be copied over and over.
func roomFor(b []byte, n int) []byte {
	if n <= cap(b)-len(b) {
		return b
	}
	return slices.Grow(b, max(n, len(b)))
}

// room fails when a line of n bytes on top of the event's data would pass the limit. The whole line counts, so that it does
// not matter how it was cut.
func (p *sse) room(n int) error {
	limit := p.limit
	if limit == 0 {
		limit = maxEvent
	}
	if n+len(p.data)+len(p.fault) > limit {
		return errEventTooLarge
	}
	return nil
}

func (p *sse) endLine(line []byte, handle func(sseEvent) bool) (more bool) {
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if len(line) == 0 {
		return p.dispatch(handle)
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		switch {
		case p.hasData:
			p.data = append(append(p.data, '\n'), value...)
		case len(p.line) > longLine:
			// The line is the parser's own: it becomes the data, and its buffer that of the lines to come.
			p.data, p.line = value, p.data[:0]
		default:
			p.data = append(p.data, value...)
		}
		p.hasData = true
	case "event":
		p.kind = clean(value, 64)
	case "error":
		p.fault, p.hasFault = append(p.fault[:0], value...), true
	}
	return true
}

// dispatch hands on what the blank line completed. An event whose data is empty is a ping under another name.
func (p *sse) dispatch(handle func(sseEvent) bool) (more bool) {
	more = true
	if p.hasFault || len(p.data) > 0 {
		ev := sseEvent{data: p.data, kind: p.kind}
		if p.hasFault {
			ev.fault = p.fault
		}
		more = handle(ev)
	}
	p.data, p.fault, p.kind, p.hasData, p.hasFault = p.data[:0], p.fault[:0], "", false, false
	return more
}
