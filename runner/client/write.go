package client

import (
	"errors"
	"os"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// send writes the request with one Write. It returns false, with nothing written, when the connection turned out to be dead;
// checks says whether to look. An error of the write does not end the exchange: a server that refuses a request while it
// is being sent has often said why, so the answer is looked for, for up to a second.
func (x *exchange) send(checks bool) (alive bool) {
	c, early := x.conn, x.early
	x.early = false
	if !early && !c.begin(&x.watch) {
		return false
	}
	x.s.Conn = max(x.s.Conn, x.s.Slot)
	wire := x.r.Wire
	if c.direct {
		var err error
		if !early {
			// Its error, if any, stays with the connection for the read to find.
			err = c.write(wire)
		}
		if c.send.dead && checks {
			return false
		}
		x.s.BytesOut, x.s.Wrote, x.wrote = int64(len(wire)-len(c.send.wire)), c.send.wrote, c.send.err
		wire, c.send.wire = c.send.wire, nil
		if !c.send.tried && !c.send.dead {
			// Cancelled, or a limit passed, before the first byte.
			x.wrote, x.watch.refused = err, c.clock.Now()
			return true
		}
	} else if checks && x.died() {
		return false
	}
	x.attempted()
	if len(wire) > 0 && x.wrote == nil {
		x.sendSlowly(wire)
	}
	if x.wrote != nil {
		x.watch.refused = c.clock.Now()
	}
	return true
}

// died reports whether a connection closed that cannot look for itself. Bytes on a new one prove nothing: servers of TLS
// send session tickets on their own.
func (x *exchange) died() bool {
	g := look(x.conn)
	return g == gone || g == readable && x.s.Reused
}

func (x *exchange) attempted() {
	if x.uncounted {
		return
	}
	x.s.Attempts++
	x.c.attempts.Add(1)
	if x.s.Reused {
		x.c.reuses.Add(1)
	}
}

// sendSlowly writes what the socket did not take at once.
func (x *exchange) sendSlowly(wire []byte) {
	for len(wire) > 0 && x.wrote == nil {
		_ = x.conn.SetWriteDeadline(x.writeDeadline())
		n, err := x.conn.Write(wire)
		wire = wire[n:]
		x.s.BytesOut += int64(n)
		if err != nil && !x.stillTaking(err) {
			x.wrote = err
		}
	}
	if x.wrote == nil {
		_ = x.conn.SetWriteDeadline(time.Time{})
		x.s.Wrote = x.c.o.Clock.Now()
		x.watch.read = x.s.Wrote
	}
}

// writeDeadline is soon for plain connections, so that a write that is stuck can look whether the answer is there already.
// A TLS connection is broken by a timed out write and gets the total limit alone.
func (x *exchange) writeDeadline() time.Time {
	due, _ := x.watch.due()
	if x.conn.raw == x.conn.Conn {
		due = min(due, x.c.o.Clock.Now()+record.Instant(refusedTime))
	}
	if due == never {
		return time.Time{}
	}
	return x.c.o.Clock.At(due)
}

// stillTaking reports whether a write that stopped may go on: its slice of time ended, no limit has passed, and no answer
// has come.
func (x *exchange) stillTaking(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) || x.conn.raw != x.conn.Conn || x.watch.ctx.Err() != nil {
		return false
	}
	due, _ := x.watch.due()
	return x.c.o.Clock.Now() < due && look(x.conn) == quiet
}
