package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client/scripttest"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const streams = "testdata/streams"

func loadScripts(tb testing.TB) []scripttest.Script {
	tb.Helper()
	all, err := scripttest.Load(streams)
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func namedScript(tb testing.TB, name string) scripttest.Script {
	tb.Helper()
	for _, s := range loadScripts(tb) {
		if s.Name == name {
			return s
		}
	}
	tb.Fatalf("no script %s", name)
	return scripttest.Script{}
}

// hangingScript answers with a head and then says nothing.
func hangingScript(hold time.Duration) scripttest.Script {
	return scripttest.Script{
		Name: "x", Method: http.MethodPost, Path: "/v1/chat/completions", Status: http.StatusOK, Framing: "close",
		Client: map[string]string{}, Steps: []scripttest.Step{{What: "hold", Hold: hold}},
	}
}

// A script that got lost would pass.
func TestAllScriptsAreThere(t *testing.T) {
	folders, err := os.ReadDir(streams)
	if err != nil {
		t.Fatal(err)
	}
	all := loadScripts(t)
	if len(all) != 105 || len(folders) != len(all) {
		t.Errorf("%d scripts in %d folders, want 105", len(all), len(folders))
	}
	spoken := map[string]bool{}
	for _, s := range all {
		spoken[s.Dialect] = true
	}
	for _, name := range Dialects() {
		if !spoken[name] && name != "http-json" {
			t.Errorf("no script speaks %s", name)
		}
	}
}

// pieceOf is how small the pieces are that a script's writes are cut into: single bytes, but for bodies of which a million
// show nothing that 4 KiB do not.
func pieceOf(s *scripttest.Script) int {
	if len(s.Body()) > 1<<20 {
		return 4 << 10
	}
	return 1
}

// TestStreams plays every script in fake time over an in-memory connection, where each instant must be exact, whole and
// with every write cut into single bytes.
func TestStreams(t *testing.T) {
	for _, s := range loadScripts(t) {
		t.Run(s.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playScript(t, &s, memory, 0, scripttest.Chance{}) })
		})
		t.Run(s.Name+"/bytes", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playScript(t, &s, memory, pieceOf(&s), scripttest.Chance{Reads: true}) })
		})
	}
}

// TestStreamsOverLoopback plays every script over a real socket, whole and cut. How late an instant is, and how many writes
// one read takes, is the machine's mood: it is held to seconds here, and exactly in fake time.
func TestStreamsOverLoopback(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for real time")
	}
	// Not t.Parallel, which lets two run at a time on two cores: these wait, they do not compute.
	var playing sync.WaitGroup
	room := make(chan struct{}, 40)
	for _, s := range loadScripts(t) {
		for name, piece := range map[string]int{"whole": 0, "bytes": pieceOf(&s)} {
			room <- struct{}{}
			playing.Go(func() {
				defer func() { <-room }()
				t.Run(s.Name+"/"+name, func(t *testing.T) {
					playScript(t, &s, loopback, piece, scripttest.Chance{Reads: true, Late: busy})
				})
			})
		}
	}
	playing.Wait()
}

// wire connects a client to a script: it returns the client's dial function and a function that waits for the playback.
type wire func(t *testing.T, s *scripttest.Script, piece int) (dialFunc, func() *scripttest.Playback)

// busy is what a machine that runs other things may add to an instant.
const busy = 2 * time.Second

func memory(_ *testing.T, s *scripttest.Script, piece int) (dialFunc, func() *scripttest.Playback) {
	done := make(chan *scripttest.Playback, 1)
	return func(context.Context, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		end := &resettable{Conn: ours}
		go func() { done <- s.Play(theirs, piece, func() { end.reset.Store(true) }) }()
		return end, nil
	}, func() *scripttest.Playback { return <-done }
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

func loopback(t *testing.T, s *scripttest.Script, piece int) (dialFunc, func() *scripttest.Playback) {
	t.Helper()
	l := listen(t)
	done := make(chan *scripttest.Playback, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		done <- s.Play(c, piece, func() { _ = c.(*net.TCPConn).SetLinger(0) })
	}()
	return func(ctx context.Context, _ string) (net.Conn, error) {
		return tcp(ctx, l.Addr().String())
	}, func() *scripttest.Playback { return <-done }
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

// playScript sends one request to the script and holds the probe's JSON against expected.json.
func playScript(t *testing.T, s *scripttest.Script, over wire, piece int, free scripttest.Chance) {
	t.Helper()
	dial, wait := over(t, s, piece)
	c := scriptClient(t, s, dial)
	body, stream := scriptBody(t, s)
	sample, trace, err := c.once(t.Context(), body, stream)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	p := wait()
	if p.Requests != 1 || len(p.Wrong) > 0 {
		t.Errorf("the server saw %d requests, wrong: %v", p.Requests, p.Wrong)
	}
	out, err := ProbeJSON(sample, trace)
	if err != nil {
		t.Fatal(err)
	}
	if err := ProbeText(io.Discard, sample, trace); err != nil {
		t.Error(err)
	}
	checkSample(t, sample, trace.Stream)
	for _, text := range s.Check(out, p, free) {
		t.Error(text)
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

func scriptClient(tb testing.TB, s *scripttest.Script, dial dialFunc) *Client {
	tb.Helper()
	ms := func(name string, otherwise time.Duration) time.Duration {
		if v, ok := s.Client[name]; ok {
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
		URL: "http://127.0.0.1:1" + s.Path, Dialect: s.Dialect, Model: "m", Limits: l, Clock: record.NewClock(),
		Settings: Settings{PerEventTokens: s.Client["per_event_tokens"]},
	})
	if err != nil {
		tb.Fatal(err)
	}
	c.dial = dial
	return c
}

func scriptBody(tb testing.TB, s *scripttest.Script) (body []byte, stream bool) {
	tb.Helper()
	f := fields{"prompt": "hi", "messages": []fields{{"role": "user", "content": "hi"}}}
	stream = true
	if s.Request != "" {
		more, err := parseFields([]byte(s.Request))
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
