package simserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	streamBody = `{"prompt":"a b c","stream":true,"max_tokens":6}`
	plainBody  = `{"prompt":"a b c","max_tokens":6}`
)

// Each kind of failure on the wire, streamed and not. Every second request is hit.
func TestErrorKinds(t *testing.T) {
	tests := []struct {
		kind       FaultKind
		status     int // 0: no answer at all
		stream     error
		events     int // with text, in the stream
		holds      string
		plainError error
		plainHolds string
	}{
		{kind: FaultHTTP500, status: 500, holds: injected, plainHolds: injected},
		{kind: FaultHTTP503, status: 503, holds: injected, plainHolds: injected},
		{kind: FaultHTTP429, status: 429, holds: injected, plainHolds: injected},
		{kind: FaultStreamError, status: 200, events: 3, holds: `data: {"error":{`, plainHolds: `{"error":{`},
		{kind: FaultTruncated, status: 200, events: 3, plainError: io.ErrUnexpectedEOF},
		{kind: FaultCut, status: 200, stream: io.ErrUnexpectedEOF, events: 3, plainError: io.EOF},
		{kind: FaultReset, status: 200, stream: syscall.ECONNRESET, events: 3, plainError: syscall.ECONNRESET},
		{kind: FaultEmpty, status: 200, holds: `"text":"","logprobs":null,"finish_reason":"stop"`, plainHolds: `"text":""`},
	}
	for _, tt := range tests {
		t.Run(string(tt.kind), func(t *testing.T) {
			in := start(t, quick(func(c *Config) { c.Errors = []Fault{{Kind: tt.kind, Every: 2}} }))
			if _, body := in.post(t, completionPath, streamBody); strings.Count(body, `"text":`) != 6 {
				t.Fatalf("the first request must be healthy: %s", body)
			}
			resp, body, err := in.do(t, http.MethodPost, completionPath, streamBody)
			if !errors.Is(err, tt.stream) || (resp != nil && resp.StatusCode != tt.status) {
				t.Errorf("stream: error %v, want %v", err, tt.stream)
			}
			// A reset may overtake what was sent before it, so its events are not counted.
			if n := strings.Count(body, `"text":"`); tt.events > 0 && n != tt.events && tt.kind != FaultReset {
				t.Errorf("stream: %d events with text, want %d", n, tt.events)
			}
			if !strings.Contains(body, tt.holds) || (tt.events > 0 && strings.Contains(body, `"finish_reason":"`)) {
				t.Errorf("stream: %s", body)
			}
			if done := strings.Contains(body, "[DONE]"); done != (tt.kind == FaultEmpty || tt.kind == FaultStreamError) {
				t.Errorf("stream: end marker %v", done)
			}
			in.post(t, completionPath, plainBody)
			_, body, err = in.do(t, http.MethodPost, completionPath, plainBody)
			if !errors.Is(err, tt.plainError) || !strings.Contains(body, tt.plainHolds) {
				t.Errorf("plain: error %v, want %v; body %s", err, tt.plainError, body)
			}
			if c := in.settled(t); c.Requests != 4 || c.Answered != 2 || c.Failed != 2 || c.Aborted != 0 {
				t.Errorf("truth counts %+v", c)
			}
		})
	}
}

// settled is the counts once no request is in flight: a client may know the end before the server has booked it.
func (in *instance) settled(t *testing.T) Counts {
	t.Helper()
	for range 500 {
		if c := in.counts(t); c.InFlight == 0 {
			return c
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatal("requests stay in flight")
	return Counts{}
}

func TestRetryAfter(t *testing.T) {
	in := start(t, quick(func(c *Config) { c.Errors = []Fault{{Kind: FaultHTTP429, Share: 1}} }))
	if resp, _ := in.post(t, completionPath, plainBody); resp.Header.Get("Retry-After") != "1" {
		t.Errorf("headers %v", resp.Header)
	}
}

// Comments flow while no token does, and a client that gives up is counted.
func TestHangWithPings(t *testing.T) {
	in := start(t, quick(func(c *Config) {
		c.Errors = []Fault{{Kind: FaultHang, Share: 1}}
		c.Ping = Duration(5 * time.Millisecond)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, in.url+completionPath, strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	buf := make([]byte, 18)
	if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != ": ping\n\n: ping\n\n: " {
		t.Fatalf("%q, %v", buf, err)
	}
	cancel()
	if c := in.settled(t); c.Aborted != 1 || c.Events != 0 {
		t.Errorf("truth counts %+v", c)
	}
}

// A client that leaves takes its sequence out of the batch.
func TestAbortFreesTheBatch(t *testing.T) {
	in := start(t, Default())
	ctx, cancel := context.WithCancel(t.Context())
	body := `{"prompt":"a","stream":true,"max_tokens":100000}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, in.url+completionPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if got := in.gauge(t, "vllm:num_requests_running"); got != 1 {
		t.Errorf("%v requests running, want 1", got)
	}
	cancel()
	if c := in.settled(t); c.Aborted != 1 {
		t.Errorf("truth counts %+v", c)
	}
	if got := in.gauge(t, "vllm:num_requests_running"); got != 0 {
		t.Errorf("%v requests running, want 0", got)
	}
}

// Events are cut and gathered as configured, without losing a token.
func TestCoalescing(t *testing.T) {
	in := start(t, quick(func(c *Config) { c.TokensPerEvent, c.EventsPerWrite = 4, 2 }))
	_, body := in.post(t, completionPath, `{"prompt":"a","stream":true,"max_tokens":18}`)
	single := start(t, quick())
	_, want := single.post(t, completionPath, `{"prompt":"a","stream":true,"max_tokens":18}`)
	if n := strings.Count(body, `"text":`); n != 5 {
		t.Errorf("%d events, want 5", n)
	}
	if got := textOf(body); got != textOf(want) || len(strings.Fields(got)) != 18 {
		t.Errorf("text %q, want %q", got, textOf(want))
	}
}

// textOf joins the text of a completion stream.
func textOf(body string) string {
	var b strings.Builder
	for _, part := range strings.Split(body, `"text":"`)[1:] {
		text, _, _ := strings.Cut(part, `"`)
		b.WriteString(text)
	}
	return b.String()
}
