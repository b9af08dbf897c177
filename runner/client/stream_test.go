package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// twoProtocols is a server of the standard library that takes HTTP/1.1 and HTTP/2 without TLS on one port, and counts.
type twoProtocols struct {
	url         string
	seen, conns atomic.Int64
	mu          sync.Mutex
	spoken      []string
}

func serveBoth(tb testing.TB, conf *http.HTTP2Config, h http.HandlerFunc) *twoProtocols {
	tb.Helper()
	s := new(twoProtocols)
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	hs := &http.Server{
		Protocols: p, HTTP2: conf, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.seen.Add(1)
			s.mu.Lock()
			s.spoken = append(s.spoken, r.Proto)
			s.mu.Unlock()
			h(w, r)
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.conns.Add(1)
			}
		},
	}
	l := listen(tb)
	s.url = "http://" + l.Addr().String()
	go func() { _ = hs.Serve(l) }()
	tb.Cleanup(func() { _ = hs.Close() })
	return s
}

func client2(tb testing.TB, url string, change func(*Options)) *Client {
	tb.Helper()
	o := Options{URL: url, Model: "m", Limits: record.DefaultLimits(), Clock: record.NewClock(), HTTP2: true}
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

func flushed(w http.ResponseWriter, parts ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range parts {
		_, _ = io.WriteString(w, p)
		_ = http.NewResponseController(w).Flush()
	}
}

// An answer is the same answer over either protocol: class, counts, text, assertions of a sample and the events of its stream.
func TestHTTP2GivesTheSameSample(t *testing.T) {
	usage := usageEvent(`{"prompt_tokens":3,"completion_tokens":2}`)
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, tt := range []struct {
		name, dialect string
		class         record.Outcome
		answer        http.HandlerFunc
	}{
		{"stream", "openai-chat", record.OK, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", "r-1")
			flushed(w, helloEvent, helloEvent, finishEvent, usage, doneEvent)
		}},
		{"stream in one piece", "openai-chat", record.OK, func(w http.ResponseWriter, _ *http.Request) {
			flushed(w, helloEvent+helloEvent+finishEvent+usage+doneEvent)
		}},
		{"bytes behind the end marker", "openai-chat", record.OK, func(w http.ResponseWriter, _ *http.Request) {
			flushed(w, helloEvent+finishEvent+doneEvent+"data: more\n\n")
		}},
		{"open behind the end marker", "openai-chat", record.OK, func(w http.ResponseWriter, r *http.Request) {
			flushed(w, helloEvent, finishEvent, doneEvent)
			<-r.Context().Done()
		}},
		{"lines", "ollama", record.OK, func(w http.ResponseWriter, _ *http.Request) {
			flushed(w, `{"message":{"content":"a"},"done":false}`+"\n", `{"message":{"content":"b"},"done":false}`+"\n",
				`{"message":{"content":""},"done":true,"done_reason":"stop","eval_count":2,"prompt_eval_count":4}`)
		}},
		{"whole", "openai-chat", record.OK, says(200, smallAnswer)},
		{"400", "openai-chat", record.HTTP4xx, says(400, `{"error":{"message":"maximum context length is 10"}}`)},
		{"404", "openai-chat", record.HTTP4xx, says(404, "no such page")},
		{"429", "openai-chat", record.HTTP429, says(429, `{"error":"busy"}`)},
		{"500", "openai-chat", record.HTTP5xx, says(500, "")},
		{"503", "openai-chat", record.HTTP503, says(503, `{"error":"loading"}`)},
		{"redirect", "openai-chat", record.Redirect, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/x")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}},
		{"nothing", "openai-chat", record.EmptyOutput, says(204, "")},
		{"error event", "openai-chat", record.StreamError, func(w http.ResponseWriter, _ *http.Request) {
			flushed(w, helloEvent, `data: {"error":{"message":"out of memory"}}`+"\n\n")
		}},
		{"no end", "openai-chat", record.Truncated, func(w http.ResponseWriter, _ *http.Request) { flushed(w, helloEvent) }},
		{"compressed", "openai-chat", record.Malformed, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			flushed(w, "xyz")
		}},
		{"no JSON", "openai-chat", record.Malformed, func(w http.ResponseWriter, _ *http.Request) { flushed(w, "data: a\n\n", "data: b\n\n") }},
		{"cut", "openai-chat", record.UnexpectedEOF, func(w http.ResponseWriter, _ *http.Request) {
			flushed(w, helloEvent)
			panic(http.ErrAbortHandler)
		}},
		{"shorter than its length", "openai-chat", record.UnexpectedEOF, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10000")
			flushed(w, helloEvent)
			panic(http.ErrAbortHandler)
		}},
		{"cut before its head", "openai-chat", record.UnexpectedEOF, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			s := serveBoth(t, nil, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				asked = append(asked, r.Method+" "+r.URL.String()+" "+r.Header.Get("Accept-Encoding")+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("X-Own")+" "+r.Host+" "+string(body))
				tt.answer(w, r)
			})
			var got []record.Sample
			for _, over2 := range []bool{false, true} {
				c := client2(t, s.url, func(o *Options) {
					o.HTTP2, o.Dialect, o.Header = over2, tt.dialect, http.Header{"X-Own": {"yes"}}
				})
				got = append(got, send(t, c, 0))
			}
			if got[1].Class != tt.class {
				t.Errorf("%s: %s", got[1].Class, got[1].Detail)
			}
			for i, g := range got {
				answered := tt.name != "cut before its head"
				if g.Attempts != 1 || !g.Pick.Reached() || !g.Conn.Reached() || !g.Wrote.Reached() || g.Header.Reached() != answered || g.Wrote < g.Conn {
					t.Errorf("HTTP/%d: %+v", i+1, g)
				}
			}
			if diff := cmp.Diff(comparable2(got[0]), comparable2(got[1])); diff != "" {
				t.Errorf("HTTP/1.1 and HTTP/2 differ:\n%s", diff)
			}
			if len(asked) != 2 || asked[0] != asked[1] || !strings.Contains(asked[1], "identity application/json yes") {
				t.Errorf("the server was asked %q", asked)
			}
			if diff := cmp.Diff([]string{"HTTP/1.1", "HTTP/2.0"}, s.spoken); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// comparable2 is what of a sample does not depend on time or on the way: of a detail its first word.
func comparable2(s record.Sample) record.Sample {
	for _, at := range []*record.Instant{&s.Sched, &s.Pick, &s.Slot, &s.Conn, &s.Wrote, &s.Header, &s.First, &s.FirstOut, &s.Last, &s.End} {
		*at = min(*at, 1)
	}
	s.DialNS, s.TLSNS, s.Reads, s.BytesIn, s.BytesOut = 0, 0, 0, 0, 0
	if s.Class == record.UnexpectedEOF {
		s.Detail = ""
	}
	return s
}

// All streams share one connection, and what one of them meets does not touch the others.
func TestHTTP2LimitsAreNamed(t *testing.T) {
	ended := make(chan struct{}, 10)
	s := serveBoth(t, nil, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("X-Late") != "" {
			flushed(w, helloEvent)
			time.Sleep(300 * time.Millisecond)
			flushed(w, finishEvent, doneEvent)
			return
		}
		switch r.Header.Get("X-Say") {
		case "comment":
			flushed(w, ":\n\n")
		case "token":
			flushed(w, helloEvent)
		}
		<-r.Context().Done()
		ended <- struct{}{}
	})
	const soon, long = 100 * time.Millisecond, time.Hour
	for _, tt := range []struct {
		want, say string
		limits    record.Limits
	}{
		{"first_event", "", record.Limits{FirstEvent: soon, Idle: long, Total: long}},
		{"first_event", "comment", record.Limits{FirstEvent: soon, Idle: time.Millisecond, Total: long}},
		{"idle", "token", record.Limits{FirstEvent: long, Idle: soon, Total: long}},
		{"total", "token", record.Limits{FirstEvent: long, Idle: long, Total: soon}},
	} {
		c := client2(t, s.url, func(o *Options) {
			o.Limits, o.Header = tt.limits, http.Header{"X-Say": {tt.say}}
		})
		start := time.Now()
		got := send(t, c, 0)
		if took := time.Since(start); got.Class != record.Timeout || got.Detail != tt.want || took < soon {
			t.Errorf("%s: %s %s after %v", tt.want, got.Class, got.Detail, took)
		}
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the server was not told", tt.want)
		}
		if c.trunk.carrier.gone() {
			t.Errorf("%s: the connection was closed with the stream", tt.want)
		}
	}
	if s.seen.Load() != 4 {
		t.Errorf("the server saw %d requests, 4 were sent", s.seen.Load())
	}
}

func TestHTTP2Cancelled(t *testing.T) {
	s := serveBoth(t, nil, func(w http.ResponseWriter, r *http.Request) {
		flushed(w, helloEvent)
		<-r.Context().Done()
	})
	c := client2(t, s.url, nil)
	for _, in := range []time.Duration{0, time.Hour} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(errors.New("the user")) })
		got := sendBody(ctx, t, c, c.shortPrompt("hi", 8), in)
		if got.Class != record.Cut || !strings.Contains(got.Detail, "the user") || got.Wrote.Reached() != (in == 0) {
			t.Errorf("%s %s, wrote %d", got.Class, got.Detail, got.Wrote)
		}
	}
	if s.seen.Load() != 1 {
		t.Errorf("the server saw %d requests", s.seen.Load())
	}
}

// A server that takes one stream at a time makes the others wait: in their latency, between slot and conn, over the one
// connection.
func TestHTTP2WaitsForAStream(t *testing.T) {
	const answer = 150 * time.Millisecond
	s := serveBoth(t, &http.HTTP2Config{MaxConcurrentStreams: 1}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(answer)
		flushed(w, helloEvent, finishEvent, doneEvent)
	})
	c := client2(t, s.url, nil)
	var wg sync.WaitGroup
	got := make([]record.Sample, 4)
	for i := range got {
		wg.Go(func() { got[i] = send(t, c, 0) })
	}
	wg.Wait()
	late := 0
	for _, g := range got {
		if g.Class != record.OK || g.Slot != g.Pick || g.Attempts != 1 || g.Conn < g.Slot {
			t.Errorf("%+v", g)
		}
		if time.Duration(g.End-g.Wrote) < answer {
			t.Errorf("answered after %v", time.Duration(g.End-g.Wrote))
		}
		if time.Duration(g.Conn-g.Slot) >= answer-20*time.Millisecond {
			late++
		}
	}
	dialled, reused := c.Connections()
	if late != 3 || s.conns.Load() != 1 || dialled != 1 || reused != 3 || s.seen.Load() != 4 {
		t.Errorf("%d waited, %d connections (%d dialled, %d reused), %d requests seen", late, s.conns.Load(), dialled, reused, s.seen.Load())
	}
}

// What waits too long for a stream was never sent, and says what it waited for.
func TestHTTP2WaitsTooLong(t *testing.T) {
	hold := make(chan struct{})
	s := serveBoth(t, &http.HTTP2Config{MaxConcurrentStreams: 1}, func(w http.ResponseWriter, _ *http.Request) {
		<-hold
		flushed(w, helloEvent, finishEvent, doneEvent)
	})
	c := client2(t, s.url, nil)
	first := make(chan record.Sample, 1)
	go func() { first <- send(t, c, 0) }()
	for s.seen.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for name, want := range map[string]record.Sample{
		"limit":     {Class: record.Timeout, Detail: "total, waiting for one of the 1 streams that the server allows at a time"},
		"cancelled": {Class: record.Cut, Detail: "cancelled: the user"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		r, err := c.request(c.shortPrompt("hi", 8), true)
		if err != nil {
			t.Fatal(err)
		}
		r.Sched = c.o.Clock.Now()
		release := make(chan record.Instant, 1)
		release <- r.Sched
		x := c.exchange(ctx, r)
		if name == "limit" {
			x.watch.limits.Total = 50 * time.Millisecond
		} else {
			time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("the user")) })
		}
		x.run(release)
		got, st := x.conclude()
		checkSample(t, got, st)
		if got.Class != want.Class || got.Detail != want.Detail || got.Attempts != 0 || got.Wrote.Reached() || got.Conn.Reached() {
			t.Errorf("%s: %s: %s, %d attempts, wrote %d, conn %d", name, got.Class, got.Detail, got.Attempts, got.Wrote, got.Conn)
		}
		cancel(nil)
	}
	close(hold)
	if got := <-first; got.Class != record.OK {
		t.Errorf("%s: %s", got.Class, got.Detail)
	}
	// The streams that were waited for are free again.
	if got := send(t, c, 0); got.Class != record.OK || got.Attempts != 1 {
		t.Errorf("%s: %s", got.Class, got.Detail)
	}
	if s.seen.Load() != 2 || c.Attempts() != 2 || s.conns.Load() != 1 {
		t.Errorf("the server saw %d requests over %d connections, %d were attempted", s.seen.Load(), s.conns.Load(), c.Attempts())
	}
}

// A server that speaks something else gets no request, and the detail says what it speaks.
func TestHTTP2IsNotGuessed(t *testing.T) {
	var seen atomic.Int64
	count := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// net/http shows its handler the preface of HTTP/2 as if it were a request.
		if r.Method == http.MethodPost {
			seen.Add(1)
		}
		flushed(w, helloEvent, finishEvent, doneEvent)
	})
	plain := httptest.NewServer(count)
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(count)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	raw := func(answer string, stay time.Duration) string {
		l := listen(t)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					_, _ = c.Read(make([]byte, 1024))
					_, _ = io.WriteString(c, answer)
					time.Sleep(stay)
				}()
			}
		}()
		return "http://" + l.Addr().String()
	}
	refused := listen(t)
	_ = refused.Close()
	for name, tt := range map[string]struct {
		url   string
		class record.Outcome
		says  string
	}{
		"HTTP/1.1":          {plain.URL, record.Dial, "answers in HTTP/1 (HTTP/1.1"},
		"HTTP/1.1, kept":    {raw("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", 10*time.Second), record.Dial, "answers in HTTP/1 (HTTP/1.1 400 Bad Request)"},
		"HTTPS, HTTP/1.1":   {secure.URL, record.TLS, "does not offer HTTP/2"},
		"another":           {raw("SSH-2.0-OpenSSH_9\r\n", 0), record.Dial, "no HTTP/2: it begins with"},
		"closed":            {raw("", 0), record.Dial, "closed the connection instead"},
		"silent":            {raw("", 10*time.Second), record.Dial, "no connection within 300ms"},
		"nobody":            {"http://" + refused.Addr().String(), record.Dial, "refused"},
		"TLS where none is": {strings.Replace(plain.URL, "http:", "https:", 1), record.TLS, "tls handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := x509.NewCertPool()
			pool.AddCert(secure.Certificate())
			c := client2(t, tt.url, func(o *Options) {
				o.Limits.Dial = time.Minute
				if name == "silent" {
					o.Limits.Dial = 300 * time.Millisecond
				}
				o.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
			})
			got := send(t, c, 0)
			if got.Class != tt.class || !strings.Contains(got.Detail, tt.says) || got.Attempts != 0 || got.Wrote.Reached() || got.Reused {
				t.Errorf("%s: %s, %d attempts", got.Class, got.Detail, got.Attempts)
			}
		})
	}
	t.Cleanup(func() {
		if seen.Load() != 0 {
			t.Errorf("%d requests were seen", seen.Load())
		}
	})
}

func TestHTTP2OverTLS(t *testing.T) {
	var spoken []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		spoken = append(spoken, r.Proto)
		flushed(w, helloEvent, finishEvent, doneEvent)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := client2(t, s.URL, func(o *Options) { o.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} })
	for i := range 3 {
		got := send(t, c, 0)
		if got.Class != record.OK || got.Reused != (i > 0) || got.Reused == (got.TLSNS > 0) {
			t.Errorf("%d: %s: %s, reused %t, tls %d ns", i, got.Class, got.Detail, got.Reused, got.TLSNS)
		}
	}
	if diff := cmp.Diff([]string{"HTTP/2.0", "HTTP/2.0", "HTTP/2.0"}, spoken); diff != "" {
		t.Error(diff)
	}
}

// The probe and the list of models go the same way as what is measured.
func TestHTTP2Lookups(t *testing.T) {
	s := serveBoth(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			_, _ = io.WriteString(w, `{"data":[{"id":"listed"}]}`)
			return
		}
		flushed(w, helloEvent, finishEvent, doneEvent)
	})
	c := client2(t, s.url, func(o *Options) { o.Model = "" })
	if err := c.Probe(t.Context()); err != nil || c.Model() != "listed" || c.Attempts() != 0 {
		t.Errorf("%v, model %q, %d attempts", err, c.Model(), c.Attempts())
	}
	if diff := cmp.Diff([]string{"HTTP/2.0", "HTTP/2.0"}, s.spoken); diff != "" {
		t.Error(diff)
	}
	if c.Address() != strings.TrimPrefix(s.url, "http://") {
		t.Error(c.Address())
	}
}

// A long prompt is sent whole, and a refusal before its end is read.
func TestHTTP2LongPrompt(t *testing.T) {
	s := serveBoth(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Refuse") != "" {
			http.Error(w, "big", http.StatusRequestEntityTooLarge)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		if n != r.ContentLength || n < 4<<20 {
			http.Error(w, "short", http.StatusBadRequest)
			return
		}
		flushed(w, helloEvent, finishEvent, doneEvent)
	})
	for refuse, want := range map[string]record.Outcome{"": record.OK, "yes": record.HTTP4xx} {
		c := client2(t, s.url, func(o *Options) {
			if refuse != "" {
				o.Header = http.Header{"X-Refuse": {refuse}}
			}
		})
		f := c.shortPrompt(strings.Repeat("x", 4<<20), 8)
		got := sendBody(t.Context(), t, c, f, 0)
		if got.Class != want || want == record.OK && (!got.Wrote.Reached() || got.BytesOut < 4<<20) || want != record.OK && !strings.Contains(got.Detail, "413") {
			t.Errorf("%s: %s, wrote %d, %d bytes", got.Class, got.Detail, got.Wrote, got.BytesOut)
		}
	}
}
