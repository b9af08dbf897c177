package client

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// early is a request that its releaser may write, on its way.
type early struct {
	handover Handover
	release  chan record.Instant
	done     chan record.Sample
}

// fly starts a request and returns when its exchange is parked, if it is one that parks.
func fly(ctx context.Context, t *testing.T, c *Client, prompt string, parks bool) *early {
	t.Helper()
	r, err := c.request(c.shortPrompt(prompt, 16), true)
	if err != nil {
		t.Fatal(err)
	}
	e := &early{release: make(chan record.Instant, 1), done: make(chan record.Sample, 1)}
	r.Sched, r.Early = c.o.Clock.Now(), &e.handover
	go func() {
		s, _ := c.Do(ctx, r, e.release)
		e.done <- s
	}()
	for limit := time.Now().Add(10 * time.Second); parks && e.handover.parked.Load() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the exchange never parked")
		}
	}
	return e
}

func (e *early) depart(c *Client) record.Sample {
	pick := c.o.Clock.Now()
	e.handover.Write()
	e.release <- pick
	return <-e.done
}

func TestReleaserWritesBeforeTheGoroutineRuns(t *testing.T) {
	arrived := make(chan struct{}, 1)
	s := newServer(t, func(s *server, c net.Conn, br *bufio.Reader) {
		for s.next(br) {
			arrived <- struct{}{}
			_, _ = io.WriteString(c, okAnswer+okChunks())
		}
	})
	c := s.client(t, nil)
	for i := range 3 {
		e := fly(t.Context(), t, c, "hi", true)
		pick := c.o.Clock.Now()
		e.handover.Write()
		<-arrived // although nothing was released
		e.release <- pick
		got := <-e.done
		if got.Class != record.OK || got.Pick != pick || got.Wrote < pick || got.First < got.Wrote || got.Attempts != 1 || got.Reused != (i > 0) {
			t.Errorf("%d: %+v", i, got)
		}
	}
	if s.seen.Load() != 3 || c.Attempts() != 3 || s.conns.Load() != 1 {
		t.Errorf("%d seen, %d attempts, %d connections", s.seen.Load(), c.Attempts(), s.conns.Load())
	}
}

// The server closes the connection after the exchange has found it alive; the look before the write finds out.
func TestReleaserNeverWritesToTheDead(t *testing.T) {
	closing, closed := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(s *server, c net.Conn, br *bufio.Reader) {
		for s.next(br) {
			_, _ = io.WriteString(c, okAnswer+okChunks())
			if s.seen.Load() == 1 {
				<-closing
				_ = c.Close()
				close(closed)
			}
		}
	})
	c := s.client(t, nil)
	send(t, c, 0)
	e := fly(t.Context(), t, c, "hi", true)
	close(closing)
	<-closed
	if got := e.depart(c); got.Class != record.OK || got.Reused || got.Attempts != 1 {
		t.Errorf("%s: %s, reused %t, %d attempts", got.Class, got.Detail, got.Reused, got.Attempts)
	}
	if s.seen.Load() != 2 || c.Attempts() != 2 {
		t.Errorf("%d seen, %d attempts", s.seen.Load(), c.Attempts())
	}
}

func TestCancelledExchangeIsNotWritten(t *testing.T) {
	s := newServer(t, serveOK)
	c := s.client(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	e := fly(ctx, t, c, "hi", true)
	cancel()
	got := <-e.done
	e.handover.Write()
	if got.Class != record.Cut || got.Wrote.Reached() || s.seen.Load() != 0 || c.Attempts() != 0 {
		t.Errorf("%s, %d seen, %d attempts", got.Class, s.seen.Load(), c.Attempts())
	}
}

// Large requests are left to the goroutine.
func TestReleaserLeavesLargeRequests(t *testing.T) {
	s := newServer(t, serveOK)
	c := s.client(t, nil)
	e := fly(t.Context(), t, c, strings.Repeat("x", maxHandover+1), false)
	time.Sleep(50 * time.Millisecond) // long enough to have parked, on most machines
	if e.handover.parked.Load() != nil {
		t.Error("a large request parked")
	}
	if got := e.depart(c); got.Class != record.OK {
		t.Errorf("%s: %s", got.Class, got.Detail)
	}
}

// Whatever comes first, the cancel or the releaser: each request is written once or not at all, and both counts agree.
func TestReleaseAgainstCancel(t *testing.T) {
	s := newServer(t, serveOK)
	c := s.client(t, nil)
	const requests = 200
	var wrote int64
	for i := range requests {
		ctx, cancel := context.WithCancel(t.Context())
		e := fly(ctx, t, c, "hi", i%2 == 0)
		var both sync.WaitGroup
		both.Go(cancel)
		got := e.depart(c)
		both.Wait()
		if got.Wrote.Reached() {
			wrote++
		}
		if got.Class != record.OK && got.Class != record.Cut {
			t.Fatalf("%d: %s: %s", i, got.Class, got.Detail)
		}
	}
	if n := c.Attempts(); n != wrote {
		t.Errorf("%d attempts, %d samples written", n, wrote)
	}
	if seen := s.seen.Load(); seen > wrote {
		t.Errorf("%d seen of %d written", seen, wrote)
	}
}
