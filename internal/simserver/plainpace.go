package simserver

import (
	"container/heap"
	"sync"
)

// pacer writes the events of all streams when they are due. One goroutine does it, so that an event costs neither a
// switch between goroutines nor a lock.
type pacer struct {
	clock clock
	alarm *alarm

	mu       sync.Mutex
	incoming []*flow
	target   int64 // what the alarm is set for
	stopped  bool

	flows flowHeap // the pacing goroutine's own
}

func newPacer(c clock) (*pacer, error) {
	a, err := newAlarm(c)
	if err != nil {
		return nil, err
	}
	return &pacer{clock: c, alarm: a, target: never}, nil
}

// add hands a stream over. Safe for concurrent use. After stop the stream ends at once.
func (p *pacer) add(f *flow) {
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		f.end(errGone)
		return
	}
	defer p.mu.Unlock()
	p.incoming = append(p.incoming, f)
	if f.due < p.target {
		p.aim(f.due)
	}
}

// aim sets the alarm; mu is held. An open timer takes every instant, so a failure is a bug.
func (p *pacer) aim(at int64) {
	p.target = at
	if err := p.alarm.set(at); err != nil {
		panic(err)
	}
}

func (p *pacer) run() {
	defer p.alarm.close()
	for p.admit() {
		if len(p.flows) > 0 && p.flows[0].due <= p.clock.now() {
			p.burst()
			continue
		}
		p.alarm.wait()
	}
	for _, f := range p.flows {
		f.end(errGone)
	}
}

// admit takes in new streams and sets the alarm for the next event; false after stop.
func (p *pacer) admit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.incoming {
		heap.Push(&p.flows, f)
	}
	clear(p.incoming)
	p.incoming = p.incoming[:0]
	next := int64(never)
	if len(p.flows) > 0 {
		next = p.flows[0].due
	}
	// An alarm that was set for an earlier event has rung or will ring for nothing, which does no harm.
	if !p.stopped && next != p.target {
		p.aim(next)
	}
	return !p.stopped
}

// burst writes what is due now, at most as many events as there are streams, and then looks for new ones.
func (p *pacer) burst() {
	now := p.clock.now()
	for range len(p.flows) {
		f := p.flows[0]
		if f.due > now {
			return
		}
		if f.step() {
			heap.Pop(&p.flows)
		} else {
			heap.Fix(&p.flows, 0)
		}
		if len(p.flows) == 0 {
			return
		}
	}
}

func (p *pacer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	for _, f := range p.incoming {
		f.end(errGone)
	}
	p.incoming = nil
	p.aim(0)
}

// stuck takes a stream whose socket is full from the pacer, writes the rest without holding anybody up, and brings it
// back.
func (p *pacer) stuck(f *flow, rest []byte, last bool) {
	go func() {
		_, err := f.out.conn.Write(rest)
		if err != nil || last {
			f.end(err)
			return
		}
		f.due += f.gap
		p.add(f)
	}()
}

// flowHeap is ordered by the next event.
type flowHeap []*flow

// Len implements heap.Interface.
func (h flowHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h flowHeap) Less(i, j int) bool { return h[i].due < h[j].due }

// Swap implements heap.Interface.
func (h flowHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *flowHeap) Push(x any) {
	f, _ := x.(*flow)
	*h = append(*h, f)
}

// Pop implements heap.Interface.
func (h *flowHeap) Pop() any {
	old := *h
	f := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return f
}
