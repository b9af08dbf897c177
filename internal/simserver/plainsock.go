package simserver

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblocking writes to a socket what fits now.
type nonblocking struct {
	raw  syscall.RawConn
	push func(fd uintptr) bool
	call *pushCall
}

type pushCall struct {
	b   []byte
	n   int
	err error
}

func newNonblocking(c net.Conn) nonblocking {
	call := &pushCall{}
	w := nonblocking{call: call, push: func(fd uintptr) bool {
		call.n, call.err = unix.Write(int(fd), call.b)
		return true // a full socket is the caller's affair, not the poller's
	}}
	if s, ok := c.(syscall.Conn); ok {
		w.raw, call.err = s.SyscallConn()
	}
	return w
}

// write returns how much was taken; less than b without an error means that the socket is full.
func (w nonblocking) write(b []byte) (int, error) {
	w.call.b, w.call.n = b, 0
	if w.raw == nil {
		return 0, errGone
	}
	if err := w.raw.Write(w.push); err != nil {
		return 0, err
	}
	if errors.Is(w.call.err, unix.EAGAIN) {
		return 0, nil
	}
	return max(w.call.n, 0), w.call.err
}
