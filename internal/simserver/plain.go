package simserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// PlainTakePath is where a plain server hands out what it knows of one run, as the lines that [ReadTruth] reads, and
// forgets it: GET, with ?run=NAME for the requests whose header X-Truth-Run said NAME. It waits two seconds at most for
// requests in flight; those that still are then stay.
const PlainTakePath = "/sim/truth/take"

// plainServer speaks just enough HTTP/1.1 by itself: net/http costs more than the answers do. One goroutine reads the
// requests of a connection; one for all of them, the pacer, writes the events of streams.
type plainServer struct {
	cfg   Config
	clock clock
	books *books
	pacer *pacer
	start int64

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// servePlain is [Serve] for a plain server. Running answers are broken off at the end: nobody waits for them.
func servePlain(ctx context.Context, cfg Config, o Options) error {
	l, err := listen(ctx, o)
	if err != nil {
		return err
	}
	stampArrivals(l)
	clk := newClock()
	p, err := newPacer(clk)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s := &plainServer{cfg: cfg, clock: clk, books: newBooks(), pacer: p, start: clk.now(), conns: map[net.Conn]struct{}{}}
	log := o.Log
	if log == nil {
		log = io.Discard
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.hangUp()
	defer p.stop()
	wg.Go(p.run)
	fmt.Fprintf(log, "listening on http://%s model=%s plain\n", l.Addr(), cfg.Model)
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if c != nil {
				_ = c.Close()
			}
			return nil
		case err != nil:
			// Out of descriptors, most likely: those who wait get in when others have left.
			pause(ctx, 10*time.Millisecond)
			continue
		}
		s.books.connections.Add(1)
		s.keep(c, true)
		wg.Go(func() {
			defer s.keep(c, false)
			defer func() { _ = c.Close() }()
			s.serve(c)
		})
	}
}

func (s *plainServer) keep(c net.Conn, in bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in {
		s.conns[c] = struct{}{}
	} else {
		delete(s.conns, c)
	}
}

func (s *plainServer) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
}

// serve answers the requests of one connection until it ends.
func (s *plainServer) serve(c net.Conn) {
	in := &plainReader{conn: newReceiver(c, s.clock), books: s.books, buf: make([]byte, 4<<10)}
	out := newOutlet(c, s.books)
	for {
		q, err := in.next()
		if err == nil {
			err = s.dispatch(q, out)
		}
		if err != nil {
			return // a client that left, or what it sent was no HTTP: there is nothing to say
		}
		in.drop(q)
	}
}

func (s *plainServer) dispatch(q *plainRequest, out *outlet) error {
	switch {
	case string(q.method) == http.MethodPost:
		return s.infer(q, out)
	case string(q.path) == "/health":
		return out.whole("text/plain", nil)
	case string(q.path) == "/v1/models":
		return out.whole("application/json", fmt.Appendf(nil,
			`{"object":"list","data":[{"id":%s,"object":"model","created":0,"owned_by":"tailgate"}]}`, quote(s.cfg.Model)))
	case string(q.path) == "/sim/truth":
		return out.whole("application/json", s.books.counts(s.start, s.clock.now()))
	case string(q.path) == PlainTakePath:
		return s.books.take(q.query("run"), out)
	default:
		_, err := out.conn.Write([]byte("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
		return err
	}
}
