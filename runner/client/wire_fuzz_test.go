package client

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// canned is a connection whose peer takes everything and says what it was given, in pieces.
type canned struct {
	net.Conn
	rest  []byte
	piece int
}

func (c *canned) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(c.rest))
	if c.piece > 0 {
		n = min(n, c.piece)
	}
	copy(p, c.rest[:n])
	c.rest = c.rest[n:]
	return n, nil
}

func (*canned) Write(p []byte) (int, error)      { return len(p), nil }
func (*canned) SetDeadline(time.Time) error      { return nil }
func (*canned) SetReadDeadline(time.Time) error  { return nil }
func (*canned) SetWriteDeadline(time.Time) error { return nil }
func (*canned) Close() error                     { return nil }

// facts are what an answer's bytes decide, whenever and however they come.
type facts struct {
	class            record.Outcome
	status, payloads int
	text, finish     string
}

func answered(t *testing.T, input []byte, piece int, stream bool) facts {
	t.Helper()
	c, err := prepare(Options{URL: "http://127.0.0.1:1", Model: "m", Limits: record.DefaultLimits(), Clock: record.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.dial = func(context.Context, string) (net.Conn, error) { return &canned{rest: input, piece: piece}, nil }
	r, err := c.request(c.shortPrompt("hi", 8), stream)
	if err != nil {
		t.Fatal(err)
	}
	r.Sched = c.o.Clock.Now()
	told := 0
	r.Ended = func(record.Instant, bool) { told++ }
	release := make(chan record.Instant, 1)
	release <- r.Sched
	s, st := c.Do(t.Context(), r, release)
	checkSample(t, s, st)
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	return facts{s.Class, s.Status, s.PayloadEvents, s.TextSHA, s.Finish}
}

// FuzzAnswer sends arbitrary bytes as the answer, head and all. It must end in one outcome, and that must not depend on how
// the bytes were cut.
func FuzzAnswer(f *testing.F) {
	for _, s := range headSeeds {
		f.Add([]byte(s), true)
		f.Add([]byte(s+helloEvent), true)
	}
	f.Add([]byte(okAnswer+okChunks()), true)
	f.Add([]byte(okAnswer+okChunks()+"HTTP/1.1 200 OK\r\n"), true)
	f.Add(wholeAnswer(), false)
	f.Add(append(wholeAnswer(), "more"...), false)
	for _, s := range loadScripts(f) {
		if body := s.Body(); len(body) < 4<<10 {
			f.Add(append([]byte(okAnswer), s.Frame(body)...), true)
			f.Add(append([]byte("HTTP/1.1 200 OK\r\n\r\n"), body...), true)
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, stream bool) {
		whole := answered(t, bytes.Clone(input), 0, stream)
		for _, piece := range []int{1, 13} {
			if got := answered(t, bytes.Clone(input), piece, stream); got != whole {
				t.Errorf("in pieces of %d: %+v, whole: %+v", piece, got, whole)
			}
		}
	})
}
