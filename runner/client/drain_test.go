package client

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// abortCounter serves one answer per connection, in parts a while apart, and counts the answers that the client did not let it
// finish: a connection that closes before the last byte is out, or is reset then.
func abortCounter(t *testing.T, aborted *atomic.Int64, parts ...string) *server {
	t.Helper()
	return newServer(t, func(s *server, c net.Conn, br *bufio.Reader) {
		for s.next(br) {
			left := make(chan struct{})
			go func() {
				defer close(left)
				_, _ = br.Peek(1)
			}()
			for i, part := range parts {
				if i > 0 {
					select {
					case <-left:
						aborted.Add(1)
						return
					case <-time.After(20 * time.Millisecond):
					}
				}
				if _, err := io.WriteString(c, part); err != nil {
					aborted.Add(1)
					return
				}
			}
			<-left
		}
	})
}

// Whatever an answer says, it is read to its end: servers that see a client leave stop generating.
func TestBodiesAreDrained(t *testing.T) {
	const plain = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
	event := func(s string) string { return frame("data: " + s + "\n\n") }
	tests := []struct {
		name  string
		want  record.Outcome
		parts []string
	}{
		{"stream", record.OK, []string{okAnswer, frame(helloEvent), frame(finishEvent), frame(doneEvent), "0\r\n\r\n"}},
		{"bytes after the end marker", record.OK, []string{okAnswer, frame(helloEvent + finishEvent + doneEvent), frame(": bye\n\n"), "0\r\n\r\n"}},
		{"error in the stream", record.StreamError, []string{okAnswer, frame(helloEvent), event(`{"error":{"message":"no"}}`), event(`{}`), "0\r\n\r\n"}},
		{"not the dialect", record.Malformed, []string{okAnswer, event("x"), event("y"), "0\r\n\r\n"}},
		{"refused", record.HTTP503, []string{"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 200000\r\n\r\n", strings.Repeat("x", 100_000), strings.Repeat("x", 100_000)}},
		{"redirect", record.Redirect, []string{"HTTP/1.1 307 Temporary Redirect\r\nLocation: /x\r\nContent-Length: 4\r\n\r\n", "ab", "cd"}},
		{"compressed", record.Malformed, []string{plain + "4\r\nContent-Encoding: gzip\r\n\r\n", "ab", "cd"}},
		{"whole", record.OK, []string{plain + "81\r\n\r\n", `{"choices":[{"index":0,"message":{"content":"A"},`, `"finish_reason":"stop"}]}` + strings.Repeat(" ", 7)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var aborted atomic.Int64
			s := abortCounter(t, &aborted, tt.parts...)
			c := s.client(t, nil)
			for i := range 2 {
				if got := send(t, c, 0); got.Class != tt.want || got.Reused != (i == 1) {
					t.Errorf("%s: %s, reused %t", got.Class, got.Detail, got.Reused)
				}
			}
			c.Close()
			if n := aborted.Load(); n != 0 || s.seen.Load() != 2 {
				t.Errorf("the server saw %d requests and %d aborted generations", s.seen.Load(), n)
			}
		})
	}
}

// Only a limit closes early, and the sample says which.
func TestEarlyCloseIsRecorded(t *testing.T) {
	var aborted atomic.Int64
	left := make(chan struct{})
	s := newServer(t, func(s *server, c net.Conn, br *bufio.Reader) {
		s.next(br)
		_, _ = io.WriteString(c, okAnswer+frame(helloEvent))
		if _, err := br.Peek(1); err != nil {
			aborted.Add(1)
		}
		close(left)
	})
	c := s.client(t, func(o *Options) { o.Limits.Idle = 50 * time.Millisecond })
	got := send(t, c, 0)
	<-left
	if got.Class != record.Timeout || got.Detail != "idle" || aborted.Load() != 1 || s.seen.Load() != 1 {
		t.Errorf("%s %s, %d aborted, %d seen", got.Class, got.Detail, aborted.Load(), s.seen.Load())
	}
}

// After the end marker the client waits 100 ms for the end of the body and closes. Whoever waits for the outcome learns it
// at the marker.
func TestEndIsKnownAtTheMarker(t *testing.T) {
	tests := []struct {
		name string
		// write is what the server says, then for how long it holds on, then what else it says.
		write string
		hold  time.Duration
		more  string
		class record.Outcome
		took  time.Duration
		trail int64
	}{
		{"at once", frame(helloEvent+finishEvent+doneEvent) + "0\r\n\r\n", 0, "", record.OK, 0, 0},
		{"soon", frame(helloEvent + finishEvent + doneEvent), 40 * time.Millisecond, "0\r\n\r\n", record.OK, 40 * time.Millisecond, 0},
		{"never", frame(helloEvent + finishEvent + doneEvent), time.Hour, "", record.OK, 100 * time.Millisecond, 0},
		{"trailing", frame(helloEvent + finishEvent + doneEvent), 40 * time.Millisecond, frame("data: {}\n\n") + "0\r\n\r\n", record.OK, 40 * time.Millisecond, 10},
		{"broken after it", frame(helloEvent + finishEvent + doneEvent), 40 * time.Millisecond, "no chunk", record.OK, 40 * time.Millisecond, 8},
		{"no marker", frame(helloEvent + finishEvent), 40 * time.Millisecond, "0\r\n\r\n", record.OK, 40 * time.Millisecond, 0},
		{"nothing of use", frame(doneEvent), 40 * time.Millisecond, "0\r\n\r\n", record.EmptyOutput, 40 * time.Millisecond, 0},
		{"cut", frame(helloEvent), 40 * time.Millisecond, "", record.UnexpectedEOF, 40 * time.Millisecond, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, stop := pipeClient(t, func(s *server, conn net.Conn, br *bufio.Reader) {
					for s.next(br) {
						_, _ = io.WriteString(conn, okAnswer+tt.write)
						time.Sleep(tt.hold)
						if tt.more == "" && tt.hold > 0 {
							return
						}
						_, _ = io.WriteString(conn, tt.more)
					}
				})
				r, err := c.request(c.shortPrompt("hi", 8), true)
				if err != nil {
					t.Fatal(err)
				}
				start := c.o.Clock.Now()
				r.Sched = start
				calls := 0
				var told, end record.Instant
				var ok bool
				r.Ended = func(at record.Instant, good bool) { calls++; told, end, ok = c.o.Clock.Now(), at, good }
				release := make(chan record.Instant, 1)
				release <- r.Sched
				got, st := c.Do(t.Context(), r, release)
				took := time.Duration(c.o.Clock.Now() - start)
				checkSample(t, got, st)
				stop()
				if got.Class != tt.class || took != tt.took || got.TrailingBytes != tt.trail {
					t.Errorf("%s: %s after %v, %d trailing bytes", got.Class, got.Detail, took, got.TrailingBytes)
				}
				if calls != 1 || end != got.End || ok != (got.Class == record.OK) {
					t.Errorf("told %d times: end %d, ok %t; the sample ends at %d with %s", calls, end, ok, got.End, got.Class)
				}
				if tt.name != "no marker" && tt.name != "cut" && told != start {
					t.Errorf("told %v after the marker", time.Duration(told-start))
				}
			})
		})
	}
}

// One stream may hold two connections, for which [CheckStreams] asks: the next request goes out with the end marker of the one
// before, whose connection still waits for the end of its body.
func TestAStreamHoldsTwoConnections(t *testing.T) {
	for hold, want := range map[time.Duration]int64{0: 1, 40 * time.Millisecond: 2, 90 * time.Millisecond: 2} {
		synctest.Test(t, func(t *testing.T) {
			var open, most atomic.Int64
			c, stop := pipeClient(t, func(s *server, conn net.Conn, br *bufio.Reader) {
				most.Store(max(most.Load(), open.Add(1)))
				defer open.Add(-1)
				for s.next(br) {
					time.Sleep(200 * time.Millisecond)
					_, _ = io.WriteString(conn, okAnswer+frame(helloEvent+finishEvent+doneEvent))
					time.Sleep(hold)
					if _, err := io.WriteString(conn, "0\r\n\r\n"); err != nil {
						return
					}
				}
			})
			over := make(chan struct{}, 1)
			var flying sync.WaitGroup
			for range 20 {
				r, err := c.request(c.shortPrompt("hi", 8), true)
				if err != nil {
					t.Fatal(err)
				}
				r.Sched = c.o.Clock.Now()
				r.Ended = func(record.Instant, bool) { over <- struct{}{} }
				release := make(chan record.Instant, 1)
				release <- r.Sched
				flying.Go(func() {
					if got, _ := c.Do(t.Context(), r, release); got.Class != record.OK {
						t.Errorf("%s: %s", got.Class, got.Detail)
					}
				})
				<-over
				// A server that ends its bodies at once has done so by now.
				time.Sleep(time.Millisecond)
			}
			flying.Wait()
			stop()
			if most.Load() != want {
				t.Errorf("a body that ends %v late: %d connections at once, want %d", hold, most.Load(), want)
			}
		})
	}
}
