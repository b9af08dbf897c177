package client

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Each test of this file, of keepalive_test.go and of scarce_linux_test.go is a row of the table of what net/http would do and
// we must not, and counts at the server.

// golang/go#18241: a server that closes a kept-alive connection as we POST on it makes net/http send twice.
func TestClosesAsWePost(t *testing.T) {
	s := newServer(t, func(s *server, c net.Conn, br *bufio.Reader) {
		if s.next(br) {
			_, _ = io.WriteString(c, okAnswer+okChunks())
		}
		// The second request is read and not answered.
		s.next(br)
	})
	c := s.client(t, nil)
	if got := send(t, c, 0); got.Class != record.OK {
		t.Fatalf("first: %s %s", got.Class, got.Detail)
	}
	got := send(t, c, 0)
	if got.Class != record.ConnStale || !got.Reused {
		t.Errorf("second: %s %s, reused %t", got.Class, got.Detail, got.Reused)
	}
	if seen := s.seen.Load(); seen != 2 {
		t.Errorf("the server saw %d requests, 2 were sent", seen)
	}
}

func TestClosesANewConnectionAsWePost(t *testing.T) {
	s := newServer(t, func(s *server, _ net.Conn, br *bufio.Reader) { s.next(br) })
	got := send(t, s.client(t, nil), 0)
	if got.Class != record.UnexpectedEOF || s.seen.Load() != 1 {
		t.Errorf("%s %s, seen %d", got.Class, got.Detail, s.seen.Load())
	}
}

// Seen = sent over many requests and some connections, none aborted. The end-to-end tests send a million.
func TestSeenIsSent(t *testing.T) {
	const workers = 16
	const each = 20_000 / workers
	s := newServer(t, serveOK)
	c := s.client(t, nil)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if got := send(t, c, 0); got.Class != record.OK || got.Attempts != 1 {
					t.Errorf("%s: %s, %d attempts", got.Class, got.Detail, got.Attempts)
					return
				}
			}
		})
	}
	wg.Wait()
	sent := workers * each
	if seen := s.seen.Load(); seen != int64(sent) || c.Attempts() != seen {
		t.Errorf("sent %d, attempted %d, seen %d", sent, c.Attempts(), seen)
	}
	dialled, reused := c.Connections()
	if dialled+reused != sent || int64(dialled) != s.conns.Load() || dialled > 4*workers {
		t.Errorf("dialled %d, reused %d, the server accepted %d", dialled, reused, s.conns.Load())
	}
}

// A server that compresses for whoever lets it gets no offer.
func TestCompressingServerGetsNoOffer(t *testing.T) {
	var offers []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offers = append(offers, r.Header.Get("Accept-Encoding"))
		w.Header().Set("Content-Type", "text/event-stream")
		body := []byte(helloEvent + finishEvent + doneEvent)
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(body)
			_ = z.Close()
			w.Header().Set("Content-Encoding", "gzip")
			body = b.Bytes()
		}
		_, _ = w.Write(body)
	}))
	defer s.Close()
	c, err := New(Options{URL: s.URL, Model: "m", Clock: record.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := send(t, c, 0); got.Class != record.OK {
		t.Errorf("%s: %s", got.Class, got.Detail)
	}
	if len(offers) != 1 || offers[0] != "identity" {
		t.Errorf("offered %q", offers)
	}
}

func TestRedirectsAndProxiesAreNotFollowed(t *testing.T) {
	other := newServer(t, serveOK)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, "http://"+other.Addr().String())
	}
	s := newServer(t, func(s *server, c net.Conn, br *bufio.Reader) {
		for s.next(br) {
			_, _ = fmt.Fprintf(c, "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://%s/x\r\nContent-Length: 0\r\n\r\n", other.Addr())
		}
	})
	got := send(t, s.client(t, nil), 0)
	if got.Class != record.Redirect || !strings.Contains(got.Detail, other.Addr().String()) {
		t.Errorf("%s: %s", got.Class, got.Detail)
	}
	if other.conns.Load() != 0 || s.seen.Load() != 1 {
		t.Errorf("the other port saw %d connections, the server %d requests", other.conns.Load(), s.seen.Load())
	}
}

// The answer says more than the write error that came with it.
func TestRefusedBeforeTheBodyIsSent(t *testing.T) {
	answer := "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig"
	for name, after := range map[string]func(net.Conn){
		"then closed":    func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite(); time.Sleep(50 * time.Millisecond) },
		"then held open": func(net.Conn) { time.Sleep(4 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, func(_ *server, c net.Conn, br *bufio.Reader) {
				if _, err := http.ReadRequest(br); err == nil {
					_, _ = io.WriteString(c, answer)
					after(c)
				}
			})
			c := s.client(t, nil)
			got := sendBody(t.Context(), t, c, c.shortPrompt(strings.Repeat("x", 32<<20), 8), 0)
			if got.Class != record.HTTP4xx || !strings.Contains(got.Detail, "413") {
				t.Errorf("%s: %s", got.Class, got.Detail)
			}
		})
	}
}

func TestPeerClosesWhileWeWrite(t *testing.T) {
	s := newServer(t, func(_ *server, c net.Conn, br *bufio.Reader) {
		_, _ = br.Peek(1)
		_ = c.(*net.TCPConn).SetLinger(0)
	})
	c := s.client(t, nil)
	got := sendBody(t.Context(), t, c, c.shortPrompt(strings.Repeat("x", 32<<20), 8), 0)
	if got.Class != record.Write || got.Wrote.Reached() {
		t.Errorf("%s: %s, wrote %d", got.Class, got.Detail, got.Wrote)
	}
}

// Dialling begins 50 ms before the request is due; what is missing then counts. An accept that takes 20 ms leaves TTFT as it
// is, one of 200 ms adds 150 ms.
func TestDialAhead(t *testing.T) {
	ttft := map[time.Duration]time.Duration{}
	for _, delay := range []time.Duration{0, 20 * time.Millisecond, 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := namedScript(t, "D-04-completions")
			dial, wait := memory(t, &s, 0)
			c := scriptClient(t, &s, func(ctx context.Context, address string) (net.Conn, error) {
				time.Sleep(delay)
				return dial(ctx, address)
			})
			got := send(t, c, time.Second)
			c.Close()
			wait()
			if got.Class != record.OK || got.DialNS != int64(delay) || got.Pick != got.Sched || got.Conn < got.Pick {
				t.Errorf("%s %s: dial_ns %d, sched %d, pick %d, conn %d", got.Class, got.Detail, got.DialNS, got.Sched, got.Pick, got.Conn)
			}
			ttft[delay] = time.Duration(got.First - got.Sched)
		})
	}
	none := ttft[0]
	if none <= 0 || ttft[20*time.Millisecond] != none || ttft[200*time.Millisecond] != none+150*time.Millisecond {
		t.Errorf("TTFT by the time an accept takes: %v", ttft)
	}
}

func TestTLS(t *testing.T) {
	var protocols []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols = append(protocols, r.Proto)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, helloEvent+finishEvent+doneEvent)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	for name, cfg := range map[string]*tls.Config{"trusted": {RootCAs: roots, MinVersion: tls.VersionTLS12}, "unknown": nil} {
		c, err := New(Options{URL: s.URL, Model: "m", Clock: record.NewClock(), TLS: cfg})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			got := send(t, c, 0)
			switch {
			case name == "unknown" && got.Class != record.TLS:
				t.Errorf("%s: %s: %s", name, got.Class, got.Detail)
			case name == "trusted" && (got.Class != record.OK || got.Reused != (i > 0) || got.Reused == (got.TLSNS > 0)):
				t.Errorf("%s %d: %s: %s, reused %t, tls %d ns", name, i, got.Class, got.Detail, got.Reused, got.TLSNS)
			}
		}
		c.Close()
	}
	for _, p := range protocols {
		if p != "HTTP/1.1" {
			t.Errorf("protocol %s", p)
		}
	}
}

// A server that closes every connection unused gets one more of them, and then the request for what it is worth.
func TestServerThatTakesNothing(t *testing.T) {
	s := newServer(t, func(*server, net.Conn, *bufio.Reader) {})
	got := send(t, s.client(t, nil), 40*time.Millisecond)
	if got.Class == record.OK || got.Attempts != 1 || s.conns.Load() > 2 || s.seen.Load() != 0 {
		t.Errorf("%s %s after %d attempts over %d connections", got.Class, got.Detail, got.Attempts, s.conns.Load())
	}
}
