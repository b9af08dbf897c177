package simserver

import (
	"context"
	"net"
	"sync/atomic"
)

// stampedListener counts connections and stamps what passes through them.
type stampedListener struct {
	net.Listener
	clock clock
	truth *truth
}

// Accept implements net.Listener.
func (l *stampedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.truth.connections.Add(1)
	return &stampedConn{Conn: c, clock: l.clock, truth: l.truth}, nil
}

// stampedConn reads the clock where the bytes are: after each read, before each write. One goroutine of net/http serves
// a connection, but it also reads ahead in another, hence the atomics.
type stampedConn struct {
	net.Conn
	clock clock
	truth *truth

	arrived atomic.Int64 // when the last bytes were read
	wrote   atomic.Int64 // just before the last write
}

// Read implements net.Conn.
func (c *stampedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.arrived.Store(c.clock.now())
		c.truth.bytesIn.Add(int64(n))
	}
	return n, err
}

// Write implements net.Conn.
func (c *stampedConn) Write(p []byte) (int, error) {
	c.wrote.Store(c.clock.now())
	n, err := c.Conn.Write(p)
	c.truth.bytesOut.Add(int64(n))
	return n, err
}

// reset makes the next close a reset: what the peer has not read is lost.
func (c *stampedConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed connection, which is the aim
	}
}

// connKey finds a request's connection in its context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf is the connection a request came by; nil outside a server.
func connOf(ctx context.Context) *stampedConn {
	c, _ := ctx.Value(connKey{}).(*stampedConn)
	return c
}
