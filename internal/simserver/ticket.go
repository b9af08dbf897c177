package simserver

import "sync/atomic"

// ticket is one inference request between its handler and the engine. The engine's side never waits: it notes the
// instant of a token, raises the count and leaves a bell; the handler writes as many events as are due.
type ticket struct {
	sequence
	call  *call
	fate  FaultKind // empty for a healthy answer
	entry Entry
	conn  *stampedConn

	due  atomic.Int64 // tokens due; publishes at[:due] and the sequence's cached
	at   []int64
	bell chan struct{}
}

// newTicket prepares a request for the engine. One that will be broken off asks for the part it gets only.
func newTicket(c *call, fate FaultKind, hold int64, e Entry, conn *stampedConn) *ticket {
	n := c.output
	switch {
	case fate.breaks():
		n = max(n/2, 1)
	case fate == FaultEmpty:
		n = 1
	}
	t := &ticket{
		call: c, fate: fate, entry: e, conn: conn,
		at: make([]int64, n), bell: make(chan struct{}, 1),
	}
	t.sequence = sequence{arrival: e.ArrivedNS, hold: hold, prompt: c.prompt, output: n, out: t}
	t.entry.PromptTokens = c.prompt.tokens
	return t
}

// token implements sink.
func (t *ticket) token(at int64) {
	n := t.due.Load()
	t.at[n] = at
	t.due.Store(n + 1)
	select {
	case t.bell <- struct{}{}:
	default: // the handler is behind and will find this token too
	}
}

// wrote notes that events went out with the connection's last write.
func (t *ticket) wrote(events int) {
	for range events {
		t.entry.WroteNS = append(t.entry.WroteNS, t.conn.wrote.Load())
	}
}
