package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// frames is a server that speaks HTTP/2 frame by frame, to do what no library's server does, and counts the requests whose
// head came, over all connections.
type frames struct {
	net.Listener
	seen, conns atomic.Int64
}

// peer is one connection of it.
type peer struct {
	net.Conn
	// nth counts the requests of this connection from 1; first says that the server had none before it.
	nth   int
	first bool
}

func (p *peer) frame(kind, flags byte, stream uint32, payload ...byte) {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	_, _ = p.Write(append(b, payload...))
}

// The kinds and flags of frames that the tests send.
const (
	kindData, kindHeaders = 0, 1
	flagEnd, flagHeadEnd  = 1, 4
)

func (p *peer) reset(stream, code uint32) {
	p.frame(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code)...)
}

func (p *peer) goAway(last, code uint32) {
	p.frame(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code)...)
}

// begin sends ":status: 200", which has a number of its own (RFC 7541, appendix A), and part of a body.
func (p *peer) begin(stream uint32, body string) {
	p.frame(kindHeaders, flagHeadEnd, stream, 0x88)
	p.frame(kindData, 0, stream, []byte(body)...)
}

func (p *peer) answer(stream uint32) {
	p.begin(stream, helloEvent+finishEvent+doneEvent)
	p.frame(kindData, flagEnd, stream)
}

// serveFrames runs request for each request that came whole.
func serveFrames(tb testing.TB, settings []byte, request func(p *peer, stream uint32)) *frames {
	tb.Helper()
	s := &frames{Listener: listen(tb)}
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			go s.serve(&peer{Conn: c, first: s.conns.Add(1) == 1}, settings, request)
		}
	}()
	return s
}

func (s *frames) serve(p *peer, settings []byte, request func(p *peer, stream uint32)) {
	defer p.Close()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if _, err := io.ReadFull(p, make([]byte, len(preface))); err != nil {
		return
	}
	p.frame(frameSettings, 0, 0, settings...)
	for {
		var head [frameHead]byte
		if _, err := io.ReadFull(p, head[:]); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:4])>>8)
		if _, err := io.ReadFull(p, payload); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			p.frame(frameSettings, flagAck, 0)
		case kind == 6 && flags&flagAck == 0:
			p.frame(6, flagAck, 0, payload...)
		case kind == kindHeaders:
			s.seen.Add(1)
			p.nth++
		}
		if (kind == kindData || kind == kindHeaders) && flags&flagEnd != 0 {
			request(p, stream)
		}
	}
}

func (s *frames) url() string { return "http://" + s.Addr().String() }

// What a server does to a stream or to the connection is an outcome of the one attempt. Several of these make net/http's
// Transport send again.
func TestHTTP2BrokenStreams(t *testing.T) {
	for name, tt := range map[string]struct {
		do    func(p *peer, stream uint32)
		first record.Outcome
		// then is the class over a connection that has served before, where it differs.
		then record.Outcome
		says string
	}{
		"refused":              {func(p *peer, s uint32) { p.reset(s, codeRefused) }, record.ConnReset, "", "RST_STREAM REFUSED_STREAM"},
		"reset":                {func(p *peer, s uint32) { p.reset(s, 2) }, record.UnexpectedEOF, "", "RST_STREAM INTERNAL_ERROR"},
		"protocol error":       {func(p *peer, s uint32) { p.reset(s, 1) }, record.UnexpectedEOF, "", "RST_STREAM PROTOCOL_ERROR"},
		"unknown code":         {func(p *peer, s uint32) { p.reset(s, 77) }, record.UnexpectedEOF, "", "RST_STREAM code 77"},
		"cut in the middle":    {func(p *peer, s uint32) { p.begin(s, helloEvent); p.reset(s, 8) }, record.UnexpectedEOF, "", "RST_STREAM CANCEL"},
		"leaving":              {func(p *peer, s uint32) { p.goAway(max(s, 2)-2, 0); time.Sleep(50 * time.Millisecond) }, record.ConnReset, record.ConnStale, "GOAWAY"},
		"leaving calmly":       {func(p *peer, s uint32) { p.goAway(1<<31-1, 0); p.begin(s, helloEvent); _ = p.Close() }, record.UnexpectedEOF, "", "GOAWAY"},
		"closed":               {func(p *peer, _ uint32) { _ = p.Close() }, record.UnexpectedEOF, record.ConnStale, "closed"},
		"closed in the middle": {func(p *peer, s uint32) { p.begin(s, helloEvent); _ = p.Close() }, record.UnexpectedEOF, "", "cut"},
		"reset connection":     {func(p *peer, _ uint32) { _ = p.Conn.(*net.TCPConn).SetLinger(0); _ = p.Close() }, record.ConnReset, record.ConnStale, "reset"},
		"reset after the end":  {func(p *peer, s uint32) { p.begin(s, helloEvent+finishEvent+doneEvent); p.reset(s, 8) }, record.OK, "", ""},
		"bad frame":            {func(p *peer, s uint32) { p.frame(kindHeaders, flagHeadEnd, s, 0xff, 0xff, 0xff) }, record.Malformed, "", "error"},
		"no status":            {func(p *peer, s uint32) { p.frame(kindHeaders, flagHeadEnd|flagEnd, s) }, record.Malformed, "", "status"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, reused := range []bool{false, true} {
				s := serveFrames(t, nil, func(p *peer, stream uint32) {
					if reused && p.nth == 1 {
						p.answer(stream)
						return
					}
					tt.do(p, stream)
				})
				c, want, sent := client2(t, s.url(), nil), tt.first, int64(1)
				if reused {
					sent = 2
					if got := send(t, c, 0); got.Class != record.OK {
						t.Fatalf("%s: %s", got.Class, got.Detail)
					}
					if tt.then != "" {
						want = tt.then
					}
				}
				got := send(t, c, 0)
				if got.Class != want || !strings.Contains(got.Detail, tt.says) || got.Reused != reused {
					t.Errorf("reused %t: %s: %s, want %s %q", reused, got.Class, got.Detail, want, tt.says)
				}
				if s.seen.Load() != sent || c.Attempts() != sent || got.Attempts != 1 || s.conns.Load() != 1 {
					t.Errorf("reused %t: the server saw %d requests over %d connections, %d were sent, %d attempted", reused, s.seen.Load(), s.conns.Load(), sent, c.Attempts())
				}
			}
		})
	}
}

// The control of the test above: the standard client does send a refused request again.
func TestTransportWouldSendAgain(t *testing.T) {
	s := serveFrames(t, nil, func(p *peer, stream uint32) { p.reset(stream, codeRefused) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	transport := &http.Transport{Protocols: onlyHTTP2()}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url(), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for s.seen.Load() < 2 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	time.AfterFunc(30*time.Second, cancel)
	resp, err := transport.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if s.seen.Load() < 2 {
		t.Errorf("the server saw %d requests: this server proves nothing about sending twice", s.seen.Load())
	}
}

// Seen = sent under a server that refuses, cuts and leaves all the time.
func TestHTTP2SeenIsSent(t *testing.T) {
	const workers, each = 8, 150
	// At most 3 streams at a time.
	settings := []byte{0, settingStreams, 0, 0, 0, 3}
	s := serveFrames(t, settings, func(p *peer, stream uint32) {
		switch {
		case p.nth%40 == 0:
			p.goAway(stream, 0)
			p.answer(stream)
		case p.nth%7 == 0:
			p.reset(stream, codeRefused)
		case p.nth%11 == 0:
			p.begin(stream, helloEvent)
			p.reset(stream, 2)
		default:
			p.answer(stream)
		}
	})
	c := client2(t, s.url(), nil)
	var classes sync.Map
	var wg sync.WaitGroup
	var attempts atomic.Int64
	for range workers {
		wg.Go(func() {
			for range each {
				got := send(t, c, 0)
				attempts.Add(int64(got.Attempts))
				n, _ := classes.LoadOrStore(got.Class, new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
				switch got.Class {
				case record.OK, record.ConnReset, record.UnexpectedEOF, record.ConnStale:
				default:
					t.Errorf("%s: %s", got.Class, got.Detail)
				}
			}
		})
	}
	wg.Wait()
	of := func(class record.Outcome) int64 {
		n, ok := classes.Load(class)
		if !ok {
			return 0
		}
		return n.(*atomic.Int64).Load()
	}
	if sent := int64(workers * each); s.seen.Load() != attempts.Load() || c.Attempts() != attempts.Load() || attempts.Load() != sent {
		t.Errorf("sent %d, attempted %d by the samples and %d by the client, seen %d", sent, attempts.Load(), c.Attempts(), s.seen.Load())
	}
	if of(record.OK) == 0 || of(record.ConnReset) == 0 || of(record.UnexpectedEOF) == 0 {
		t.Errorf("%d answered, %d refused, %d cut", of(record.OK), of(record.ConnReset), of(record.UnexpectedEOF))
	}
	dialled, reused := c.Connections()
	// A connection may leave before the request that had it dialled got to it.
	if n := dialled + reused; n < workers*each || n > workers*each+dialled || int64(dialled) != s.conns.Load() || dialled < 2 {
		t.Errorf("dialled %d, reused %d, accepted %d", dialled, reused, s.conns.Load())
	}
}

// A connection that net/http gives up takes no new request, although others are still answered on it: none waits for their end.
func TestHTTP2GivenUp(t *testing.T) {
	hold, begun := make(chan struct{}), make(chan struct{})
	s := serveFrames(t, nil, func(p *peer, stream uint32) {
		switch {
		case p.first && p.nth == 1:
			p.begin(stream, helloEvent)
			close(begun)
			go func() {
				<-hold
				p.frame(kindData, flagEnd, stream, []byte(finishEvent+doneEvent)...)
			}()
		case p.first:
			p.reset(stream, codeProtocol)
		default:
			p.answer(stream)
		}
	})
	c := client2(t, s.url(), nil)
	first := make(chan record.Sample, 1)
	go func() { first <- send(t, c, 0) }()
	<-begun
	for _, want := range []record.Outcome{record.UnexpectedEOF, record.OK} {
		if got := send(t, c, 0); got.Class != want {
			t.Errorf("%s: %s, want %s", got.Class, got.Detail, want)
		}
	}
	close(hold)
	if got := <-first; got.Class != record.OK {
		t.Errorf("%s: %s", got.Class, got.Detail)
	}
	if s.conns.Load() != 2 || s.seen.Load() != 3 {
		t.Errorf("%d connections, %d requests", s.conns.Load(), s.seen.Load())
	}
}

// A server that leaves lets what it has begun come to its end, and the next request goes over a new connection.
func TestHTTP2LeavesCalmly(t *testing.T) {
	left := make(chan struct{})
	finish := make(chan struct{})
	s := serveFrames(t, nil, func(p *peer, stream uint32) {
		if !p.first {
			p.answer(stream)
			return
		}
		p.begin(stream, helloEvent)
		p.goAway(stream, 0)
		close(left)
		go func() {
			<-finish
			p.frame(kindData, flagEnd, stream, []byte(finishEvent+doneEvent)...)
		}()
	})
	c := client2(t, s.url(), nil)
	first := make(chan record.Sample, 1)
	go func() { first <- send(t, c, 0) }()
	<-left
	old := c.trunk.carrier
	for !old.gone() {
		time.Sleep(time.Millisecond)
	}
	second := send(t, c, 0)
	close(finish)
	for _, got := range []record.Sample{<-first, second} {
		if got.Class != record.OK || got.Reused {
			t.Errorf("%s: %s, reused %t", got.Class, got.Detail, got.Reused)
		}
	}
	if s.conns.Load() != 2 || s.seen.Load() != 2 {
		t.Errorf("%d connections, %d requests", s.conns.Load(), s.seen.Load())
	}
}

// What is known of the server's frames does not depend on how they arrive.
func TestSkim(t *testing.T) {
	settings := []byte{0, 0, 12, frameSettings, 0, 0, 0, 0, 0, 0, settingStreams, 0, 0, 0, 7, 0, 4, 0, 1, 0, 0}
	ack := []byte{0, 0, 0, frameSettings, flagAck, 0, 0, 0, 0}
	data := append([]byte{0, 0, 9, kindData, 0, 0, 0, 0, 1}, 0, 0, 8, frameGoAway, 0, 0, 0, 0, 0)
	goAway := []byte{0, 0, 8, frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}
	all := bytes.Join([][]byte{settings, ack, data, goAway, data}, nil)
	leaves := len(all) - len(data)
	for size := 1; size <= len(all); size++ {
		s := newSkim(nil)
		left := 0
		s.left = func() { left++ }
		for at := 0; at < len(all); at += size {
			s.glance(all[at:min(at+size, len(all))])
			if end := at + size; s.leaving.Load() != (end >= leaves) {
				t.Fatalf("pieces of %d: leaving %t after %d bytes", size, s.leaving.Load(), end)
			}
		}
		if s.streams.Load() != 7 || !s.greeted || left != 1 {
			t.Errorf("pieces of %d: %d streams, greeted %t, left %d times", size, s.streams.Load(), s.greeted, left)
		}
	}
}

func FuzzSkim(f *testing.F) {
	f.Add([]byte{0, 0, 6, frameSettings, 0, 0, 0, 0, 0, 0, settingStreams, 0, 0, 0, 7}, uint8(1))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		step := max(int(size), 1)
		whole, cut := newSkim(nil), newSkim(nil)
		whole.glance(b)
		for at := 0; at < len(b); at += step {
			cut.glance(b[at:min(at+step, len(b))])
		}
		if whole.streams.Load() != cut.streams.Load() || whole.leaving.Load() != cut.leaving.Load() || whole.greeted != cut.greeted {
			t.Errorf("read at once: %d streams, leaving %t; in pieces of %d: %d, %t", whole.streams.Load(), whole.leaving.Load(), step, cut.streams.Load(), cut.leaving.Load())
		}
		if len(cut.payload) > maxPayload+step {
			t.Errorf("holds %d bytes", len(cut.payload))
		}
	})
}
