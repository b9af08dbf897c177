package client

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// pageSize is how much one read may bring. A page is held only while there are bytes to look at, by as many streams as
	// there are threads at work, so it can be large: a stream that waits holds none.
	pageSize = 64 << 10
	// maxHead bounds the response heads of one exchange, informational ones included.
	maxHead = 1 << 20
)

var errHeadTooLarge = errors.New("response head too large")

type page [pageSize]byte

var pages = sync.Pool{New: func() any { return new(page) }}

// conn is a connection that stamps each read of its socket before anybody looks at the bytes, and that knows by when the
// next byte must come. One exchange uses it at a time.
type conn struct {
	net.Conn
	// raw is the socket under a TLS connection, else Conn itself; sock is it for the kernel, nil when it is no socket.
	raw  net.Conn
	sock syscall.RawConn
	// direct: the bytes on the socket are those of the exchange, so that it may be read and written without Conn.
	direct bool
	clock  record.Clock

	// watch belongs to the current exchange.
	watch *watch
	last  mark
	in    int64
	// failed is the error that ended reading for good.
	failed error

	// page holds what was read; its bytes from lo to hi are still to be taken. It is nil while nothing is held.
	page   *page
	lo, hi int
	// try, got, err and send are those of a direct read; see socket.go.
	try  func(fd uintptr) (done bool)
	got  int
	err  error
	send sending

	// armed is the read deadline that the socket has now: 0 none was set yet.
	armed record.Instant
	// cutBy is the context that wakes this connection when it ends, stop undoes that.
	cutBy context.Context //nolint:containedctx // the registration outlives an exchange, so that the next one need not repeat it
	stop  func() bool

	idleFrom record.Instant
	// reused counts the exchanges before the current one.
	reused int
}

func newConn(c, raw net.Conn, clock record.Clock) *conn {
	k := &conn{Conn: c, raw: raw, clock: clock}
	if s, ok := raw.(syscall.Conn); ok {
		// Without it the connection works as any other does.
		k.sock, _ = s.SyscallConn()
	}
	k.direct = k.sock != nil && c == raw
	k.try = k.trySocket
	return k
}

// begin readies the connection for an exchange under a watch. It returns false for a connection that the end of an earlier
// exchange's context has broken.
func (c *conn) begin(w *watch) bool {
	c.watch, c.in, c.last, c.failed = w, 0, mark{}, nil
	if w.ctx == c.cutBy {
		return true
	}
	if c.stop != nil && !c.stop() {
		return false
	}
	c.cutBy, c.stop = w.ctx, nil
	if w.ctx.Done() != nil {
		c.stop = context.AfterFunc(w.ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	}
	return true
}

// rest ends an exchange whose answer was read to its end. The connection keeps nothing that could be large.
func (c *conn) rest() {
	c.watch = nil
	c.lo, c.hi = 0, 0
	c.release()
}

// Close closes the connection and forgets what it holds.
func (c *conn) Close() error {
	if c.stop != nil {
		c.stop()
	}
	c.rest()
	return c.Conn.Close()
}

func (c *conn) release() {
	if c.page != nil {
		pages.Put(c.page)
		c.page = nil
	}
}

// hold makes room for a read.
func (c *conn) hold() {
	if c.page == nil {
		c.page = pages.Get().(*page)
	}
}

// fill waits for bytes, reads the socket once and adds them to those not yet taken; there must be room for them. It fails
// with a *limitError when a limit of the watch has passed, and with a *cancelError when the exchange was cancelled.
func (c *conn) fill() error {
	if c.lo == c.hi {
		c.lo, c.hi = 0, 0
	}
	for c.failed == nil {
		due, limit := c.arm()
		// In this order: the end of the context sets a deadline of its own.
		if c.watch.ctx.Err() != nil {
			c.failed = &cancelError{context.Cause(c.watch.ctx)}
			break
		}
		n, err := c.read()
		switch {
		case n == 0 && errors.Is(err, os.ErrDeadlineExceeded):
			c.failed = c.expired()
		case c.last.at >= due:
			// The deadline of a socket fires late on a busy machine; what came after a limit is late all the same.
			c.failed, c.hi = &limitError{limit}, c.lo
		case n > 0 || err == nil:
			return nil
		default:
			c.failed = err
		}
	}
	return c.failed
}

// expired says why a read ended at the socket's deadline: nil when that was one of an earlier exchange, or of a limit that has
// moved on since.
func (c *conn) expired() error {
	if c.watch.ctx.Err() != nil {
		return &cancelError{context.Cause(c.watch.ctx)}
	}
	c.armed = 0
	if due, limit := c.watch.due(); c.clock.Now() >= due {
		return &limitError{limit}
	}
	return nil
}

// read reads once.
func (c *conn) read() (int, error) {
	if c.direct {
		return c.readSocket()
	}
	c.hold()
	n, err := c.Read(c.page[c.hi:])
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		c.stamp(n)
	}
	return n, err
}

// stamp notes a read that brought n bytes, or the end.
func (c *conn) stamp(n int) {
	c.last = mark{c.clock.Now(), c.last.read + 1}
	c.watch.read = c.last.at
	c.in += int64(n)
	c.hi += n
}

// arm sets the socket's deadline if the limit due next lies before it. A later one is left alone, also by the exchanges
// that follow, and looked at again when it fires: streams push their idle limit ahead with every byte, and setting a timer
// for each would be waste. It returns the limit due next.
func (c *conn) arm() (due record.Instant, limit string) {
	due, limit = c.watch.due()
	if c.armed != 0 && due >= c.armed {
		return due, limit
	}
	var t time.Time
	if due != never {
		t = c.clock.At(due)
	}
	// An error here means a closed socket; the read says it better.
	_ = c.SetReadDeadline(t)
	c.armed = due
	return due, limit
}

// next waits for bytes of the body and returns those of one read. They are valid until the next call.
func (c *conn) next() ([]byte, error) {
	if c.lo == c.hi {
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
	b := c.page[c.lo:c.hi]
	c.lo = c.hi
	return b, nil
}
