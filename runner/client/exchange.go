package client

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// exchange is one attempt of one request: connect, wait for the release, write, read. Its methods are called in that order
// by one goroutine, and what they find out they leave in the fields; conclude makes the sample of it.
type exchange struct {
	c     *Client
	r     *Request
	s     record.Sample
	watch watch
	conn  *conn
	ans   *answer
	trace *Trace
	// uncounted keeps a readiness probe out of the client's counts.
	uncounted bool

	resp *http.Response
	// errorBody is the beginning of the body of an answer that is no success.
	errorBody []byte
	// unsent and unread are the errors of the two halves, nil when they went well.
	unsent outcome
	unread error
	wrote  error
	silent bool
}

func (c *Client) exchange(ctx context.Context, r *Request) *exchange {
	x := &exchange{c: c, r: r, silent: true}
	want := r.want
	want.tap = r.Tap
	x.ans = newAnswer(want)
	x.watch = watch{ctx: ctx, limits: c.o.Limits}
	if !want.stream {
		// The only event of a whole answer is its end, and that has the total limit.
		x.watch.limits.FirstEvent = 0
	}
	x.s = record.Sample{
		V: record.SampleVersion, Seq: r.Seq, ID: r.id, Conv: r.conv, Turn: r.turn, Phase: r.Phase, Sched: r.Sched,
		InPlanned: r.inPlanned, OutPlanned: r.outPlanned, BodySHA: r.bodySHA,
	}
	return x
}

func (x *exchange) run(release <-chan record.Instant) {
	picked := x.waitForDial(release)
	if x.unsent.class != "" {
		return
	}
	err := x.connect(false)
	if !picked && !x.waitForPick(release) {
		x.hangUp()
		return
	}
	if err == nil && x.died() {
		// Nothing was written, so another one is no second attempt.
		x.hangUp()
		err = x.connect(true)
	}
	if err != nil {
		x.unsent = dialOutcome(err)
		if x.watch.ctx.Err() != nil {
			x.unsent = outcome{record.Cut, clean(err.Error(), maxDetail)}
		}
		return
	}
	x.s.Conn = max(x.s.Conn, x.s.Slot)
	defer x.hangUp()
	defer x.cutWhenCancelled()()
	x.conn.begin(&x.watch)
	x.write()
	x.read()
}

// waitForDial waits until a connection should be sought. It reports whether the pick came first.
func (x *exchange) waitForDial(release <-chan record.Instant) (picked bool) {
	wait := x.c.o.Clock.Until(x.r.Sched) - DialAhead
	if wait <= 0 {
		return false
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case at := <-release:
		x.pick(at)
		return true
	case <-x.watch.ctx.Done():
		x.cancelled()
		return false
	}
}

func (x *exchange) waitForPick(release <-chan record.Instant) bool {
	select {
	case at := <-release:
		x.pick(at)
		return true
	case <-x.watch.ctx.Done():
		x.cancelled()
		return false
	}
}

func (x *exchange) pick(at record.Instant) { x.s.Pick, x.s.Slot, x.watch.pick = at, at, at }

func (x *exchange) cancelled() {
	x.unsent = outcome{record.Cut, clean("before it was sent: "+context.Cause(x.watch.ctx).Error(), maxDetail)}
}

// connect finds a live connection or dials one.
func (x *exchange) connect(fresh bool) error {
	if !fresh {
		if x.conn = x.c.pool.take(); x.conn != nil {
			x.s.Conn, x.s.Reused = x.c.o.Clock.Now(), true
			return nil
		}
	}
	d, err := x.c.open(x.watch.ctx)
	x.s.Reused, x.s.DialNS, x.s.TLSNS = false, int64(d.dial), int64(d.tls)
	if err != nil {
		return err
	}
	if !x.uncounted {
		x.c.dials.Add(1)
		x.c.dialledIn(d.dial)
	}
	x.conn, x.s.Conn = d.conn, x.c.o.Clock.Now()
	return nil
}

// died reports whether the connection closed between connect and the pick. Bytes on a new one prove nothing: TLS servers
// send session tickets on their own.
func (x *exchange) died() bool {
	g := look(x.conn)
	return g == gone || g == readable && x.s.Reused
}

// cutWhenCancelled wakes a blocked read or write when the context ends. The returned function must be called; a
// connection whose deadline was touched by it is not used again.
func (x *exchange) cutWhenCancelled() func() {
	conn := x.conn
	stop := context.AfterFunc(x.watch.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return func() {
		if !stop() {
			x.hangUp()
		}
	}
}

// hangUp closes the connection unless it went back to the pool.
func (x *exchange) hangUp() {
	if x.conn != nil {
		_ = x.conn.Close()
		x.conn = nil
	}
}

// keep hands the connection back for the next request.
func (x *exchange) keep() {
	if x.watch.ctx.Err() != nil || x.conn.SetDeadline(time.Time{}) != nil {
		return
	}
	x.c.pool.put(x.conn)
	x.conn = nil
}

// write sends the request with one Write. An error does not end the exchange: a server that refuses a request while it is
// being sent has often said why, so the answer is looked for, for up to a second.
func (x *exchange) write() {
	if !x.uncounted {
		x.s.Attempts++
		x.c.attempts.Add(1)
		if x.s.Reused {
			x.c.reuses.Add(1)
		}
	}
	wire := x.r.Wire
	for len(wire) > 0 && x.wrote == nil {
		_ = x.conn.SetWriteDeadline(x.writeDeadline())
		n, err := x.conn.Write(wire)
		wire = wire[n:]
		x.s.BytesOut += int64(n)
		if err != nil && !x.stillTaking(err) {
			x.wrote = err
		}
	}
	now := x.c.o.Clock.Now()
	if x.wrote != nil {
		x.watch.refused = now
		return
	}
	x.s.Wrote = now
	x.watch.read = now
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
