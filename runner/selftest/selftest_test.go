package selftest_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/internal/simserver"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/selftest"
)

// serve starts a truth server in this process; what it costs falls on us, so no test below holds a speed.
func serve(t *testing.T) selftest.Options {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := simserver.Default()
	cfg.Plain = &simserver.Plain{}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- simserver.Serve(ctx, cfg, simserver.Options{Listener: l}) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	url := "http://" + l.Addr().String()
	return selftest.Options{URL: url, Truth: func(ctx context.Context, run string) ([]selftest.Truth, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+simserver.PlainTakePath+"?run="+run, nil)
		if err != nil {
			return nil, err
		}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			return nil, err
		}
		defer func() { _ = resp.Body.Close() }()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		entries, err := simserver.ReadTruth(data)
		var truths []selftest.Truth
		for _, e := range entries {
			truths = append(truths, selftest.Truth{ID: e.ID, Arrived: e.ArrivedNS, Wrote: e.WroteNS, OK: e.Outcome == "ok"})
		}
		return truths, err
	}}
}

func run(t *testing.T, o selftest.Options) selftest.Result {
	t.Helper()
	r, err := selftest.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Sent != r.SeenByServer {
		t.Errorf("sent %d, the server saw %d", r.Sent, r.SeenByServer)
	}
	if r.Measured != r.OK || r.OK == 0 {
		t.Errorf("%d of %d ok; %v %s", r.OK, r.Measured, r.Failed, r.FirstFailure)
	}
	return r
}

// number is a figure that must be there.
func number(t *testing.T, name string, f selftest.Figure) float64 {
	t.Helper()
	x, ok := f.Finite()
	if !ok {
		t.Fatalf("%s: n/a (%s)", name, f.Reason())
	}
	return x
}

func TestStreams(t *testing.T) {
	o := serve(t)
	o.Streams, o.EventsPerS, o.Length, o.Warmup, o.StreamFor = 5, 50, time.Second, 320*time.Millisecond, 200*time.Millisecond
	o.First = 20 * time.Millisecond
	r := run(t, o)
	// 5 streams of 10 events live 20 ms + 9·20 ms: 25 arrivals a second.
	if r.Measured != 25 || r.Sent != 33 {
		t.Errorf("measured %d, sent %d; want 25 and 33", r.Measured, r.Sent)
	}
	ttft := number(t, "ttft_error_ms.mean", r.TTFTError.Mean)
	if ttft <= 0 || number(t, "max", r.TTFTError.Max) < ttft || number(t, "p99", r.TTFTError.P99) > 1000 {
		t.Errorf("TTFT error %+v", r.TTFTError)
	}
	if gap := number(t, "gap_ms.p50", r.Gaps.P50); gap < 15 || gap > 25 {
		t.Errorf("median gap %v ms, the server was asked for 20", gap)
	}
	if lag := number(t, "pacer_lag_ms.p50", r.PacerLag.P50); lag < 0 || lag > 100 {
		t.Errorf("pacer lag %v ms", lag)
	}
	if n := number(t, "events_per_s", r.EventsPerS); n < 150 || n > 300 {
		t.Errorf("%v events/s, 250 were offered", n)
	}
	if r.RSSPerStream.Reason() == "" || r.ServerCPU.Reason() == "" {
		t.Errorf("figures out of nothing: %+v", r)
	}
}

// The stamps decide what is an error: truth that lies 7 ms before what happened makes 7 ms of it.
func TestErrorsAreDifferencesFromTheStamps(t *testing.T) {
	o := serve(t)
	o.Streams, o.EventsPerS, o.Length, o.StreamFor, o.First = 2, 100, 500*time.Millisecond, 100*time.Millisecond, time.Millisecond
	plain := run(t, o)
	inner := o.Truth
	o.Truth = func(ctx context.Context, name string) ([]selftest.Truth, error) {
		truths, err := inner(ctx, name)
		for _, tr := range truths {
			tr.Wrote[0] -= 1e9
		}
		return truths, err
	}
	moved := run(t, o)
	if by := number(t, "mean", moved.TTFTError.Mean) - number(t, "mean", plain.TTFTError.Mean); by < 500 || by > 1500 {
		t.Errorf("a second of error shows as %v ms", by)
	}
	if m := number(t, "gap max", moved.GapError.Max); m < 900 || m > 1100 {
		t.Errorf("a gap that is a second off shows as %v ms", m)
	}
}

func TestSmallAnswersInAnOpenLoop(t *testing.T) {
	o := serve(t)
	o.RPS, o.Length = 200, time.Second
	r := run(t, o)
	if r.Measured != 200 || r.Sent != 200 {
		t.Errorf("measured %d, sent %d; want 200", r.Measured, r.Sent)
	}
	if _, ok := r.TTFTError.Mean.Get(); ok {
		t.Error("answers that are not streamed have a TTFT error")
	}
	if why := r.Missing["ttft_error_ms"]; !strings.Contains(why, "not streamed") {
		t.Errorf("missing %v", r.Missing)
	}
	if off := number(t, "rate_error", r.Arrivals.RateError); off < -0.05 || off > 0.05 {
		t.Errorf("rate is off by %v", off)
	}
}

func TestClosedLoopEndsAfterItsRequests(t *testing.T) {
	o := serve(t)
	o.Connections, o.Requests, o.Length = 4, 500, 20*time.Second
	began := time.Now()
	r := run(t, o)
	if r.Sent != 500 || time.Since(began) > 15*time.Second {
		t.Errorf("sent %d in %v", r.Sent, time.Since(began))
	}
	if number(t, "requests_per_s", r.RequestsPerS) <= 0 || r.PacerLag.P99.Reason() == "" {
		t.Errorf("result %+v", r)
	}
}

func TestUnpacedStreams(t *testing.T) {
	o := serve(t)
	o.Streams, o.Requests, o.Length = 2, 4, 20*time.Second
	r := run(t, o)
	if r.Sent != 4 || number(t, "events_per_s", r.EventsPerS) < 100 || number(t, "events_per_read", r.EventsPerRead) <= 0 {
		t.Errorf("result %+v", r)
	}
}

func TestFailuresAreCountedByClass(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	_ = l.Close()
	r, err := selftest.Run(t.Context(), selftest.Options{URL: url, Streams: 2, EventsPerS: 20, Length: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if r.OK != 0 || r.Measured == 0 || r.Failed[record.Dial] != r.Measured || r.FirstFailure == "" || r.SeenByServer != -1 || r.Sent != 0 {
		t.Errorf("result %+v", r)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"ttft_error_ms":{"mean":null,"p50":null,"p99":null,"max":null}`) {
		t.Errorf("JSON %s", text)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range []selftest.Options{{}, {Streams: 1, RPS: 1}, {Streams: -1}, {RPS: 1, Length: -1}} {
		if _, err := selftest.Run(t.Context(), o); err == nil {
			t.Errorf("%+v ran", o)
		}
	}
}
