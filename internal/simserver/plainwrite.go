package simserver

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// outlet is the writing side of one connection. The connection's goroutine and, while a stream runs, the pacer use it, in
// turns.
type outlet struct {
	conn  net.Conn
	books *books
	buf   []byte
	done  chan error
}

func newOutlet(c net.Conn, b *books) *outlet {
	return &outlet{conn: c, books: b, buf: make([]byte, 0, 1024), done: make(chan error, 1)}
}

// whole sends an answer of ours that is no inference.
func (o *outlet) whole(kind string, body []byte) error {
	o.buf = fmt.Appendf(o.buf[:0], "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", kind, len(body))
	o.buf = append(o.buf, body...)
	_, err := o.conn.Write(o.buf)
	return err
}

// stampWidth is how many digits the text of an event has: CLOCK_MONOTONIC in ns, with leading zeros.
const stampWidth = 19

// putStamp writes a reading of the clock over the digits.
func putStamp(digits []byte, ns int64) {
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + ns%10)
		ns /= 10
	}
}

// infer answers an inference request.
func (s *plainServer) infer(q *plainRequest, out *outlet) error {
	call, err := parsePlain(q.body)
	run := q.run
	if run == "" {
		run = s.cfg.Plain.Keep
	}
	e := &entry{run: run, arrived: q.arrived, prompt: max(len(q.body)/4, 1)}
	s.books.begun(e)
	if err != nil {
		s.books.ended(e, "rejected")
		body := failure(http.StatusBadRequest, "BadRequestError", err.Error())
		out.buf = fmt.Appendf(out.buf[:0], "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
			e.id(), len(body), body)
		_, err = out.conn.Write(out.buf)
		return err
	}
	e.tokens = call.tokens(s.cfg.DefaultTokens)
	api := completionDialect()
	if bytes.HasSuffix(q.path, []byte("/chat/completions")) {
		api = chatDialect()
	}
	if !call.Stream {
		return s.answerWhole(api, e, out)
	}
	f := s.newFlow(api, e, call.StreamOptions.IncludeUsage, out)
	first := time.Duration(s.cfg.Plain.First)
	if q.first >= 0 {
		first = q.first
	}
	f.gap = int64(s.cfg.Plain.Gap)
	if q.gap >= 0 {
		f.gap = int64(q.gap)
	}
	f.due = q.arrived + int64(first)
	s.pacer.add(f)
	return <-out.done
}

// answerWhole sends the small answer at once. Its text is the instant before the write, once.
func (s *plainServer) answerWhole(api dialect, e *entry, out *outlet) error {
	open := api.open
	if api.chat {
		open = `"message":{"role":"assistant","content":"`
	}
	b := out.buf[:0]
	b = append(b, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: "...)
	b = e.appendID(b)
	b = append(b, "\r\nContent-Length:     \r\n\r\n"...)
	head := len(b)
	b = append(b, `{"id":"`...)
	b = e.appendID(b)
	b = append(b, `","object":"`...)
	b = append(b, api.object...)
	b = append(b, `","choices":[{"index":0,`...)
	b = append(b, open...)
	at := len(b)
	b = append(b, "0000000000000000000"...)
	b = append(b, api.close...)
	b = append(b, `,"finish_reason":"length"}],"usage":`...)
	b = appendUsage(b, e.prompt, e.tokens, 0)
	b = append(b, '}')
	size := strconv.Itoa(len(b) - head)
	copy(b[head-4-len(size):], size)
	out.buf = b
	now := s.clock.now()
	putStamp(b[at:at+stampWidth], now)
	e.wrote = append(e.wrote, now)
	_, err := out.conn.Write(b)
	s.books.bytesOut.Add(int64(len(b)))
	s.books.ended(e, outcomeOf(err))
	return err
}

func outcomeOf(err error) string {
	if err != nil {
		return "aborted"
	}
	return "ok"
}

// flow is a stream that the pacer writes.
type flow struct {
	e     *entry
	out   *outlet
	clock clock
	pacer *pacer
	gap   int64
	due   int64

	raw nonblocking
	// head goes out with the first event; event is the chunk of each, its digits at stamp.
	head, event, last []byte
	stamp, lastStamp  int
}

// newFlow lays out the bytes of a stream once, so that an event costs a stamp and a write.
func (s *plainServer) newFlow(api dialect, e *entry, usage bool, out *outlet) *flow {
	f := &flow{e: e, out: out, clock: s.clock, pacer: s.pacer, raw: newNonblocking(out.conn)}
	e.wrote = make([]int64, 0, e.tokens)
	f.head = append(f.head, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nX-Request-Id: "...)
	f.head = e.appendID(f.head)
	f.head = append(f.head, "\r\n\r\n"...)

	data := append([]byte(`data: {"id":"`), e.id()...)
	data = append(data, `","object":"`...)
	data = append(data, api.chunk...)
	data = append(data, `","choices":[{"index":0,`...)
	data = append(data, api.open...)
	at := len(data)
	data = append(data, "0000000000000000000"...)
	data = append(data, api.close...)
	data = append(data, `,"finish_reason":`...)

	f.event, f.stamp = chunk(append(bytes.Clone(data), "null}]}\n\n"...), at)
	data = append(data, "\"length\"}]}\n\n"...)
	if usage {
		data = append(data, `data: {"id":"`...)
		data = e.appendID(data)
		data = append(data, `","object":"`...)
		data = append(data, api.chunk...)
		data = append(data, `","choices":[],"usage":`...)
		data = append(appendUsage(data, e.prompt, e.tokens, 0), "}\n\n"...)
	}
	f.last, f.lastStamp = chunk(append(data, "data: [DONE]\n\n"...), at)
	f.last = append(f.last, "0\r\n\r\n"...)
	return f
}

// chunk frames data and says where a place in it went.
func chunk(data []byte, at int) (framed []byte, moved int) {
	framed = fmt.Appendf(nil, "%x\r\n", len(data))
	moved = len(framed) + at
	framed = append(framed, data...)
	return append(framed, "\r\n"...), moved
}

// step writes the next event with the reading of the clock just before. It reports whether the stream is over, or has
// left the pacer because its socket is full.
func (f *flow) step() (over bool) {
	b, at := f.event, f.stamp
	last := len(f.e.wrote)+1 >= f.e.tokens
	if last {
		b, at = f.last, f.lastStamp
	}
	if len(f.e.wrote) == 0 {
		f.out.buf = append(append(f.out.buf[:0], f.head...), b...)
		b, at = f.out.buf, len(f.head)+at
	}
	now := f.clock.now()
	putStamp(b[at:at+stampWidth], now)
	f.e.wrote = append(f.e.wrote, now)
	n, err := f.raw.write(b)
	f.out.books.bytesOut.Add(int64(n))
	switch {
	case err != nil:
		f.end(err)
		return true
	case n < len(b):
		f.pacer.stuck(f, bytes.Clone(b[n:]), last)
		return true
	case last:
		f.end(nil)
		return true
	}
	f.due += f.gap
	return false
}

// end closes the books on the stream and gives the connection back to its goroutine.
func (f *flow) end(err error) {
	f.out.books.ended(f.e, outcomeOf(err))
	f.out.done <- err
}
