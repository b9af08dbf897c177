package client

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// llama.cpp's server announces Keep-Alive and closes some 50 µs behind each streamed answer. Requests sent back to back must
// not be written into a connection that is about to go: none fails, each is seen once.
func TestServerThatClosesBehindItsAnswer(t *testing.T) {
	s := newServer(t, func(s *server, c net.Conn, br *bufio.Reader) {
		if s.next(br) {
			_, _ = io.WriteString(c, okAnswer+okChunks())
			time.Sleep(200 * time.Microsecond)
		}
	})
	c := s.client(t, nil)
	const requests = 50
	for i := range requests {
		if got := send(t, c, 0); got.Class != record.OK || got.Reused {
			t.Fatalf("request %d: %s %s, reused %t", i, got.Class, got.Detail, got.Reused)
		}
	}
	if s.seen.Load() != requests || s.conns.Load() != requests {
		t.Errorf("%d requests seen on %d connections", s.seen.Load(), s.conns.Load())
	}
}

// A server that keeps its connections is asked over one, and only the second request waits for the proof.
func TestServerThatKeepsConnections(t *testing.T) {
	s := newServer(t, serveOK)
	c := s.client(t, nil)
	const requests = 50
	for i := range requests {
		if got := send(t, c, 0); got.Class != record.OK || got.Reused != (i > 0) {
			t.Fatalf("request %d: %s %s, reused %t", i, got.Class, got.Detail, got.Reused)
		}
	}
	if s.conns.Load() != 1 || c.pool.proof != keeps {
		t.Errorf("%d connections, proof %d", s.conns.Load(), c.pool.proof)
	}
}
