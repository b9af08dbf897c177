package client

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// The row "64 streams x 500 KB": as many connections at once, a prompt or an answer of that size on each.
const (
	copyStreams = 64
	copyBytes   = 500_000
)

// copyRate runs one exchange per connection, all at once and several times over, and returns bytes per second of the best
// of some runs; the first one dials.
func copyRate(tb testing.TB, runs int, exchange func(i int)) float64 {
	tb.Helper()
	var best float64
	for range runs + 1 {
		var wg sync.WaitGroup
		start := time.Now()
		for i := range copyStreams {
			wg.Go(func() {
				for range 4 {
					exchange(i)
				}
			})
		}
		wg.Wait()
		best = max(best, 4*copyStreams*copyBytes/time.Since(start).Seconds())
	}
	return best
}

// plainCopy writes request to each connection and reads as many bytes as answer has, with nothing in between: what any
// client costs at least.
func plainCopy(tb testing.TB, address string, request, answer []byte) func(i int) {
	tb.Helper()
	conns := make([]net.Conn, copyStreams)
	for i := range conns {
		c, err := new(net.Dialer).DialContext(tb.Context(), "tcp", address)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = c.Close() })
		conns[i] = c
	}
	return func(i int) {
		if _, err := conns[i].Write(request); err != nil {
			tb.Error(err)
		}
		buf := make([]byte, pageSize)
		for left := len(answer); left > 0; {
			n, err := conns[i].Read(buf[:min(left, len(buf))])
			if err != nil {
				tb.Error(err)
				return
			}
			left -= n
		}
	}
}

// promptCopy and answerCopy return a client's rate and that of a plain copy of the same bytes to the same server.
func promptCopy(tb testing.TB, runs int) (ours, plain float64) {
	tb.Helper()
	address := startServer(tb, "answers")
	c := rawClient(tb, address)
	r, err := c.request(c.shortPrompt(strings.Repeat("x", copyBytes), 8), false)
	if err != nil {
		tb.Fatal(err)
	}
	copying := plainCopy(tb, address, r.Wire, wholeAnswer())
	return copyRate(tb, runs, ask(tb, c, *r)), copyRate(tb, runs, copying)
}

func answerCopy(tb testing.TB, runs int) (ours, plain float64) {
	tb.Helper()
	address := startServer(tb, "body 500000")
	c := rawClient(tb, address)
	r, err := c.request(c.shortPrompt("hi", 8), true)
	if err != nil {
		tb.Fatal(err)
	}
	copying := plainCopy(tb, address, r.Wire, longAnswer(copyBytes))
	return copyRate(tb, runs, ask(tb, c, *r)), copyRate(tb, runs, copying)
}

func ask(tb testing.TB, c *Client, r Request) func(int) {
	tb.Helper()
	return func(int) {
		r := r
		release := make(chan record.Instant, 1)
		r.Sched = c.o.Clock.Now()
		release <- r.Sched
		if got, _ := c.Do(tb.Context(), &r, release); got.Class != record.OK {
			tb.Errorf("%s: %s", got.Class, got.Detail)
		}
	}
}

func BenchmarkCopyOfPrompts(b *testing.B) {
	for b.Loop() {
		ours, plain := promptCopy(b, 5)
		b.ReportMetric(ours/1e6, "MB/s")
		b.ReportMetric(100*ours/plain, "%-of-plain-copy")
	}
}

func BenchmarkCopyOfAnswers(b *testing.B) {
	for b.Loop() {
		ours, plain := answerCopy(b, 5)
		b.ReportMetric(ours/1e6, "MB/s")
		b.ReportMetric(100*ours/plain, "%-of-plain-copy")
	}
}

// The figure itself is a benchmark's; here only what no busy machine explains, such as a copy of the body or small reads.
func TestLongPromptsGoOutWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("moves some hundred megabytes")
	}
	ours, plain := promptCopy(t, 2)
	t.Logf("%.0f MB/s, a plain copy %.0f", ours/1e6, plain/1e6)
	if ours < plain/3 {
		t.Errorf("%.0f MB/s, a plain copy of the same bytes %.0f", ours/1e6, plain/1e6)
	}
}

// A long answer takes few reads: the page is large, and nothing but the socket decides how much of it one read fills.
func TestLongAnswersTakeFewReads(t *testing.T) {
	c, far := net.Pipe()
	go func() {
		_, _ = far.Write(longAnswer(copyBytes))
		_ = far.Close()
	}()
	k := newConn(c, c, record.NewClock())
	k.begin(&watch{ctx: t.Context()})
	var err error
	for err == nil {
		_, err = k.next()
	}
	if most := len(longAnswer(copyBytes))/pageSize + 2; k.last.read > most || err != io.EOF { //nolint:errorlint // as it comes
		t.Errorf("%d reads, want at most %d; %v", k.last.read, most, err)
	}
	if _ = k.Close(); k.page != nil {
		t.Error("a closed connection holds a page")
	}
}
