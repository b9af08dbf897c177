package simserver

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// books keep what a plain server knows, in memory: nothing is formatted while it is measured against. Safe for
// concurrent use.
type books struct {
	connections, requests, events, aborted, failed, inOrder atomic.Int64
	bytesIn, bytesOut                                       atomic.Int64

	mu   sync.Mutex
	runs map[string]*runBook
}

// runBook is what is known of one run.
type runBook struct {
	ended []*entry
	// open counts requests that have not ended; still is closed when the last of them has, and nil while nobody waits.
	open  int
	still chan struct{}
}

// entry is one inference request. It belongs to whoever answers it, and after that to the books.
type entry struct {
	run            string
	n              int64
	arrived        int64
	prompt, tokens int
	wrote          []int64
	outcome        string
}

func newBooks() *books { return &books{runs: map[string]*runBook{}} }

// begun opens the books on a request. Requests that belong to no run are counted and not kept: nobody will ask.
func (b *books) begun(e *entry) {
	e.n = b.requests.Add(1)
	if e.run == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[e.run]
	if r == nil {
		r = &runBook{}
		b.runs[e.run] = r
	}
	r.open++
}

// id is what the answer's header x-request-id says.
func (e *entry) id() string { return string(e.appendID(nil)) }

func (e *entry) appendID(dst []byte) []byte {
	if e.run == "" {
		dst = append(dst, "plain"...)
	}
	dst = append(dst, e.run...)
	dst = append(dst, '-')
	return strconv.AppendInt(dst, e.n, 10)
}

// ended closes the books on a request that begun opened.
func (b *books) ended(e *entry, outcome string) {
	e.outcome = outcome
	b.events.Add(int64(len(e.wrote)))
	switch outcome {
	case "ok":
		b.inOrder.Add(1)
	case "aborted":
		b.aborted.Add(1)
	default:
		b.failed.Add(1)
	}
	if e.run == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[e.run]
	r.ended = append(r.ended, e)
	if r.open--; r.open == 0 && r.still != nil {
		close(r.still)
		r.still = nil
	}
}

// patience is how long a run's requests may still need to end when it is asked for. A client has its answer a moment
// before the books know that it was written; one that left is noticed at the next write.
const patience = 2 * time.Second

// taken removes what has ended of a run and returns it, once nothing of it is in flight or patience is over.
func (b *books) taken(run string) []*entry {
	late := time.After(patience)
	for {
		b.mu.Lock()
		r := b.runs[run]
		if r == nil {
			b.mu.Unlock()
			return nil
		}
		if r.open == 0 {
			delete(b.runs, run)
			b.mu.Unlock()
			return r.ended
		}
		if r.still == nil {
			r.still = make(chan struct{})
		}
		still := r.still
		b.mu.Unlock()
		select {
		case <-still:
		case <-late:
			b.mu.Lock()
			defer b.mu.Unlock()
			entries := r.ended
			r.ended = nil
			return entries
		}
	}
}

func (b *books) counts(start, now int64) []byte {
	c := Counts{
		V: 1, NowNS: now, StartNS: start, ReadyNS: start, Requests: b.requests.Load(), Answered: b.inOrder.Load(),
		Failed: b.failed.Load(), Aborted: b.aborted.Load(), Events: b.events.Load(),
		Connections: b.connections.Load(), BytesIn: b.bytesIn.Load(), BytesOut: b.bytesOut.Load(),
	}
	c.InFlight = c.Requests - c.Answered - c.Failed - c.Aborted
	data, err := json.Marshal(c)
	if err != nil {
		panic(err) // numbers always marshal
	}
	return data
}

// take sends the entries of a run and forgets them.
func (b *books) take(run string, out *outlet) error {
	entries := b.taken(run)
	// The length is not known before the end, so the end of the connection says it.
	if _, err := out.conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n")); err != nil {
		return err
	}
	buf := make([]byte, 0, 256<<10)
	for i, e := range entries {
		line := Entry{
			V: 1, ID: e.id(), N: e.n, ArrivedNS: e.arrived, PromptTokens: e.prompt, OutputTokens: len(e.wrote),
			WroteNS: e.wrote, Outcome: e.outcome,
		}
		buf = line.append(buf)
		if len(buf) >= 128<<10 || i == len(entries)-1 {
			if _, err := out.conn.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return fmt.Errorf("%w: the answer ends with its connection", errGone)
}
