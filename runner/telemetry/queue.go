package telemetry

import "sync"

// maxQueued is how many lines of a sensor wait for the parser before the oldest are dropped.
const maxQueued = 4096

// queue hands lines from the goroutine that reads a sensor to the one that handles them. Putting never blocks: a sensor
// must not stall because a disk does. Safe for one writer and one reader.
type queue struct {
	mu      sync.Mutex
	lines   []arrival
	dropped int
	closed  bool
	ready   chan struct{}
}

// arrival is a line and when it came, in CLOCK_MONOTONIC ns. A line that was too long has long set and no bytes.
type arrival struct {
	at   int64
	line []byte
	long bool
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// put appends a line and drops the oldest when the queue is full.
func (q *queue) put(a arrival) {
	q.mu.Lock()
	if len(q.lines) == maxQueued {
		q.lines = q.lines[1:]
		q.dropped++
	}
	q.lines = append(q.lines, a)
	q.mu.Unlock()
	q.wake()
}

// close says that no line will follow.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns all waiting lines and how many were dropped since the last call. more is false after close, once every
// line was taken.
func (q *queue) take() (lines []arrival, dropped int, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	lines, dropped = q.lines, q.dropped
	q.lines, q.dropped = nil, 0
	return lines, dropped, !q.closed
}
