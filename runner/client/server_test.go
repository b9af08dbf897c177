package client

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client/scripttest"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// okAnswer is a whole answer with two tokens.
const okAnswer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// okChunks is its body.
func okChunks() string {
	s := scripttest.Script{Framing: "chunked"}
	body := helloEvent + helloEvent + finishEvent + usageEvent(`{"prompt_tokens":1,"completion_tokens":2}`) + doneEvent
	return string(s.Frame([]byte(body))) + "0\r\n\r\n"
}

// server runs serve for each connection and counts the requests read by [server.next].
type server struct {
	net.Listener
	seen, conns atomic.Int64
}

func newServer(tb testing.TB, serve func(s *server, c net.Conn, br *bufio.Reader)) *server {
	tb.Helper()
	return serveOn(listen(tb), serve)
}

func serveOn(l net.Listener, serve func(s *server, c net.Conn, br *bufio.Reader)) *server {
	s := &server{Listener: l}
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			go func() {
				defer c.Close()
				serve(s, c, bufio.NewReader(c))
			}()
		}
	}()
	return s
}

// next reads one request.
func (s *server) next(br *bufio.Reader) bool {
	req, err := http.ReadRequest(br)
	if err != nil {
		return false
	}
	s.seen.Add(1)
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// serveOK answers every request.
func serveOK(s *server, c net.Conn, br *bufio.Reader) {
	for s.next(br) {
		if _, err := io.WriteString(c, okAnswer+okChunks()); err != nil {
			return
		}
	}
}

func (s *server) client(tb testing.TB, change func(*Options)) *Client {
	tb.Helper()
	o := Options{URL: "http://" + s.Addr().String(), Model: "m", Limits: record.DefaultLimits(), Clock: record.NewClock()}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// send sends one request that is due after a delay.
func send(tb testing.TB, c *Client, in time.Duration) record.Sample {
	tb.Helper()
	return sendBody(tb.Context(), tb, c, c.shortPrompt("hi", 8), in)
}

func sendBody(ctx context.Context, tb testing.TB, c *Client, f fields, in time.Duration) record.Sample {
	tb.Helper()
	r, err := c.request(f, true)
	if err != nil {
		tb.Fatal(err)
	}
	r.Sched = c.o.Clock.Now() + record.Instant(in)
	release := make(chan record.Instant, 1)
	timer := time.AfterFunc(in, func() { release <- c.o.Clock.Now() })
	defer timer.Stop()
	s, st := c.Do(ctx, r, release)
	checkSample(tb, s, st)
	return s
}
