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

// read reads the answer, from the status line to the end of the body. A connection it leaves clean goes back to the pool.
func (x *exchange) read() {
	if x.unread = x.readHead(); x.unread != nil {
		return
	}
	u := newUnframer(x.resp)
	clean, err := x.readBody(u)
	x.unread = err
	x.s.Reads, x.s.BytesIn = x.conn.last.read, x.conn.in
	if x.unread == nil && clean && !x.resp.Close && x.wrote == nil {
		x.keep()
	}
}

// readHead parses the response head. Informational answers are skipped.
func (x *exchange) readHead() error {
	for {
		//nolint:bodyclose // the body is read from the connection itself; closing it would wait for its end
		resp, err := http.ReadResponse(x.conn.br, &http.Request{Method: http.MethodPost})
		x.silent = x.conn.in == 0
		x.s.Reads, x.s.BytesIn = x.conn.last.read, x.conn.in
		if err != nil {
			return headError(err)
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return errors.New("the server switched protocols")
		}
		if resp.StatusCode < 200 {
			continue
		}
		x.resp, x.s.Header, x.s.Status = resp, x.conn.last.at, resp.StatusCode
		x.s.RequestID = cleanHeader(resp, "X-Request-Id")
		x.conn.headLeft = -1
		x.begin()
		return nil
	}
}

// headError undoes a habit of ReadResponse: it reports a connection that ended before the first byte as cut.
func headError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func cleanHeader(resp *http.Response, name string) string {
	return clean(resp.Header.Get(name), maxRequestID)
}

// begin decides from the head how the body is taken.
func (x *exchange) begin() {
	if x.resp.StatusCode < 200 || x.resp.StatusCode > 299 {
		x.ans.mode, x.watch.started = bodyDropped, true
		return
	}
	if enc := x.resp.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		x.ans.drop(fmt.Sprintf("compressed answer (%s) although identity was asked for", clean(enc, 32)))
		x.watch.started = true
	}
	if length := x.resp.Header.Get(binaryLength); length != "" && x.c.speaks.layout == inOnePiece && x.ans.mode == bodyWhole {
		x.ans.expectBinary(length)
	}
}

// readBody reads the body to its end, or to the end of the grace after the end marker. clean is true when the connection
// is where the next answer would begin.
func (x *exchange) readBody(u *unframer) (clean bool, err error) {
	for !u.over() {
		b, err := x.conn.next()
		if err != nil {
			return false, x.bodyError(u, err)
		}
		before := x.ans.events
		extra, err := u.push(b, x.take)
		x.ans.trailing += int64(extra)
		if x.trace != nil {
			x.trace.add(x.conn.last.at, len(b), x.ans.events-before)
		}
		if err != nil {
			return false, err
		}
		if extra > 0 {
			return false, nil
		}
		x.progress()
	}
	x.ans.close(x.conn.last)
	return x.conn.br.Buffered() == 0, nil
}

// take hands a stretch of the body on.
func (x *exchange) take(b []byte) {
	if x.ans.mode == bodyDropped && x.resp.StatusCode >= 400 && len(x.errorBody) < maxErrorBody {
		x.errorBody = append(x.errorBody, b[:min(len(b), maxErrorBody-len(x.errorBody))]...)
	}
	x.ans.write(b, x.conn.last)
}

// progress moves the limits on after a read.
func (x *exchange) progress() {
	if x.ans.payloads > 0 || x.ans.mode == bodyWhole || x.ans.mode == bodyDropped {
		x.watch.started = true
	}
	x.watch.payload = x.ans.last.at
	if x.ans.over.at.Reached() && !x.watch.grace.Reached() {
		x.watch.grace = x.conn.last.at + graceTicks
	}
}

// bodyError tells an end from a failure. After the end marker nothing that happens to the connection is a failure; after
// the last finish reason silence is none either.
func (x *exchange) bodyError(u *unframer, err error) error {
	over := x.ans.over.at.Reached()
	limit, limited := errors.AsType[*limitError](err)
	switch {
	case over:
		return nil
	case limited && limit.limit == "idle" && x.ans.finished.at.Reached():
		return nil
	case errors.Is(err, io.EOF) && u.kind == framedByClose:
		x.ans.close(x.conn.last)
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	default:
		return err
	}
}
