package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxErrorBody is how much of an error's body is looked at.
const maxErrorBody = 64 << 10

// maxHeadReads is how many reads a head may take before it is left to net/http, which looks at each byte once.
const maxHeadReads = 8

// read reads the answer, from the status line to the end of the body. A connection it leaves clean goes back to the pool.
func (x *exchange) read() {
	x.unread = x.readHead()
	x.silent = x.conn.in == 0
	clean := false
	if x.unread == nil {
		x.begin()
		clean, x.unread = x.readBody()
	}
	x.s.Reads, x.s.BytesIn = x.conn.last.read, x.conn.in
	if x.unread == nil && clean && !x.head.close && x.wrote == nil {
		x.keep()
	}
}

// readHead parses the response head. Informational answers are skipped.
func (x *exchange) readHead() error {
	left := maxHead
	for {
		h, err := x.conn.nextHead(&left)
		switch {
		case err != nil:
			return headError(err)
		case h.status == http.StatusSwitchingProtocols:
			return errors.New("the server switched protocols")
		case h.status < 200:
			continue
		}
		x.head, x.s.Header, x.s.Status = h, x.conn.last.at, h.status
		x.s.RequestID = clean(h.requestID, maxRequestID)
		return nil
	}
}

// nextHead reads one response head, at most left bytes.
func (c *conn) nextHead(left *int) (head, error) {
	for range maxHeadReads {
		if c.lo < c.hi {
			h, n, v := parseHead(c.page[c.lo:c.hi])
			switch {
			case v == plainHead:
				c.lo += n
				*left -= n
				return h, nil
			case v == oddHead, c.hi == pageSize:
				return c.readOddHead(left)
			}
		}
		if c.fill() != nil {
			break
		}
	}
	// An error of the connection comes back from there, unless what came before it is one of its own.
	return c.readOddHead(left)
}

// headError undoes a habit of ReadResponse: it reports a connection that ended before the first byte as cut.
func headError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// begin decides from the head how the body is taken.
func (x *exchange) begin() {
	x.body = unframer{kind: x.head.kind, left: max(x.head.length, 0)}
	if x.head.status < 200 || x.head.status > 299 {
		x.ans.mode, x.watch.started = bodyDropped, true
		return
	}
	if enc := x.head.encoding; enc != "" && !strings.EqualFold(enc, "identity") {
		x.ans.drop(fmt.Sprintf("compressed answer (%s) although identity was asked for", clean(enc, 32)))
		x.watch.started = true
	}
	if length := x.head.binary; length != "" && x.c.speaks.layout == inOnePiece && x.ans.mode == bodyWhole {
		x.ans.expectBinary(length)
	}
}

// readBody reads the body to its end, or to the end of the grace after the end marker. clean is true when the connection
// is where the next answer would begin.
func (x *exchange) readBody() (clean bool, err error) {
	u := &x.body
	clean = true
	for !u.over() {
		b, err := x.conn.next()
		if err != nil {
			return false, x.bodyError(err)
		}
		before := x.ans.events
		extra, err := u.push(b, x.taking)
		x.ans.trailing += int64(extra)
		if x.trace != nil {
			x.trace.add(x.conn.last.at, len(b), x.ans.events-before)
		}
		if err != nil {
			return false, x.bodyError(err)
		}
		clean = extra == 0
		x.progress(x.conn.last)
	}
	x.ans.close(x.conn.last)
	return clean && x.conn.lo == x.conn.hi, nil
}

// take hands a stretch of the body on.
func (x *exchange) take(b []byte) { x.takeAt(b, x.conn.last) }

func (x *exchange) takeAt(b []byte, at mark) {
	if x.ans.mode == bodyDropped && x.head.status >= 400 && len(x.errorBody) < maxErrorBody {
		x.errorBody = append(x.errorBody, b[:min(len(b), maxErrorBody-len(x.errorBody))]...)
	}
	x.ans.write(b, at)
}

// progress moves the limits on after a read.
func (x *exchange) progress(read mark) {
	if x.ans.payloads > 0 || x.ans.mode == bodyWhole || x.ans.mode == bodyDropped {
		x.watch.started = true
	}
	x.watch.payload = x.ans.last.at
	if x.ans.over.at.Reached() && !x.watch.grace.Reached() {
		x.watch.grace = read.at + graceTicks
		if x.r.Ended != nil && !x.body.over() {
			x.settle(x.ans.tally())
		}
	}
}

// bodyError tells an end from a failure. After the end marker nothing that happens to the connection is a failure; after
// the last finish reason silence is none either.
func (x *exchange) bodyError(err error) error {
	over := x.ans.over.at.Reached()
	limit, limited := errors.AsType[*limitError](err)
	switch {
	case over:
		return nil
	case limited && limit.limit == "idle" && x.ans.finished.at.Reached():
		return nil
	case errors.Is(err, io.EOF) && x.body.kind == framedByClose:
		x.ans.close(x.conn.last)
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	default:
		return err
	}
}
