package client

import "sync/atomic"

// maxHandover bounds the requests that a releaser writes itself, in bytes: copying more takes long enough to make the next
// one late.
const maxHandover = 64 << 10

// Handover lets whoever releases a request write it too, so that it leaves without waiting for its goroutine to run: on a
// busy machine that takes milliseconds. One is set on a request as Early before [Client.Do]. The zero value is ready to use.
type Handover struct {
	// parked is the exchange that has a connection ready and waits for its release; nil before and after.
	parked atomic.Pointer[exchange]
}

// Write writes the request now, on the calling thread, if its connection is ready and takes it: it looks at the socket and
// writes once, as Do would, and never waits. What it did not do is left to Do. The caller must send on the request's release
// channel right after it, in any case, and not close it.
func (h *Handover) Write() {
	x := h.parked.Swap(nil)
	if x == nil || x.watch.ctx.Err() != nil {
		return
	}
	c := x.conn
	if !c.begin(&x.watch) {
		return
	}
	c.ready(x.r.Wire)
	x.early = c.sock.Control(func(fd uintptr) { c.trySend(int(fd)) }) == nil
}

// park offers the exchange to the releaser. From here until unpark or the release its connection is not ours.
func (x *exchange) park() {
	if h := x.r.Early; h != nil && x.conn != nil && x.conn.direct && len(x.r.Wire) <= maxHandover {
		x.parked = true
		h.parked.Store(x)
	}
}

// unpark takes the exchange back; false when the releaser has it, whose release is then on its way.
func (x *exchange) unpark() bool {
	if !x.parked {
		return true
	}
	x.parked = false
	return x.r.Early.parked.CompareAndSwap(x, nil)
}
