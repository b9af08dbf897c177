package client

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// readBuffer is held by each live stream.
	readBuffer = 16 << 10
	// maxHead bounds a response head, informational ones included.
	maxHead = 1 << 20
)

var errHeadTooLarge = errors.New("response head too large")

// conn is a connection that stamps each read of its socket before anybody looks at the bytes, and that knows by when the
// next byte must come. One exchange uses it at a time.
type conn struct {
	net.Conn
	// raw is the socket under a TLS connection, else Conn itself.
	raw   net.Conn
	clock record.Clock
	br    *bufio.Reader
	// watch belongs to the current exchange.
	watch *watch
	last  mark
	in    int64
	// armed is the read deadline the socket has now: 0 none was set in this exchange.
	armed record.Instant
	// headLeft bounds the bytes of a head; negative while a body is read.
	headLeft int64
	idleFrom record.Instant
	// reused counts the exchanges before the current one.
	reused int
}

func newConn(c, raw net.Conn, clock record.Clock) *conn {
	k := &conn{Conn: c, raw: raw, clock: clock}
	k.br = bufio.NewReaderSize(k, readBuffer)
	return k
}

// begin readies the connection for an exchange under a watch.
func (c *conn) begin(w *watch) {
	c.watch, c.armed, c.in, c.last, c.headLeft = w, 0, 0, mark{}, maxHead
}

// Read reads the socket once and stamps it. It fails with a *limitError when a limit of the watch has passed, and with
// a *cancelError when the exchange was cancelled.
func (c *conn) Read(p []byte) (int, error) {
	if c.headLeft == 0 {
		return 0, errHeadTooLarge
	}
	for {
		c.arm()
		if err := c.watch.ctx.Err(); err != nil {
			return 0, &cancelError{context.Cause(c.watch.ctx)}
		}
		n, err := c.Conn.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			c.stamp(n)
			return n, err
		}
		if c.watch.ctx.Err() != nil {
			return 0, &cancelError{context.Cause(c.watch.ctx)}
		}
		c.armed = 0
		if due, limit := c.watch.due(); c.clock.Now() >= due {
			return 0, &limitError{limit}
		}
	}
}

func (c *conn) stamp(n int) {
	c.last = mark{c.clock.Now(), c.last.read + 1}
	c.watch.read = c.last.at
	c.in += int64(n)
	if c.headLeft > 0 {
		c.headLeft = max(c.headLeft-int64(n), 0)
	}
}

// arm sets the socket's deadline if the limit due next lies before it. A later one is left alone and looked at again when
// it fires: streams push their idle limit ahead with every byte, and a system call for each would be waste.
func (c *conn) arm() {
	due, _ := c.watch.due()
	if c.armed != 0 && due >= c.armed {
		return
	}
	var t time.Time
	if due != never {
		t = c.clock.At(due)
	}
	// An error here means a closed socket; the read says it better.
	_ = c.SetReadDeadline(t)
	c.armed = due
}

// next waits for bytes of the body and returns what one read brought. The bytes are valid until the next call.
func (c *conn) next() ([]byte, error) {
	if c.br.Buffered() == 0 {
		if _, err := c.br.Peek(1); err != nil {
			return nil, err
		}
	}
	b, _ := c.br.Peek(c.br.Buffered())
	_, _ = c.br.Discard(len(b))
	return b, nil
}
