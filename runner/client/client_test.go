package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client/scripttest"
	"github.com/tailgate-ci/tailgate/runner/record"
)

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

// Seen = sent over many requests and some connections, none aborted.
func TestSeenIsSent(t *testing.T) {
	const workers, each = 8, 1500
	s := newServer(t, serveOK)
	c := s.client(t, nil)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if got := send(t, c, 0); got.Class != record.OK {
					t.Errorf("%s: %s", got.Class, got.Detail)
					return
				}
			}
		})
	}
	wg.Wait()
	if seen := s.seen.Load(); seen != workers*each {
		t.Errorf("sent %d, seen %d", workers*each, seen)
	}
	dialled, reused := c.Connections()
	if dialled+reused != workers*each || int64(dialled) != s.conns.Load() || dialled > 4*workers {
		t.Errorf("dialled %d, reused %d, the server accepted %d", dialled, reused, s.conns.Load())
	}
}

func TestRedirectsAndProxiesAreNotFollowed(t *testing.T) {
	other := newServer(t, serveOK)
	t.Setenv("HTTP_PROXY", "http://"+other.Addr().String())
	t.Setenv("http_proxy", "http://"+other.Addr().String())
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

// Dialling begins 50 ms before the request is due; what is missing then counts.
func TestDialAhead(t *testing.T) {
	for delay, want := range map[time.Duration]time.Duration{
		20 * time.Millisecond:  0,
		200 * time.Millisecond: 150 * time.Millisecond,
	} {
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
			if took := time.Duration(got.Wrote - got.Sched); took != want || got.DialNS != int64(delay) {
				t.Errorf("dial of %v: wrote %v after due, dial_ns %d", delay, took, got.DialNS)
			}
			if got.Pick != got.Sched || got.Conn < got.Pick {
				t.Errorf("sched %d pick %d conn %d", got.Sched, got.Pick, got.Conn)
			}
		})
	}
}

func TestLimitsAreNamed(t *testing.T) {
	token := `data: {"choices":[{"index":0,"delta":{"content":"A"}}]}` + "\n\n"
	tests := []struct {
		want   string
		limits record.Limits
		send   string
		took   time.Duration
	}{
		{"first_event", record.Limits{FirstEvent: time.Second, Idle: time.Hour, Total: time.Hour}, "", time.Second},
		// Comments and role chunks are no first event, and idle does not hold before there is one.
		{"first_event", record.Limits{FirstEvent: time.Second, Idle: 100 * time.Millisecond}, ":\n\ndata: {\"choices\":[]}\n\n", time.Second},
		{"idle", record.Limits{FirstEvent: time.Hour, Idle: time.Second, Total: time.Hour}, token, time.Second},
		{"total", record.Limits{FirstEvent: time.Hour, Idle: time.Hour, Total: time.Second}, token, time.Second},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := hangingScript(2 * time.Hour)
			if tt.send != "" {
				s.Steps = append([]scripttest.Step{{What: "write", Data: []byte(tt.send)}}, s.Steps...)
			}
			dial, wait := memory(t, &s, 0)
			c := scriptClient(t, &s, dial)
			c.o.Limits = tt.limits
			start := time.Now()
			got := send(t, c, 0)
			c.Close()
			wait()
			if got.Class != record.Timeout || got.Detail != tt.want || time.Since(start) != tt.took {
				t.Errorf("%s: %s %s after %v", tt.want, got.Class, got.Detail, time.Since(start))
			}
		})
	}
}

func TestNoLimitMeansNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := namedScript(t, "D-04-completions")
		for i := range s.Steps {
			s.Steps[i].At += 100 * time.Hour
		}
		dial, wait := memory(t, &s, 0)
		c := scriptClient(t, &s, dial)
		c.o.Limits = record.Limits{}
		got := send(t, c, 0)
		c.Close()
		wait()
		if got.Class != record.OK {
			t.Errorf("%s %s", got.Class, got.Detail)
		}
	})
}

func TestCancelled(t *testing.T) {
	hang := hangingScript(time.Hour)
	for name, in := range map[string]time.Duration{"while reading": 0, "before its time": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial, wait := memory(t, &hang, 0)
				c := scriptClient(t, &hang, dial)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errors.New("the user")) })
				start := time.Now()
				got := sendBody(ctx, t, c, c.shortPrompt("hi", 8), in)
				if got.Class != record.Cut || time.Since(start) != time.Second || got.Wrote.Reached() != (in == 0) {
					t.Errorf("%s %s after %v, wrote %d", got.Class, got.Detail, time.Since(start), got.Wrote)
				}
				if in == 0 {
					c.Close()
					wait()
				}
			})
		})
	}
}

func TestRefusedConnection(t *testing.T) {
	l := listen(t)
	_ = l.Close()
	c, err := New(Options{URL: "http://" + l.Addr().String(), Clock: record.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	got := send(t, c, 0)
	if got.Class != record.Dial || got.Pick == 0 || got.Wrote.Reached() {
		t.Errorf("%s: %s", got.Class, got.Detail)
	}
	var probe *ProbeError
	if err := c.Probe(t.Context()); !errors.As(err, &probe) || probe.Class != record.Dial {
		t.Errorf("probe: %v", err)
	}
}

func TestDialLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := namedScript(t, "D-04-completions")
		c := scriptClient(t, &s, func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		got := send(t, c, 0)
		if got.Class != record.Dial || !strings.Contains(got.Detail, "no connection within 5s") {
			t.Errorf("%s: %s", got.Class, got.Detail)
		}
	})
}

// Running out of what this machine has is ours: class client_limit, never the server's failure.
func TestDescriptorsRunOut(t *testing.T) {
	if os.Getenv("TAILGATE_TEST_FEW_FILES") != "" {
		outOfFiles(t)
		return
	}
	s := newServer(t, serveOK)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDescriptorsRunOut$", "-test.v")
	cmd.Env = append(os.Environ(), "TAILGATE_TEST_FEW_FILES="+s.Addr().String())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: TestDescriptorsRunOut") {
		t.Errorf("%v\n%s", err, out)
	}
}

func outOfFiles(t *testing.T) {
	t.Helper()
	c, err := New(Options{URL: "http://" + os.Getenv("TAILGATE_TEST_FEW_FILES"), Model: "m", Clock: record.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
		t.Fatal(err)
	}
	var held []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	got := send(t, c, 0)
	if got.Class != record.ClientLimit || !strings.Contains(got.Detail, "too many open files") {
		t.Errorf("%s: %s", got.Class, got.Detail)
	}
	for _, f := range held {
		_ = f.Close()
	}
	if got := send(t, c, 0); got.Class != record.OK {
		t.Errorf("afterwards: %s: %s", got.Class, got.Detail)
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

// A chunk whose header came with the chunk before it must not hold that one back.
func TestEventIsNotHeldForTheNextChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			br := bufio.NewReader(theirs)
			req, _ := http.ReadRequest(br)
			_, _ = io.Copy(io.Discard, req.Body)
			rest := finishEvent + doneEvent
			_, _ = fmt.Fprintf(theirs, "%s%x\r\n%s\r\n%x\r\n", okAnswer, len(helloEvent), helloEvent, len(rest))
			time.Sleep(time.Second)
			_, _ = io.WriteString(theirs, rest+"\r\n0\r\n\r\n")
		}()
		s := namedScript(t, "D-04-completions")
		c := scriptClient(t, &s, func(context.Context, string) (net.Conn, error) { return ours, nil })
		got := send(t, c, 0)
		c.Close()
		if got.Class != record.OK || got.First != got.Wrote || time.Duration(got.End-got.Wrote) != time.Second {
			t.Errorf("%s %s: first %v end %v after the request", got.Class, got.Detail, got.First-got.Wrote, got.End-got.Wrote)
		}
	})
}

func TestInformationalAnswersAreSkippedAndHeadsBounded(t *testing.T) {
	for head, want := range map[string]record.Outcome{
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + okAnswer + okChunks(): record.OK,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n":              record.Malformed,
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n":    record.Malformed,
		"SSH-2.0-OpenSSH\r\n": record.Malformed,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n": record.Malformed,
		"HTTP/1.1 200 OK\r\n":                                                    record.UnexpectedEOF,
		"HTTP/1.1 204 No Content\r\n\r\n":                                        record.EmptyOutput,
		"HTTP/1.0 200 OK\r\n\r\n" + helloEvent + doneEvent:                       record.OK,
		"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy":      record.HTTP503,
		"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>gateway</html>": record.Malformed,
	} {
		s := newServer(t, func(s *server, c net.Conn, br *bufio.Reader) {
			if s.next(br) {
				_, _ = io.WriteString(c, head)
			}
		})
		if got := send(t, s.client(t, nil), 0); got.Class != want {
			t.Errorf("%.60q: %s: %s", head, got.Class, got.Detail)
		}
	}
}

func TestModelOfTheServer(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"id":"tiny"},{"id":"other"}]}`)
	})
	var body string
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		_, _ = io.WriteString(w, helloEvent+finishEvent+doneEvent)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	c, err := New(Options{URL: s.URL, Clock: record.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if c.Model() != "tiny" || !strings.Contains(body, `"model":"tiny"`) {
		t.Errorf("model %q in %s", c.Model(), body)
	}
	if dialled, reused := c.Connections(); dialled != 0 || reused != 0 {
		t.Errorf("the probe was counted: %d, %d", dialled, reused)
	}
}
