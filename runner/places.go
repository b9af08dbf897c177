package runner

import "sync"

// turnRef names a request of a batch.
type turnRef struct {
	b *batch
	i int
}

// places bounds the requests in flight of an open loop. Who finds none free waits in line; the wait counts in every
// latency. It is safe for concurrent use.
type places struct {
	// grant lets a request use the network; called without the lock.
	grant func(turnRef)

	mu      sync.Mutex
	free    int
	line    []turnRef
	reached bool
}

// enter gives t a place, now or when its turn in line comes.
func (p *places) enter(t turnRef) {
	p.mu.Lock()
	if p.free > 0 {
		p.free--
		p.mu.Unlock()
		p.grant(t)
		return
	}
	p.reached = true
	p.line = append(p.line, t)
	p.mu.Unlock()
}

// leave frees the place of a request that is over.
func (p *places) leave() {
	p.mu.Lock()
	if len(p.line) == 0 {
		p.free++
		p.mu.Unlock()
		return
	}
	t := p.line[0]
	p.line = p.line[1:]
	p.mu.Unlock()
	p.grant(t)
}

// room reports whether a request due now would find a place.
func (p *places) room() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free > 0
}

// limited reports whether anything ever waited in line.
func (p *places) limited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reached
}

// drop takes those out of the line for whom out says so, and returns them.
func (p *places) drop(out func(turnRef) bool) []turnRef {
	p.mu.Lock()
	defer p.mu.Unlock()
	var kept, dropped []turnRef
	for _, t := range p.line {
		if out(t) {
			dropped = append(dropped, t)
		} else {
			kept = append(kept, t)
		}
	}
	p.line = kept
	return dropped
}
