package client

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/runner/client/scripttest"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// BenchmarkDo is one whole request of ten events on a kept-alive loopback connection, server included.
func BenchmarkDo(b *testing.B) {
	framed := scripttest.Script{Framing: "chunked"}
	answer := okAnswer + strings.Repeat(string(framed.Frame([]byte(helloEvent))), 10) + string(framed.Frame([]byte(finishEvent+doneEvent))) + "0\r\n\r\n"
	s := newServer(b, func(s *server, c net.Conn, br *bufio.Reader) {
		for s.next(br) {
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	})
	c := s.client(b, nil)
	r, err := c.request(c.shortPrompt("hi", 16), true)
	if err != nil {
		b.Fatal(err)
	}
	release := make(chan record.Instant, 1)
	for b.Loop() {
		r.Sched = c.o.Clock.Now()
		release <- r.Sched
		if got, _ := c.Do(b.Context(), r, release); got.Class != record.OK || got.PayloadEvents != 10 {
			b.Fatalf("%s: %s", got.Class, got.Detail)
		}
	}
}
