package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// chunkRoom is how much one read of a stream may bring. The buffer is held while a stream waits.
	chunkRoom = 16 << 10
	// maxCarriers is how many connections may be gone when a request comes to them before it is given up; maxQueues is how many
	// may go while it waits there for a stream.
	maxCarriers = 3
	maxQueues   = 100
	// sentTime bounds the wait for the word that a request whose answer is over was written whole.
	sentTime = time.Second
	// beginTime is how long a request that was called off may take to show that it had begun to be written.
	beginTime = 10 * time.Millisecond
)

var chunks = sync.Pool{New: func() any { return new([chunkRoom]byte) }}

// runStream is run over HTTP/2.
func (x *exchange) runStream(release <-chan record.Instant) {
	picked := x.waitForDial(release)
	if x.unsent.class != "" {
		return
	}
	k, err := x.board()
	connected := x.c.o.Clock.Now()
	if !picked && !x.waitForPick(release) {
		return
	}
	for carriers, queues := 0, 0; err == nil; {
		sent, queued := x.stream(k, connected)
		if sent {
			return
		}
		// Nothing was written, so another connection is no second attempt.
		if queued {
			queues++
		} else {
			carriers++
		}
		if carriers == maxCarriers || queues == maxQueues {
			err = errGone
			break
		}
		k, err = x.board()
		connected = x.c.o.Clock.Now()
	}
	x.unconnected(err)
}

// board seeks a connection.
func (x *exchange) board() (*carrier, error) {
	k, d, fresh, err := x.c.trunk.connect(x.watch.ctx)
	x.s.Reused, x.s.DialNS, x.s.TLSNS = !fresh, 0, 0
	if fresh {
		x.s.DialNS, x.s.TLSNS = int64(d.dial), int64(d.tls)
	}
	if err != nil {
		x.s.Reused = false
		return nil, err
	}
	if fresh && !x.uncounted {
		x.c.dials.Add(1)
		x.c.dialledIn(d.dial)
	}
	return k, nil
}

// stream sends the request as a stream of its own and reads the answer. It returns false, with nothing written, when the
// connection takes no more requests; queued says that it went while the request waited for a stream.
func (x *exchange) stream(k *carrier, connected record.Instant) (sent, queued bool) {
	clock := x.c.o.Clock
	ctx, cancel := context.WithCancel(x.watch.ctx)
	defer cancel()
	limits := newAlarm(clock, cancel)
	defer limits.stop()
	limits.set(x.watch.due())
	waited, err := k.acquire(ctx)
	switch {
	case errors.Is(err, errGone):
		return false, waited
	case err != nil:
		x.unread = x.whyEnded(err, limits, fmt.Sprintf(", waiting for one of the %d streams that the server allows at a time", k.skim.streams.Load()))
		return true, false
	}
	if waited {
		connected = clock.Now()
	}
	x.s.Conn = max(x.s.Slot, connected)
	out := newOutgoing(x.r.Body, clock)
	req, err := x.c.streamed(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: out.begin, WroteRequest: out.wrote}), x.r, out)
	if err != nil {
		k.cc.Release()
		x.unread = err
		return true, false
	}
	x.attempted()
	resp, err := k.cc.RoundTrip(req)
	if err != nil && !out.begun(ctx) {
		x.unattempted()
		if ctx.Err() == nil && k.gone() {
			return false, false
		}
	}
	if err == nil {
		x.readStream(resp, limits)
		out.wait(sentTime)
	}
	x.settleSent(out)
	if err != nil {
		x.unread = x.whyEnded(err, limits, "")
		x.brokenOff(err)
	}
	return true, false
}

// streamed is a request as net/http takes it. It cannot be made again: the body has no second copy.
func (c *Client) streamed(ctx context.Context, r *Request, body *outgoing) (*http.Request, error) {
	u, err := url.ParseRequestURI(r.path)
	if err != nil {
		return nil, err
	}
	u.Scheme, u.Host = "http", c.to.hostPort
	if c.to.tls {
		u.Scheme = "https"
	}
	h := http.Header{"User-Agent": {"tailgate"}, "Accept-Encoding": {"identity"}}
	maps.Copy(h, c.o.Header)
	req := &http.Request{Method: cmp.Or(c.o.Method, http.MethodPost), URL: u, Header: h, Host: c.to.hostPort}
	if req.Method != http.MethodGet {
		h["Content-Type"] = []string{"application/json"}
		req.Body, req.ContentLength = body, int64(len(r.Body))
	}
	return req.WithContext(ctx), nil
}

// unattempted takes back attempted: the connection had gone, or the time had passed, before anything was written.
func (x *exchange) unattempted() {
	if x.uncounted {
		return
	}
	x.s.Attempts--
	x.c.attempts.Add(-1)
	if x.s.Reused {
		x.c.reuses.Add(-1)
	}
}

// settleSent notes what is known of the sending. Between the write and its stamp another thread may have read the answer:
// what is answered was written.
func (x *exchange) settleSent(out *outgoing) {
	at, taken := out.result()
	if at.Reached() && x.s.Header.Reached() {
		at = min(at, x.s.Header)
	}
	x.s.Wrote, x.s.BytesOut = at, taken
}

// brokenOff marks a request that failed while it was written, unless the server said why or we ended it.
func (x *exchange) brokenOff(err error) {
	var fault *streamError
	var limit *limitError
	var cut *cancelError
	if x.s.Wrote.Reached() || errors.As(x.unread, &fault) || errors.As(x.unread, &limit) || errors.As(x.unread, &cut) {
		return
	}
	x.wrote, x.watch.refused = err, x.c.o.Clock.Now()
}

// readStream reads the answer to the end of its stream, or to the end of the grace after the end marker.
func (x *exchange) readStream(resp *http.Response, limits *alarm) {
	clock := x.c.o.Clock
	last := mark{clock.Now(), 1}
	x.silent, x.watch.read = false, last.at
	x.head = head{
		status: resp.StatusCode, kind: framedByClose, length: resp.ContentLength, encoding: resp.Header.Get("Content-Encoding"),
		requestID: resp.Header.Get(headerRequestID), location: resp.Header.Get("Location"), binary: resp.Header.Get(binaryLength),
	}
	x.s.Header, x.s.Status, x.s.RequestID = last.at, resp.StatusCode, clean(x.head.requestID, maxRequestID)
	x.begin()
	buf := chunks.Get().(*[chunkRoom]byte)
	for {
		due, limit := x.watch.due()
		limits.set(due, limit)
		n, err := resp.Body.Read(buf[:])
		last = mark{clock.Now(), last.read + 1}
		if last.at >= due && limits.rang() == "" && x.watch.ctx.Err() == nil {
			// The alarm rings late on a busy machine; what came after a limit is late all the same.
			x.unread = x.bodyError(&limitError{limit})
			break
		}
		if n > 0 {
			x.watch.read = last.at
			x.s.BytesIn += int64(n)
			before := x.ans.events
			x.takeAt(buf[:n], last)
			if x.trace != nil {
				x.trace.add(last.at, n, x.ans.events-before)
			}
			x.progress(last)
		}
		if errors.Is(err, io.EOF) {
			x.ans.close(last)
			break
		}
		if err != nil {
			x.unread = x.bodyError(x.whyEnded(err, limits, ""))
			break
		}
	}
	chunks.Put(buf)
	x.s.Reads = last.read
	_ = resp.Body.Close()
}

// whyEnded says why a stream ended before its time. while is added to a limit that passed.
func (x *exchange) whyEnded(err error, limits *alarm, while string) error {
	if limit := limits.rang(); limit != "" {
		return &limitError{limit + while}
	}
	if x.watch.ctx.Err() != nil {
		return &cancelError{context.Cause(x.watch.ctx)}
	}
	if f := faultOf(err); f != nil {
		return f
	}
	return err
}

// streamError is an end of a stream that HTTP/1.1 has no words for.
type streamError struct {
	// refused: the server says that it did not take the request. goAway: because it was leaving.
	refused, goAway bool
	text            string
}

func (f *streamError) Error() string { return f.text }

// outcome classifies the fault. A cut stream is what a closed connection is in HTTP/1.1, so that one failure of a server has
// one class; a server that leaves as we ask is one that closes a kept-alive connection.
func (f *streamError) outcome(reused bool) outcome {
	detail := clean(f.text, maxDetail)
	switch {
	case f.goAway && f.refused && reused:
		return outcome{record.ConnStale, detail}
	case f.refused:
		return outcome{record.ConnReset, detail}
	default:
		return outcome{record.UnexpectedEOF, detail}
	}
}

// resetError has the fields by which net/http shows its own error of a stream to others.
type resetError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e resetError) Error() string { return fmt.Sprintf("stream %d: code %d", e.StreamID, e.Code) }

// codeRefused is REFUSED_STREAM: the server did nothing with the request.
const codeRefused = 7

// codes are the error codes of RFC 9113, section 7.
var codes = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
	"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

func codeName(code uint32) string {
	if int(code) < len(codes) {
		return codes[code]
	}
	return fmt.Sprintf("code %d", code)
}

// fromPeer is the cause of a reset that the server sent; others come from what it sent amiss.
const fromPeer = "received from peer"

// faultOf recognises the ends of streams among the errors of net/http; nil for any other.
func faultOf(err error) *streamError {
	text := err.Error()
	if reset, is := errors.AsType[resetError](err); is {
		if reset.Cause == nil || reset.Cause.Error() != fromPeer {
			return nil
		}
		name := codeName(reset.Code)
		if reset.Code == codeRefused {
			return &streamError{refused: true, text: "RST_STREAM " + name + ": the server did not take the request; it is not sent again"}
		}
		return &streamError{text: "the server cut the stream: RST_STREAM " + name}
	}
	switch {
	case !strings.Contains(text, "GOAWAY"):
		return nil
	case strings.Contains(text, "closed the connection"):
		return &streamError{text: "the server closed the connection: " + text}
	default:
		return &streamError{refused: true, goAway: true, text: "GOAWAY: the server left as the request was sent and did not take it; it is not sent again"}
	}
}

// outgoing is the body of a request on its way, and what is known of its way. It is read and stamped by goroutines of
// net/http, which may outlive the exchange.
type outgoing struct {
	clock record.Clock
	body  []byte
	// taken counts the bytes that were taken to be written.
	taken atomic.Int64
	// head is closed once the head was written.
	head chan struct{}
	// at is when the last byte was accepted, 0 when it was not; done is closed once that is settled.
	at   atomic.Int64
	done chan struct{}
	once sync.Once
	open sync.Once
}

func newOutgoing(body []byte, clock record.Clock) *outgoing {
	return &outgoing{clock: clock, body: body, head: make(chan struct{}), done: make(chan struct{})}
}

// Read gives the body to net/http.
func (o *outgoing) Read(p []byte) (int, error) {
	from := o.taken.Load()
	n := copy(p, o.body[from:])
	o.taken.Add(int64(n))
	if int(from)+n == len(o.body) {
		return n, io.EOF
	}
	return n, nil
}

// Close is called by net/http.
func (o *outgoing) Close() error { return nil }

func (o *outgoing) begin() { o.open.Do(func() { close(o.head) }) }

// begun reports whether the writing of a request that failed had begun. One that was called off may be under the hands of
// the writing goroutine still: that is given a moment.
func (o *outgoing) begun(ctx context.Context) bool {
	if ctx.Err() == nil {
		// net/http has waited for its goroutine.
		select {
		case <-o.head:
			return true
		default:
			return false
		}
	}
	t := time.NewTimer(beginTime)
	defer t.Stop()
	select {
	case <-o.head:
		return true
	case <-t.C:
		return false
	}
}

func (o *outgoing) wrote(info httptrace.WroteRequestInfo) {
	now := o.clock.Now()
	o.once.Do(func() {
		if info.Err == nil {
			o.at.Store(int64(now))
		}
		close(o.done)
	})
}

// wait waits until it is settled whether the request was written whole.
func (o *outgoing) wait(most time.Duration) {
	select {
	case <-o.done:
		return
	default:
	}
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-o.done:
	case <-t.C:
	}
}

func (o *outgoing) result() (at record.Instant, taken int64) {
	return record.Instant(o.at.Load()), o.taken.Load()
}
