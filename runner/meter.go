package runner

import (
	"sync"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// meter cuts the traffic of a warm-up into windows while it flows. Its methods are safe for concurrent use.
//
// Tokens count in the window in which their event arrived. Where an event's token count is unknown, the ratio of tokens to
// events among finished answers stands in (1 until one has finished).
type meter struct {
	start  record.Instant
	window time.Duration
	// stream is false for services that answer in one piece: the latency signal is then the whole answer's.
	stream bool
	// closed is true for a closed loop, which offers what the server takes: a window is then measured against the first that
	// delivered anything.
	closed bool

	mu      sync.Mutex
	first   float64
	windows []tally
	tokens  int
	events  int
}

// tally is what one window saw.
type tally struct {
	offered, requests int
	events            int
	gap               time.Duration
	gaps              int
	whole             time.Duration
	ended             int
	failed            int
	delivered         int
}

func newMeter(start record.Instant, window time.Duration, stream bool) *meter {
	return &meter{start: start, window: window, stream: stream}
}

// begin sets the start of the first window; nothing has been sent before.
func (m *meter) begin(start record.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.start = start
}

// rate is how many requests a second ended well over the last windows, at most five, the one under way left out; 0 when
// there are none.
func (m *meter) rate() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.windows[:max(0, len(m.windows)-1)]
	last = last[max(0, len(last)-5):]
	ended := 0
	for _, w := range last {
		ended += w.ended
	}
	if len(last) == 0 {
		return 0
	}
	return float64(ended) / (float64(len(last)) * m.window.Seconds())
}

// at returns the window of an instant; the lock must be held.
func (m *meter) at(t record.Instant) *tally {
	k := max(0, int(time.Duration(t-m.start)/m.window))
	for len(m.windows) <= k {
		m.windows = append(m.windows, tally{})
	}
	return &m.windows[k]
}

// offer notes what window k asks for.
func (m *meter) offer(k, requests, tokens int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.at(m.start + record.Instant(k)*record.Instant(m.window))
	w.requests, w.offered = requests, tokens
}

// event is the tap of the requests in flight.
func (m *meter) event(prev, now record.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.at(now)
	w.events++
	if prev.Reached() {
		w.gap += time.Duration(now - prev)
		w.gaps++
	}
}

// ended counts a finished request.
func (m *meter) ended(s record.Sample, now record.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := s.End
	if !at.Reached() {
		at = now
	}
	w := m.at(at)
	if s.Class != record.OK {
		w.failed++
		return
	}
	w.whole += time.Duration(s.End - s.Sched)
	w.ended++
	if s.NOut != nil {
		m.tokens += *s.NOut
		m.events += s.PayloadEvents
		w.delivered += *s.NOut
	}
}

// read returns window k as the warm-up rule sees it.
func (m *meter) read(k int) record.SteadyWindow {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := *m.at(m.start + record.Instant(k)*record.Instant(m.window))
	out := record.SteadyWindow{
		Requests: w.requests, Failed: w.failed,
		Delivered: record.NA("nothing was offered"), Latency: record.NA("no gap between tokens"),
	}
	tokens := float64(w.delivered)
	if m.stream {
		tokens = float64(w.events)
		if m.events > 0 {
			tokens *= float64(m.tokens) / float64(m.events)
		}
	}
	offered := float64(w.offered)
	if m.closed {
		if m.first == 0 {
			m.first = tokens
		}
		offered, out.Requests = m.first, w.ended+w.failed
	}
	if offered > 0 {
		out.Delivered = record.Of(tokens / offered)
	}
	switch {
	case m.stream && w.gaps > 0:
		out.Latency = record.Of(w.gap.Seconds() * 1e3 / float64(w.gaps))
	case !m.stream && w.ended > 0:
		out.Latency = record.Of(w.whole.Seconds() * 1e3 / float64(w.ended))
	}
	return out
}
