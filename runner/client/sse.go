package client

import (
	"bytes"
	"errors"
)

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
	for len(b) > 0 {
		if p.swallowLF {
			p.swallowLF = false
			if b[0] == '\n' {
				b = b[1:]
				continue
			}
		}
		end := bytes.IndexAny(b, "\r\n")
		if end < 0 {
			return 0, p.keep(b)
		}
		line := b[:end]
		p.swallowLF = b[end] == '\r'
		b = b[end+1:]
		if err := p.room(len(p.line) + len(line)); err != nil {
			return len(b), err
		}
		if len(p.line) > 0 {
			p.line = append(p.line, line...)
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
	p.line = append(p.line, b...)
	return nil
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
		if p.hasData {
			p.data = append(p.data, '\n')
		}
		p.data, p.hasData = append(p.data, value...), true
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
