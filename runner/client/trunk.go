package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const protocolHTTP2 = "h2"

// onlyHTTP2 admits HTTP/2 alone, over TLS and without.
func onlyHTTP2() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// trunk is where all requests over HTTP/2 get their connection from: one carrier at a time, dialled when a request seeks one
// and there is none. It is safe for concurrent use.
type trunk struct {
	c    *Client
	life context.Context //nolint:containedctx // a dial serves every request that waits for it, so it outlives each one's context
	end  context.CancelFunc

	mu      sync.Mutex
	carrier *carrier
	dialing *dialing
	closed  bool
}

// dialing is a dial that requests wait for. Its results are there once done is closed.
type dialing struct {
	done    chan struct{}
	carrier *carrier
	dialled dialled
	err     error
}

func newTrunk(c *Client) *trunk {
	t := &trunk{c: c}
	t.life, t.end = context.WithCancel(context.Background())
	return t
}

// connect returns the carrier in use, or waits for a new one. fresh says that this call had it dialled.
func (t *trunk) connect(ctx context.Context) (k *carrier, d dialled, fresh bool, err error) {
	t.mu.Lock()
	if t.carrier != nil && !t.carrier.gone() {
		defer t.mu.Unlock()
		return t.carrier, dialled{}, false, nil
	}
	w := t.dialing
	if fresh = w == nil; fresh {
		w = &dialing{done: make(chan struct{})}
		t.dialing = w
		go t.dial(w)
	}
	t.mu.Unlock()
	select {
	case <-w.done:
		return w.carrier, w.dialled, fresh, w.err
	case <-ctx.Done():
		return nil, dialled{}, fresh, context.Cause(ctx)
	}
}

func (t *trunk) dial(w *dialing) {
	w.carrier, w.dialled, w.err = t.open()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.carrier, t.dialing = w.carrier, nil
	if t.closed && w.err == nil {
		w.carrier.close()
	}
	close(w.done)
}

// open makes a connection and waits until the server has shown that it speaks HTTP/2, all within the dial limit.
func (t *trunk) open() (*carrier, dialled, error) {
	ctx := t.life
	if d := t.c.o.Limits.Dial; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, tooSlow(d))
		defer cancel()
	}
	d, err := t.c.reach(ctx)
	if err != nil {
		return nil, d, err
	}
	start := t.c.o.Clock.Now()
	k, err := newCarrier(ctx, d.carrier)
	d.dial += time.Duration(t.c.o.Clock.Now() - start)
	if err != nil {
		_ = d.raw.Close()
	}
	return k, d, err
}

// close closes the connection unless there are requests in flight: then it closes itself after the last.
func (t *trunk) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.end()
	if t.carrier != nil {
		t.carrier.close()
	}
}

// carrier is one connection of HTTP/2, with a queue for its streams where the server bounds how many it takes at a time.
//
// The queue is ours, although net/http has one: so that it is seen when a request got its stream, and no second connection is
// opened in its place. A ClientConn sends a request once or not at all; the Transport above it would send again what the
// server refused.
type carrier struct {
	cc   *http.ClientConn
	skim *skim
	// kick says that streams may have become free or the connection may have gone.
	kick chan struct{}

	mu    sync.Mutex
	queue []*waiter
}

// waiter is a request without a stream. gone is valid once ready is closed.
type waiter struct {
	ready chan struct{}
	gone  bool
}

// errGone says that a connection takes no new requests.
var errGone = errors.New("the server takes no new requests on this connection")

// newCarrier puts HTTP/2 on a connection. It owns the connection unless it fails.
func newCarrier(ctx context.Context, c net.Conn) (*carrier, error) {
	k := &carrier{skim: newSkim(c), kick: make(chan struct{}, 1)}
	k.skim.left = k.stir
	p := new(http.Protocols)
	// To the Transport every connection is one without TLS: who is at the other end was settled before.
	p.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols:              p,
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return k.skim, nil },
		DisableCompression:     true,
		IdleConnTimeout:        idleLimit,
		MaxResponseHeaderBytes: maxHead,
	}
	var err error
	if k.cc, err = transport.NewClientConn(ctx, "http", c.RemoteAddr().String()); err != nil {
		return nil, because(ctx, err)
	}
	select {
	case <-k.skim.met:
		err = k.skim.odd
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = k.cc.Close()
		return nil, err
	}
	k.cc.SetStateHook(func(*http.ClientConn) { k.stir() })
	go k.serve()
	return k, nil
}

// gone reports whether new requests need another connection.
func (k *carrier) gone() bool { return k.skim.leaving.Load() || k.cc.Err() != nil }

// stir makes serve look. It never waits: net/http calls it from where it may hold its locks.
func (k *carrier) stir() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// serve hands free streams to the requests that wait, in their order, until the connection is closed.
func (k *carrier) serve() {
	for k.cc.Err() == nil {
		<-k.kick
		k.grant()
	}
	k.grant()
}

func (k *carrier) grant() {
	k.mu.Lock()
	defer k.mu.Unlock()
	gone := k.gone()
	for len(k.queue) > 0 && (gone || k.cc.Reserve() == nil) {
		k.queue[0].gone = gone
		close(k.queue[0].ready)
		k.queue = slices.Delete(k.queue, 0, 1)
	}
}

// acquire waits for a stream and reports whether it had to. Without an error exactly one RoundTrip, or a release, must follow.
// It fails with errGone when the connection takes no more requests, and with the context's error.
func (k *carrier) acquire(ctx context.Context) (waited bool, err error) {
	w, err := k.enqueue()
	if w == nil {
		return false, err
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		if k.withdraw(w) {
			return true, ctx.Err()
		}
	}
	switch {
	case w.gone:
		return true, errGone
	case ctx.Err() != nil:
		k.cc.Release()
		return true, ctx.Err()
	}
	return true, nil
}

// enqueue takes a free stream and returns nil, or a place in the queue.
func (k *carrier) enqueue() (*waiter, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.gone():
		return nil, errGone
	case len(k.queue) == 0 && k.cc.Reserve() == nil:
		return nil, nil
	}
	w := &waiter{ready: make(chan struct{})}
	k.queue = append(k.queue, w)
	// The connection may have gone between the two looks, and nobody would come by.
	k.stir()
	return w, nil
}

// withdraw leaves the queue; false when w has been served.
func (k *carrier) withdraw(w *waiter) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := slices.Index(k.queue, w)
	if at >= 0 {
		k.queue = slices.Delete(k.queue, at, at+1)
	}
	return at >= 0
}

// close closes the connection if nothing is in flight on it. Else it does so itself, idleLimit after the last answer.
func (k *carrier) close() {
	if k.cc.InFlight() == 0 {
		_ = k.cc.Close()
	}
}
