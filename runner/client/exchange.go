package client

import (
	"context"
	"sync"
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

	// parked: offered to the releaser. early: the releaser has looked and written, with its results in conn.send.
	parked, early bool

	// head has status 0 until it was read.
	head head
	body unframer
	// taking is the method take, bound once.
	taking func([]byte)
	// errorBody is the beginning of the body of an answer that is no success.
	errorBody []byte
	// unsent and unread are the errors of the two halves, nil when they went well.
	unsent outcome
	unread error
	wrote  error
	silent bool
}

// exchanges holds those that are over: at tens of thousands of requests a second the memory of each would be the
// collector's main work.
var exchanges = sync.Pool{New: func() any {
	x := new(exchange)
	x.taking = x.take
	return x
}}

func (c *Client) exchange(ctx context.Context, r *Request) *exchange {
	x := exchanges.Get().(*exchange)
	x.c, x.r, x.silent = c, r, true
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

// end gives the exchange back. Its connection is closed or in the pool, and its results were copied.
func (x *exchange) end() {
	*x = exchange{taking: x.taking}
	exchanges.Put(x)
}

func (x *exchange) run(release <-chan record.Instant) {
	if x.c.trunk != nil {
		x.runStream(release)
		return
	}
	picked := x.waitForDial(release)
	if x.unsent.class != "" {
		return
	}
	err := x.connect(!picked && len(release) == 0)
	if !picked {
		x.park()
		if !x.waitForPick(release) {
			x.hangUp()
			return
		}
	}
	defer x.hangUp()
	for checks := true; err == nil && !x.send(checks); {
		// Nothing was written, so another connection is no second attempt. A new one that is dead is replaced once.
		checks = x.s.Reused
		x.hangUp()
		err = x.connect(false)
	}
	if err != nil {
		x.unconnected(err)
		return
	}
	x.read()
}

// unconnected is the end of an exchange that came to no connection.
func (x *exchange) unconnected(err error) {
	x.unsent = dialOutcome(err)
	if x.watch.ctx.Err() != nil {
		x.unsent = outcome{record.Cut, clean(err.Error(), maxDetail)}
	}
}

// waitForDial waits until a connection should be sought. It reports whether the pick came first.
func (x *exchange) waitForDial(release <-chan record.Instant) (picked bool) {
	if wait := x.c.o.Clock.Until(x.r.Sched) - DialAhead; wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case at, ok := <-release:
			return x.pick(at, ok)
		case <-x.watch.ctx.Done():
			x.cancelled()
			return false
		}
	}
	if x.r.Ahead != nil && !x.r.Ahead() {
		return x.waitForPick(release)
	}
	return false
}

func (x *exchange) waitForPick(release <-chan record.Instant) bool {
	select {
	case at, ok := <-release:
		x.unpark()
		return x.pick(at, ok)
	case <-x.watch.ctx.Done():
		if !x.unpark() {
			at, ok := <-release
			return x.pick(at, ok)
		}
		x.cancelled()
		return false
	}
}

// pick notes the release; ok is false for a request that was withdrawn instead.
func (x *exchange) pick(at record.Instant, ok bool) bool {
	if !ok {
		x.unsent = outcome{record.Cut, "before it was sent: withdrawn"}
		return false
	}
	x.s.Pick, x.s.Slot, x.watch.pick = at, at, at
	return true
}

func (x *exchange) cancelled() {
	x.unsent = outcome{record.Cut, clean("before it was sent: "+context.Cause(x.watch.ctx).Error(), maxDetail)}
}

// connect takes an idle connection, or dials one. With a look an idle one is known to be alive: there is time to replace it
// before the request is due. Without one the look just before the write must do.
func (x *exchange) connect(looks bool) error {
	if x.conn = x.c.pool.take(looks); x.conn != nil {
		x.s.Conn, x.s.Reused = x.c.o.Clock.Now(), true
		return nil
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

// hangUp closes the connection unless it went back to the pool.
func (x *exchange) hangUp() {
	if x.conn != nil {
		_ = x.conn.Close()
		x.conn = nil
	}
}

// keep hands the connection back for the next request.
func (x *exchange) keep() {
	if x.watch.ctx.Err() != nil {
		return
	}
	x.conn.rest()
	x.c.pool.put(x.conn)
	x.conn = nil
}
