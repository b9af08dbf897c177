package client

import "bytes"

// lines cuts a body into the lines of newline-delimited JSON. It is pushed bytes as they come and hands on each line in the
// very call that brought its end. Blank lines are skipped. The zero value is ready; it is not safe for concurrent use.
type lines struct {
	line  []byte
	begun bool
	limit int
}

// push takes the next bytes. handle returns false to stop; push then reports how many bytes it did not look at.
func (p *lines) push(b []byte, handle func(line []byte) bool) (left int, err error) {
	limit := p.limit
	if limit == 0 {
		limit = maxEvent
	}
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		stretch := b
		if end >= 0 {
			stretch = b[:end]
		}
		if len(p.line)+len(stretch) > limit {
			return len(b), errEventTooLarge
		}
		if end < 0 {
			p.line = append(roomFor(p.line, len(b)), b...)
			return 0, nil
		}
		b = b[end+1:]
		line := stretch
		if len(p.line) > 0 {
			p.line = append(roomFor(p.line, len(stretch)), stretch...)
			line = p.line
		}
		more := p.endLine(line, handle)
		p.line = p.line[:0]
		if !more {
			return len(b), nil
		}
	}
	return 0, nil
}

// finish hands on a last line that lacks its end.
func (p *lines) finish(handle func(line []byte) bool) {
	if len(p.line) > 0 {
		p.endLine(p.line, handle)
		p.line = p.line[:0]
	}
}

func (p *lines) endLine(line []byte, handle func(line []byte) bool) (more bool) {
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return true
	}
	return handle(line)
}
