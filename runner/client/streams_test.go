package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// TestStreams plays every script in fake time over an in-memory connection, where each instant must be exact, whole and
// with every write cut into single bytes.
func TestStreams(t *testing.T) {
	for _, s := range loadScripts(t) {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.check(t, memory, 0, exact, mood{})
			})
		})
		t.Run(s.name+"/bytes", func(t *testing.T) {
			piece := 1
			if len(s.body()) > 1<<20 {
				// A million writes of one byte show nothing that a million of 4 KiB do not.
				piece = 4 << 10
			}
			synctest.Test(t, func(t *testing.T) {
				s.check(t, memory, piece, exact, mood{reads: true})
			})
		})
	}
}

// TestStreamsOverLoopback plays every script over a real socket. Nothing may be stamped before the server wrote it; how
// late, and how many writes one read takes, is the machine's mood and not asserted.
func TestStreamsOverLoopback(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for real time")
	}
	for _, s := range loadScripts(t) {
		if s.steps[len(s.steps)-1].at > time.Second {
			// The long ones show timers, not sockets; fake time has them.
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t, loopback, 0, measured, mood{reads: true, times: true})
		})
	}
}

// wire connects a client to a script: it returns the client's dial function and a function that waits for the playback.
type wire func(t *testing.T, s script, piece int) (dialFunc, func() *playback)

// timing compares a time of the script with one the client reported.
type timing func(p *playback, tolerance float64) func(want, got float64) string

// mood is what a playback leaves to chance: reads may take parts of writes, or several.
type mood struct{ reads, times bool }

func exact(*playback, float64) func(want, got float64) string {
	return func(want, got float64) string {
		if math.Abs(want-got) > 1e-6 {
			return fmt.Sprintf("want %v, got %v", want, got)
		}
		return ""
	}
}

// busy is what a machine that runs other things may add, in ms.
const busy = 2000

func measured(p *playback, tolerance float64) func(want, got float64) string {
	return func(want, got float64) string {
		at := want
		if real, ok := p.at[time.Duration(want*1e6)]; ok {
			at = millis(int64(real))
		}
		if got < at-tolerance || got > at+tolerance+busy {
			return fmt.Sprintf("want %v (written at %v), got %v", want, at, got)
		}
		return ""
	}
}

func memory(_ *testing.T, s script, piece int) (dialFunc, func() *playback) {
	done := make(chan *playback, 1)
	return func(context.Context, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		end := &resettable{Conn: ours}
		go func() { done <- s.play(theirs, piece, func() { end.reset.Store(true) }) }()
		return end, nil
	}, func() *playback { return <-done }
}

// resettable is a pipe end that can report a reset, which pipes do not have.
type resettable struct {
	net.Conn
	reset atomic.Bool
}

func (r *resettable) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	if errors.Is(err, io.EOF) && r.reset.Load() {
		err = &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	}
	return n, err
}

func loopback(t *testing.T, s script, piece int) (dialFunc, func() *playback) {
	t.Helper()
	l := listen(t)
	done := make(chan *playback, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		done <- s.play(c, piece, func() { _ = c.(*net.TCPConn).SetLinger(0) })
	}()
	return func(ctx context.Context, _ string) (net.Conn, error) {
		return tcp(ctx, l.Addr().String())
	}, func() *playback { return <-done }
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// check sends one request to the script and holds the probe's JSON against expected.json.
func (s *script) check(t *testing.T, over wire, piece int, times timing, free mood) {
	t.Helper()
	dial, wait := over(t, *s, piece)
	c := s.newClient(t, dial)
	body, stream := s.requestBody(t)
	sample, trace, err := c.once(t.Context(), body, stream)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	p := wait()
	if p.requests != 1 || len(p.wrong) > 0 {
		t.Errorf("the server saw %d requests, wrong: %v", p.requests, p.wrong)
	}
	out, err := ProbeJSON(sample, trace)
	if err != nil {
		t.Fatal(err)
	}
	if err := ProbeText(io.Discard, sample, trace); err != nil {
		t.Error(err)
	}
	checkSample(t, sample, trace.Stream)
	s.compare(t, out, p, times, free)
	if t.Failed() {
		t.Logf("%s", out)
	}
}

func (s *script) newClient(tb testing.TB, dial dialFunc) *Client {
	tb.Helper()
	ms := func(name string, otherwise time.Duration) time.Duration {
		if v, ok := s.client[name]; ok {
			n, err := strconv.Atoi(v)
			if err != nil {
				tb.Fatal(err)
			}
			return time.Duration(n) * time.Millisecond
		}
		return otherwise
	}
	l := record.DefaultLimits()
	l.FirstEvent, l.Idle, l.Total = ms("first_event", l.FirstEvent), ms("idle", l.Idle), ms("total", l.Total)
	l.NoProgress = ms("no_progress", l.NoProgress)
	c, err := prepare(Options{
		URL: "http://127.0.0.1:1", Dialect: s.dialect, Model: "m", Limits: l, Clock: record.NewClock(),
		PerEventTokens: s.client["per_event_tokens"],
	})
	if err != nil {
		tb.Fatal(err)
	}
	c.dial = dial
	return c
}

func (s *script) requestBody(tb testing.TB) (body []byte, stream bool) {
	tb.Helper()
	f := fields{"prompt": "hi", "messages": []fields{{"role": "user", "content": "hi"}}}
	stream = true
	if s.request != "" {
		more, err := parseFields([]byte(s.request))
		if err != nil {
			tb.Fatal(err)
		}
		if v, ok := more["stream"].(bool); ok {
			stream = v
		}
		maps.Copy(f, more)
	}
	body, err := json.Marshal(f)
	if err != nil {
		tb.Fatal(err)
	}
	return body, stream
}

// tableFlags are those that expected.json lists exactly; others are free.
func tableFlags() []string {
	return []string{
		FlagNoDoneMarker, FlagNoFinishReason, FlagUsageInconsistent, FlagReasoningOnly, FlagNotStreamed, FlagBunchedStream,
		"model_reloaded",
	}
}

func (s *script) compare(t *testing.T, out []byte, p *playback, times timing, free mood) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "streams", s.name, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	tolerance := want["tolerance_ms"].(float64)
	same := times(p, tolerance)
	for key, w := range want {
		g, there := got[key]
		wrong := ""
		switch key {
		case "tolerance_ms":
			continue
		case "outcome":
			wrong = wrongOutcome(w, g.(string))
		case "detail":
			if !strings.Contains(g.(string), w.(string)) {
				wrong = fmt.Sprintf("want %q in %q", w, g)
			}
		case "flags":
			wrong = wrongFlags(w.([]any), g.([]any), free.reads)
		case "inter_chunk_ms":
			if !free.reads {
				wrong = wrongGaps(w.([]any), g, want, got, same)
			}
		case "tpot_ms":
			if !free.times {
				wrong = wrongTPOT(w, g, want, tolerance)
			}
		default:
			switch wn, number := w.(float64); {
			case number && strings.HasSuffix(key, "_ms"):
				gn, ok := g.(float64)
				if wrong = same(wn, gn); !ok {
					wrong = fmt.Sprintf("want %v, got %v", w, g)
				}
			default:
				wrong = cmp.Diff(w, g)
			}
		}
		if wrong != "" || !there && key != "texts" {
			t.Errorf("%s: %s", key, wrong)
		}
	}
}

func wrongOutcome(want any, got string) string {
	ok := false
	switch w := want.(type) {
	case string:
		ok = w == got || w == "failed" && got != "ok"
	case []any:
		ok = slices.Contains(w, any(got))
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("want %v, got %s", want, got)
}

func wrongFlags(want, got []any, cut bool) string {
	keep := func(all []any) []string {
		var out []string
		for _, f := range all {
			if name := f.(string); slices.Contains(tableFlags(), name) && (!cut || name != FlagBunchedStream) {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		return out
	}
	return cmp.Diff(keep(want), keep(got))
}

func wrongGaps(want []any, got any, w, g map[string]any, same func(want, got float64) string) string {
	list, _ := got.([]any)
	if len(list) != len(want) {
		return fmt.Sprintf("want %v, got %v", want, got)
	}
	wantAt, ok := w["ttft_ms"].(float64)
	gotAt, ok2 := g["ttft_ms"].(float64)
	if !ok || !ok2 {
		return ""
	}
	for i := range want {
		wantAt += want[i].(float64)
		gotAt += list[i].(float64)
		if wrong := same(wantAt, gotAt); wrong != "" {
			return fmt.Sprintf("end of gap %d: %s", i, wrong)
		}
	}
	return ""
}

func wrongTPOT(want, got any, all map[string]any, tolerance float64) string {
	w, number := want.(float64)
	g, there := got.(float64)
	if !number || !there {
		return cmp.Diff(want, got)
	}
	n, _ := all["output_tokens"].(float64)
	if math.Abs(w-g) > max(0.2, 2*tolerance/max(n-1, 1)) {
		return fmt.Sprintf("want %v, got %v", want, got)
	}
	return ""
}
