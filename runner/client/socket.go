package client

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// sending is a request on its way through a direct connection.
type sending struct {
	// wire is what is still to be written; nil when nothing is.
	wire []byte
	// kept: the connection has served before, so that bytes nobody asked for mean that it is of no use.
	kept bool
	// dead: the look just before the write found nobody at the other end. tried: a write was begun.
	dead, tried bool
	// wrote is when the last byte was accepted; err why not.
	wrote record.Instant
	err   error
}

// write writes a whole request if the socket takes it at once, and waits for the first bytes of the answer. It leaves in
// c.send how far it came; the wait ends as that of [conn.fill] does, and does not begin unless everything was written.
//
// Look, write and wait are one visit to the runtime's poller, in that order: whatever happens to the socket after the look
// wakes the wait, so no sign that the server has gone can be lost, and no read is tried before there can be an answer.
func (c *conn) write(wire []byte) error {
	c.ready(wire)
	return c.fill()
}

// ready sets what trySend writes.
func (c *conn) ready(wire []byte) { c.send = sending{wire: wire, kept: c.reused > 0} }

// readSocket reads the socket into the page, after it has written what is to be written.
func (c *conn) readSocket() (int, error) {
	c.got, c.err = 0, nil
	if err := c.sock.Read(c.try); err != nil {
		return 0, err
	}
	return c.got, c.err
}

// trySocket is called by the poller: at first and whenever the socket may have become readable. It returns false to wait.
func (c *conn) trySocket(fd uintptr) (done bool) {
	if c.send.wire != nil {
		return !c.trySend(int(fd))
	}
	c.hold()
	n, err := insist(syscall.Read, int(fd), c.page[c.hi:])
	switch {
	case err == syscall.EAGAIN:
		if c.lo == c.hi {
			c.release()
		}
		return false
	case err != 0:
		c.err = c.fault("read", err)
	case n == 0:
		c.err = io.EOF
	}
	c.got = max(n, 0)
	c.stamp(c.got)
	return true
}

// trySend looks at the socket and writes. It returns true when the whole request is out and its answer can be waited for.
func (c *conn) trySend(fd int) bool {
	s := &c.send
	seen := glanceAt(fd)
	if s.dead = seen == gone || seen == readable && s.kept; s.dead {
		return false
	}
	s.tried = true
	n, err := insist(syscall.Write, fd, s.wire)
	if n == len(s.wire) {
		s.wire, s.wrote = nil, c.clock.Now()
		c.watch.read = s.wrote
		return true
	}
	s.wire = s.wire[max(n, 0):]
	if err != 0 && err != syscall.EAGAIN {
		s.err = c.fault("write", err)
	}
	return false
}

// insist repeats a system call that a signal interrupted.
func insist(call func(fd int, p []byte) (int, error), fd int, p []byte) (int, syscall.Errno) {
	for {
		n, err := call(fd, p)
		if err == nil {
			return n, 0
		}
		if code, _ := errors.AsType[syscall.Errno](err); code != syscall.EINTR {
			return n, code
		}
	}
}

// fault words an error of the kernel as package net does.
func (c *conn) fault(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, err)}
}
