package simserver

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stamped is a receiver that asks the kernel when the packet came. A request that waits in its socket, because a hundred
// others came at the same instant, has arrived: that this process is busy is the server's lateness and no client's.
type stamped struct {
	clock clock
	raw   syscall.RawConn
	pull  func(fd uintptr) bool
	b     []byte
	oob   []byte
	n     int
	oobn  int
	err   error
}

// stampArrivals has the kernel stamp the packets of all connections that a listener will accept. Where it cannot, a read
// brings no stamp and counts from its end.
func stampArrivals(l net.Listener) {
	s, ok := l.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	}
}

func newReceiver(c net.Conn, clk clock) receiver {
	s, ok := c.(syscall.Conn)
	if !ok {
		return reads{conn: c, clock: clk}
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return reads{conn: c, clock: clk}
	}
	r := &stamped{clock: clk, raw: raw, oob: make([]byte, unix.CmsgSpace(timespecSize))}
	r.pull = func(fd uintptr) bool {
		for {
			r.n, r.oobn, _, _, r.err = unix.Recvmsg(int(fd), r.b, r.oob, 0)
			if !errors.Is(r.err, unix.EINTR) {
				return !errors.Is(r.err, unix.EAGAIN)
			}
		}
	}
	return r
}

func (r *stamped) read(b []byte) (n int, at int64, err error) {
	r.b = b
	if err := r.raw.Read(r.pull); err != nil {
		return 0, 0, err
	}
	now := r.clock.now()
	switch {
	case r.err != nil:
		return 0, 0, r.err
	case r.n == 0:
		return 0, 0, io.EOF
	}
	// The stamp is of the clock that can be set; how long ago it was holds for ours too.
	if ago := time.Now().UnixNano() - stampOf(r.oob[:r.oobn]); ago > 0 && ago < int64(time.Second) {
		now -= ago
	}
	return r.n, now, nil
}

const timespecSize = 16

// stampOf reads a control message of SO_TIMESTAMPNS, CLOCK_REALTIME in ns; 0 when there is none.
func stampOf(oob []byte) int64 {
	if len(oob) < unix.CmsgLen(timespecSize) {
		return 0
	}
	h, data, _, err := unix.ParseOneSocketControlMessage(oob)
	if err != nil || h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_TIMESTAMPNS || len(data) < timespecSize {
		return 0
	}
	return int64(binary.NativeEndian.Uint64(data))*1e9 + int64(binary.NativeEndian.Uint64(data[8:]))
}
