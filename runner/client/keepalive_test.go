package client

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// A server closes each connection some time after its answer, and the next request comes later still: the dead connection
// is seen before the write and replaced, so that no request fails and each is seen once. The server tells when it has
// closed, for what takes 2 s and 2.5 s in life.
func TestDeadKeepAliveConnectionIsReplaced(t *testing.T) {
	const requests = 100
	closed := make(chan struct{})
	s := newServer(t, func(s *server, c net.Conn, br *bufio.Reader) {
		for s.next(br) {
			_, _ = io.WriteString(c, okAnswer+okChunks())
			<-closed
			_ = c.Close()
			closed <- struct{}{}
		}
	})
	c := s.client(t, nil)
	for i := range requests {
		if got := send(t, c, 0); got.Class != record.OK || got.Reused {
			t.Fatalf("%d: %s: %s, reused %t", i, got.Class, got.Detail, got.Reused)
		}
		closed <- struct{}{}
		<-closed
	}
	if seen := s.seen.Load(); seen != requests {
		t.Errorf("seen %d of %d", seen, requests)
	}
	if n := c.Attempts(); n != requests {
		t.Errorf("%d attempts for %d requests", n, requests)
	}
}

// Several idle connections may all have died; a living one below them is used.
func TestDeadConnectionsAreSkipped(t *testing.T) {
	type held struct{ client, server net.Conn }
	var all []held
	accepted := make(chan net.Conn)
	s := newServer(t, func(s *server, c net.Conn, br *bufio.Reader) {
		accepted <- c
		serveOK(s, c, br)
	})
	c := s.client(t, nil)
	for range 3 {
		d, err := c.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, held{d.conn, <-accepted})
		c.pool.put(d.conn)
	}
	// The one put back first lies at the bottom.
	for _, h := range all[1:] {
		_ = h.server.Close()
	}
	got := send(t, c, 0)
	if got.Class != record.OK || !got.Reused || s.conns.Load() != 3 || s.seen.Load() != 1 {
		t.Errorf("%s %s, reused %t, %d connections, %d seen", got.Class, got.Detail, got.Reused, s.conns.Load(), s.seen.Load())
	}
}

// Bytes that nobody asked for make a kept connection useless: they would be taken for the next answer.
func TestUnaskedBytesAreNoAnswer(t *testing.T) {
	extra := make(chan struct{})
	s := newServer(t, func(s *server, c net.Conn, br *bufio.Reader) {
		for s.next(br) {
			_, _ = io.WriteString(c, okAnswer+okChunks())
			<-extra
			_, _ = io.WriteString(c, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
			extra <- struct{}{}
		}
	})
	c := s.client(t, nil)
	for range 3 {
		if got := send(t, c, 0); got.Class != record.OK || got.Reused {
			t.Errorf("%s %s, reused %t", got.Class, got.Detail, got.Reused)
		}
		extra <- struct{}{}
		<-extra
	}
}

// The table's row as it is written, in fake time, where a pipe takes the place of a socket and only age can tell: closes
// after 5 s, our own limit is 3 s.
func TestOldConnectionsAreNotUsed(t *testing.T) {
	for pause, dials := range map[time.Duration]int{
		2900 * time.Millisecond: 1,
		3100 * time.Millisecond: 5,
	} {
		synctest.Test(t, func(t *testing.T) {
			c, stop := pipeClient(t, serveOK)
			defer stop()
			for range 5 {
				if got := send(t, c, 0); got.Class != record.OK {
					t.Errorf("%s: %s", got.Class, got.Detail)
				}
				time.Sleep(pause)
			}
			if dialled, reused := c.Connections(); dialled != dials || reused != 5-dials {
				t.Errorf("%v apart: dialled %d, reused %d", pause, dialled, reused)
			}
		})
	}
}

// pipeClient is a client whose connections are pipes to a server. stop ends both.
func pipeClient(t *testing.T, serve func(s *server, c net.Conn, br *bufio.Reader)) (c *Client, stop func()) {
	t.Helper()
	var serving sync.WaitGroup
	s := &server{}
	c, err := prepare(Options{URL: "http://127.0.0.1:1", Model: "m", Limits: record.DefaultLimits(), Clock: record.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	c.dial = func(context.Context, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		serving.Go(func() {
			defer theirs.Close()
			serve(s, theirs, bufio.NewReader(theirs))
		})
		return ours, nil
	}
	return c, func() {
		c.Close()
		serving.Wait()
	}
}
