package client

import "golang.org/x/sys/unix"

// glance is what a look at a socket's receive queue showed.
type glance int

const (
	quiet glance = iota
	readable
	gone
)

// look peeks at a connection's socket without waiting and without taking bytes. What is no socket is always quiet.
func look(c *conn) glance {
	if c.sock == nil {
		return quiet
	}
	seen := gone
	if err := c.sock.Control(func(fd uintptr) { seen = glanceAt(int(fd)) }); err != nil {
		return gone
	}
	return seen
}

func glanceAt(fd int) glance {
	var b [1]byte
	peek := func(fd int, p []byte) (int, error) {
		n, _, err := unix.Recvfrom(fd, p, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return n, err
	}
	n, err := insist(peek, fd, b[:])
	switch {
	case n > 0:
		return readable
	case err == unix.EAGAIN:
		return quiet
	default:
		return gone
	}
}

// alive reports whether an idle connection may be used: still open, and nothing in it that nobody asked for.
func alive(c *conn) bool { return look(c) == quiet }
