package client

import (
	"sync"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// idleLimit is how long a connection may have been idle to be used again. Many servers close after 5 s; ours goes first.
const idleLimit = 3 * time.Second

// proofRest is how long the first connection of a pool rests before it is used again. Some servers close a connection right
// behind a streamed answer although they announced to keep it (llama.cpp's does, after some 50 µs): whoever is quicker
// writes into the void and blames the server for a request it never saw.
const proofRest = 5 * time.Millisecond

// What a pool knows of its server: whether connections live on after an answer.
const (
	unproven = iota
	keeps
	closes
)

// pool holds idle connections, the one used last on top. It is safe for concurrent use.
type pool struct {
	clock  record.Clock
	limit  time.Duration
	mu     sync.Mutex
	idle   []*conn
	closed bool
	// proof is unproven until the first idle connection has rested, then keeps or closes. With closes none is used twice.
	proof int
}

// take returns an idle connection, or nil. With a look it is alive as far as its socket can tell; without one the caller
// must look before it writes.
func (p *pool) take(looks bool) *conn {
	for died := false; ; died = true {
		c := p.pop()
		if c == nil {
			if died {
				p.find(closes)
			}
			return nil
		}
		if p.prove(c) && (!looks || alive(c)) {
			c.reused++
			return c
		}
		_ = c.Close()
	}
}

// prove lets c rest and looks at it, once in a pool's life, and reports whether it may be used. A living connection proves
// that the server keeps them; that it does not is found when all that were idle have died.
func (p *pool) prove(c *conn) bool {
	p.mu.Lock()
	known := p.proof != unproven
	p.mu.Unlock()
	if known || c.sock == nil {
		return true
	}
	if rest := p.clock.Until(c.idleFrom + record.Instant(proofRest)); rest > 0 {
		<-time.After(rest)
	}
	if !alive(c) {
		return false
	}
	p.find(keeps)
	return true
}

// find notes what the server does with idle connections, unless that is known already.
func (p *pool) find(what int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proof == unproven {
		p.proof = what
	}
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.evict()
	if len(p.idle) == 0 {
		return nil
	}
	top := len(p.idle) - 1
	c := p.idle[top]
	p.idle[top], p.idle = nil, p.idle[:top]
	return c
}

// put keeps a connection whose last answer was read to its end.
func (p *pool) put(c *conn) {
	c.idleFrom = p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.proof == closes {
		_ = c.Close()
		return
	}
	p.evict()
	p.idle = append(p.idle, c)
}

// evict closes what was idle for too long; the oldest lie at the bottom.
func (p *pool) evict() {
	limit := p.limit
	if limit == 0 {
		limit = idleLimit
	}
	now, n := p.clock.Now(), 0
	for n < len(p.idle) && now-p.idle[n].idleFrom >= record.Instant(limit) {
		_ = p.idle[n].Close()
		n++
	}
	if n > 0 {
		p.idle = append(p.idle[:0], p.idle[n:]...)
	}
}

// close closes all idle connections; those in use are closed as they come back.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		_ = c.Close()
	}
	p.idle = nil
}
