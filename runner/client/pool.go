package client

import (
	"sync"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// idleLimit is how long a connection may have been idle to be used again. Many servers close after 5 s; ours goes first.
const idleLimit = 3 * time.Second

// pool holds idle connections, the one used last on top. It is safe for concurrent use.
type pool struct {
	clock  record.Clock
	limit  time.Duration
	mu     sync.Mutex
	idle   []*conn
	closed bool
}

// take returns an idle connection, or nil. With a look it is alive as far as its socket can tell; without one the caller
// must look before it writes.
func (p *pool) take(looks bool) *conn {
	for {
		c := p.pop()
		if c == nil {
			return nil
		}
		if !looks || alive(c) {
			c.reused++
			return c
		}
		_ = c.Close()
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
	if p.closed {
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
