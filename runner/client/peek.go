package client

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// glance is what a look at a socket's receive queue showed.
type glance int

const (
	quiet glance = iota
	readable
	gone
)

// look peeks at a connection's socket without waiting and without taking bytes. What is no socket is always quiet.
func look(c *conn) glance {
	s, ok := c.raw.(syscall.Conn)
	if !ok {
		return quiet
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return gone
	}
	seen := gone
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case n > 0:
			seen = readable
		case errors.Is(err, unix.EAGAIN):
			seen = quiet
		}
	})
	if err != nil {
		return gone
	}
	return seen
}

// alive reports whether an idle connection may be used: still open, and nothing in it that nobody asked for.
func alive(c *conn) bool { return look(c) == quiet && c.br.Buffered() == 0 }
