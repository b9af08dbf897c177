package simserver

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The log says what a request met: stamps in order, after the instants of the model, and before the client's.
func TestTruthLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "truth.jsonl")
	cfg := quick(func(c *Config) {
		c.TruthLog = path
		c.PrefillPerToken, c.DecodeBase = Duration(2*time.Millisecond), Duration(3*time.Millisecond)
		c.Errors = []Fault{{Kind: FaultTruncated, Every: 2}}
	})
	in := start(t, cfg)
	clock := newClock()
	before := clock.now()
	resp, _ := in.post(t, completionPath, `{"prompt":"a b c","stream":true,"max_tokens":4}`)
	after := clock.now()
	in.post(t, completionPath, `{"prompt":"a b c","stream":true,"max_tokens":4}`)
	in.post(t, completionPath, `{"prompt":"a b c","max_tokens":4}`)
	in.settled(t) // also brings the log up to date
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := ReadTruth(data)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i, want := range []struct {
		outcome     string
		due, stamps int
	}{{"ok", 4, 4}, {"truncated", 2, 2}, {"ok", 4, 1}} {
		e := entries[i]
		if e.Outcome != want.outcome || len(e.DueNS) != want.due || len(e.WroteNS) != want.stamps || e.PromptTokens != 3 {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	e := entries[0]
	if e.ID != resp.Header.Get("X-Request-Id") || e.N != 1 {
		t.Errorf("entry is %s, number %d", e.ID, e.N)
	}
	if e.ArrivedNS < before || e.WroteNS[3] > after || !slices.IsSorted(e.WroteNS) {
		t.Errorf("stamps %d, %v outside %d to %d", e.ArrivedNS, e.WroteNS, before, after)
	}
	for i, due := range e.DueNS {
		if want := e.ArrivedNS + 6*ms + int64(i)*3*ms; due != want || e.WroteNS[i] < due {
			t.Errorf("token %d: due %d, want %d, written %d", i, due, want, e.WroteNS[i])
		}
	}
}

// The hand-written encoder writes what encoding/json would.
func TestEntryEncoding(t *testing.T) {
	for _, e := range []Entry{
		{V: 1, DueNS: []int64{}, WroteNS: []int64{}},
		{
			V: 1, ID: `a"b`, N: 3, ArrivedNS: 1 << 60, PromptTokens: 4, CachedTokens: 5, OutputTokens: 6,
			DueNS: []int64{1, -2}, WroteNS: []int64{7}, Outcome: "reset",
		},
	} {
		want, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want)+"\n", string(e.append(nil))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestReadTruthNamesTheLine(t *testing.T) {
	entries, err := ReadTruth([]byte("{\"n\":1}\n{\"n\":2}\n{\"n\":"))
	if err == nil || !strings.Contains(err.Error(), "line 3") || len(entries) != 2 {
		t.Errorf("%d entries, error %v", len(entries), err)
	}
}

// Bytes and connections are counted where they pass.
func TestConnectionCounts(t *testing.T) {
	in := start(t, quick())
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, in.url+completionPath, strings.NewReader(plainBody))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Request-Id", "mine")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.Header.Get("X-Request-Id") != "mine" {
			t.Errorf("request id %q", resp.Header.Get("X-Request-Id"))
		}
	}
	c := in.settled(t)
	if c.Requests != 3 || c.Answered != 3 || c.Events != 3 {
		t.Errorf("truth counts %+v", c)
	}
	if c.Connections < 2 || c.Connections > 3 { // one kept alive, one for each look at the counts
		t.Errorf("%d connections", c.Connections)
	}
	if c.BytesIn < int64(3*len(plainBody)) || c.BytesOut < 3*200 {
		t.Errorf("bytes in %d, out %d", c.BytesIn, c.BytesOut)
	}
	if c.StartNS <= 0 || c.ReadyNS != c.StartNS || c.NowNS <= c.StartNS {
		t.Errorf("instants %+v", c)
	}
}

func TestRequestID(t *testing.T) {
	for given, want := range map[string]string{
		"":                       "sim-00000007",
		"abc-1":                  "abc-1",
		"with space":             "sim-00000007",
		`quo"te`:                 "sim-00000007",
		"\x1b[31m":               "sim-00000007",
		strings.Repeat("x", 129): "sim-00000007",
	} {
		if got := requestID(given, 7); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
}

// The clock is the kernel's: a reading here and one by another clock of the package agree to well under a millisecond.
func TestClocksAgree(t *testing.T) {
	a, b := newClock(), newClock()
	if d := b.now() - a.now(); d < -ms/4 || d > ms {
		t.Errorf("two clocks read %d ns apart", d)
	}
}

// An alarm does not ring early, and a change of its instant counts at once, before the wait and during it.
func TestAlarm(t *testing.T) {
	c := newClock()
	a, err := newAlarm(c)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	until := c.now() + 20*ms
	wake := func(at int64) {
		if err := a.set(at); err != nil {
			t.Error(err)
		}
	}
	wake(until)
	a.wait()
	if now := c.now(); now < until {
		t.Errorf("woke %d ns early", until-now)
	}
	wake(until) // long past
	a.wait()
	wake(never)
	wake(0)
	a.wait()
	wake(never)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() {
		time.Sleep(5 * time.Millisecond)
		wake(0)
	}()
	woke := make(chan struct{})
	go func() {
		a.wait()
		close(woke)
	}()
	select {
	case <-woke:
	case <-ctx.Done():
		t.Fatal("the change was not noticed")
	}
}
