package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client/scripttest"
	"github.com/tailgate-ci/tailgate/runner/record"
)

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

// deaf is a connection whose read deadlines do not fire, as those of a process that got no CPU do not.
type deaf struct{ net.Conn }

func (deaf) SetReadDeadline(time.Time) error { return nil }

// The limit decides by the stamp of the read, not by whether a timer got to run before it.
func TestLateBytesAreLateWithoutATimer(t *testing.T) {
	for after, want := range map[time.Duration]record.Outcome{499 * time.Millisecond: record.OK, 501 * time.Millisecond: record.Timeout} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				req, err := http.ReadRequest(bufio.NewReader(theirs))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				time.Sleep(after)
				_, _ = io.WriteString(theirs, okAnswer+okChunks())
			}()
			s := namedScript(t, "K-03b-too-late") // total limit of 500 ms
			c := scriptClient(t, &s, func(context.Context, string) (net.Conn, error) { return deaf{ours}, nil })
			got := send(t, c, 0)
			c.Close()
			if got.Class != want || want == record.Timeout && got.Detail != "total" {
				t.Errorf("after %v: %s: %s", after, got.Class, got.Detail)
			}
		})
	}
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
