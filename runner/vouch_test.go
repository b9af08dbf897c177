package runner

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/internal/simserver"
	"github.com/tailgate-ci/tailgate/runner/canary"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// released is one measured request, due and picked at offsets.
func released(seq int, due, late time.Duration) record.Sample {
	return record.Sample{Seq: seq, Turn: 1, Sched: record.Instant(due) + 1, Pick: record.Instant(due+late) + 1}
}

func TestSendRate(t *testing.T) {
	const every = 100 * time.Millisecond
	steady := func(n int, late func(i int) time.Duration) []record.Sample {
		var list []record.Sample
		for i := range n {
			list = append(list, released(i, time.Duration(i)*every, late(i)))
		}
		return list
	}
	tests := map[string]struct {
		samples []record.Sample
		want    float64
		none    bool
	}{
		"on time":            {samples: steady(150, func(int) time.Duration { return 0 })},
		"evenly late":        {samples: steady(150, func(int) time.Duration { return 90 * time.Millisecond })},
		"falling behind":     {samples: steady(150, func(i int) time.Duration { return time.Duration(i) * every / 50 }), want: 1 - 1/1.02},
		"one late at an end": {samples: steady(101, func(i int) time.Duration { return map[bool]time.Duration{true: 300 * time.Millisecond}[i == 100] }), want: 1 - 10/10.3},
		"catching up":        {samples: steady(101, func(i int) time.Duration { return map[bool]time.Duration{true: 300 * time.Millisecond}[i == 0] }), want: 10/9.7 - 1},
		"too short":          {samples: steady(100, func(int) time.Duration { return 0 }), none: true},
		"none":               {none: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			// The order of ending is not the order of release.
			slices.Reverse(tt.samples)
			got := sendRate(tt.samples)
			x, ok := got.Finite()
			if ok == tt.none || ok && math.Abs(x-tt.want) > 1e-6 {
				t.Errorf("%v %q, want %v", x, got.Reason(), tt.want)
			}
		})
	}
	// A later turn is due when the server ended the one before: its rate is the server's.
	list := steady(150, func(int) time.Duration { return 0 })
	for i := range list {
		list[i].Turn = 2
	}
	if _, ok := sendRate(list).Get(); ok {
		t.Error("turns that follow others have no planned rate")
	}
}

func TestHighest(t *testing.T) {
	tests := []struct {
		windows []float64
		n       int
		want    float64
	}{
		{[]float64{0.1, 0.9, 0.2}, 1, 0.9},
		{[]float64{0.9, 0.9, 0.1, 0.9, 0.9}, 5, 0.1},
		{[]float64{0.2, 0.8, 0.7, 0.9, 0.75, 0.8, 0.1}, 5, 0.7},
		{[]float64{1, 1}, 5, 0},
	}
	for _, tt := range tests {
		if got := highest(tt.windows, tt.n); got != tt.want {
			t.Errorf("%v by %d: %v, want %v", tt.windows, tt.n, got, tt.want)
		}
	}
}

func TestGrownPercentile(t *testing.T) {
	h := func(counts ...uint64) *metrics.Float64Histogram {
		return &metrics.Float64Histogram{Counts: counts, Buckets: []float64{math.Inf(-1), 0.001, 0.002, 0.01, math.Inf(1)}}
	}
	tests := map[string]struct {
		from, to *metrics.Float64Histogram
		want     float64
		none     bool
	}{
		"all quick":         {h(5, 0, 0, 0), h(105, 0, 0, 0), 0, false},
		"one in a hundred":  {h(5, 0, 0, 0), h(104, 0, 0, 1), 0, false},
		"two in a hundred":  {h(5, 0, 0, 0), h(103, 0, 0, 2), 10, false},
		"old ones left out": {h(0, 0, 0, 1000), h(0, 100, 0, 1000), 1, false},
		"nothing new":       {h(1, 2, 3, 4), h(1, 2, 3, 4), 0, true},
		"not told":          {nil, nil, 0, true},
	}
	for name, tt := range tests {
		got := grownPercentile(tt.from, tt.to, 0.99)
		x, ok := got.Finite()
		if ok == tt.none || ok && x != tt.want {
			t.Errorf("%s: %v %q, want %v", name, x, got.Reason(), tt.want)
		}
	}
}

// The meters must see what a process does: a core burnt, garbage collected, goroutines made to wait.
func TestMetersSeeWork(t *testing.T) {
	var m meters
	m.begin(1)
	keep := make([][]byte, 0, 64)
	for end := time.Now().Add(1300 * time.Millisecond); time.Now().Before(end); {
		keep = append(keep, make([]byte, 1<<20))
		if len(keep) == cap(keep) {
			keep = keep[:0]
			done := make(chan bool)
			for range 100 {
				go func() { done <- true }()
			}
			for range 100 {
				<-done
			}
		}
	}
	m.end()
	var c record.ClientReport
	m.fill(&c)
	for name, v := range map[string]record.Value{"cpu": c.CPU, "busiest second": c.CPUMax, "collections": c.GCCount, "pauses": c.GCPause} {
		if x, ok := v.Finite(); !ok || x <= 0 {
			t.Errorf("%s: %v %q; the process worked", name, x, v.Reason())
		}
	}
	if x, ok := c.SchedP99.Finite(); !ok || x < 0 {
		t.Errorf("scheduler latency %v %q", x, c.SchedP99.Reason())
	}
	if _, ok := c.CPUHeld.Get(); ok {
		t.Error("five seconds in a row, of one and a bit")
	}
	// What is asserted is only that a burnt core shows: somebody else may have had most of it.
	if x, _ := c.CPU.Finite(); x < 0.05 {
		t.Errorf("%.0f %% of a core, by a process that never rested", 100*x)
	}
}

func TestClientHost(t *testing.T) {
	h := clientHost()
	if h.Cores == "" || h.Count < 1 || len(h.SHA256) != 64 {
		t.Errorf("host %+v", h)
	}
	for want, list := range map[string][]int{"": nil, "3": {3}, "0-1": {0, 1}, "0-2,4,8-9": {0, 1, 2, 4, 8, 9}} {
		if got := ranges(list); got != want {
			t.Errorf("%v is %q, want %q", list, got, want)
		}
	}
	sys := t.TempDir()
	for core, word := range map[string]string{"cpu0": "performance", "cpu1": "powersave"} {
		dir := filepath.Join(sys, "devices/system/cpu", core, "cpufreq")
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "scaling_governor"), []byte(word+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := governor(sys, []int{0, 1, 7}); got != "performance,powersave" {
		t.Errorf("governors %q", got)
	}
	if got := governor(sys, []int{0}); got != "performance" {
		t.Errorf("governor %q of our own core", got)
	}
	if digestOf(filepath.Join(sys, "none")) != "" {
		t.Error("a digest of nothing")
	}
}

func TestPlannedPeak(t *testing.T) {
	tests := map[string]struct {
		load record.Load
		rate record.Value
		out  int
		seen int
		want int
	}{
		"closed":            {load: record.Load{Concurrency: 32}, rate: record.Of(1), want: 32},
		"closed, large":     {load: record.Load{Concurrency: 5000}, want: 1000},
		"open":              {rate: record.Of(10), out: 340, want: 105},
		"open, capped":      {load: record.Load{MaxInFlight: 20}, rate: record.Of(10), out: 340, want: 20},
		"open, large":       {rate: record.Of(1e9), out: 1000, want: 1000},
		"seen before":       {rate: record.Of(10), out: 340, seen: 12, want: 12},
		"seen, but closed":  {load: record.Load{Concurrency: 32}, seen: 12, want: 32},
		"seen, capped":      {load: record.Load{MaxInFlight: 5}, rate: record.Of(10), seen: 12, want: 5},
		"slow":              {rate: record.Of(0.1), out: 4, want: 1},
		"no rate to go by":  {rate: record.NA("one request"), want: 1},
		"cap above arrival": {load: record.Load{MaxInFlight: 900}, rate: record.Of(10), out: 340, want: 105},
	}
	for name, tt := range tests {
		run := &record.Run{Declared: record.Declared{Load: tt.load}, Workload: record.WorkloadInfo{Rate: tt.rate, OutTokens: record.Quantiles{P50: tt.out}}}
		if got := plannedPeak(run, tt.seen); got != tt.want {
			t.Errorf("%s: %d streams, want %d", name, got, tt.want)
		}
	}
}

func TestFlights(t *testing.T) {
	var f flights
	if f.peak() != 0 {
		t.Error("a peak of nothing")
	}
	for _, s := range []record.Sample{
		{Wrote: 10, End: 20}, {Wrote: 15, End: 40}, {Wrote: 20, End: 30}, {Wrote: 18, End: 19}, {Wrote: 50}, {End: 60}, {Wrote: 41, End: 42},
	} {
		f.add(s)
	}
	// At 18 three are open; the one that starts as another ends does not overlap it.
	if got := f.peak(); got != 3 {
		t.Errorf("peak %d, want 3", got)
	}
}

// A round carries the whole account of its load generator.
func TestRoundVouchesForItself(t *testing.T) {
	url := serveSim(t, nil)
	seen, listened := int64(100), false
	plan := func(p *Plan) {
		p.Canary = func(context.Context) (func() record.CanaryReport, error) {
			listened = true
			return func() record.CanaryReport { return record.CanaryReport{Events: 20, P99: record.Of(0.5)} }, nil
		}
		p.Floor = func(_ context.Context, streams int) (record.Floor, error) {
			return record.Floor{Streams: streams, Seconds: 2, TTFTP50: record.Of(0.1)}, nil
		}
		p.Seen = func(_ context.Context, at string) (int64, error) {
			if at != url {
				t.Errorf("asked %s", at)
			}
			seen += 50
			return seen, nil
		}
	}
	_, rd := loadWith(t, url, turns(t, 400, 10*time.Millisecond, nil), time.Second, nil, plan)
	c := rd.Client
	if !listened || c.Canary.Events != 20 {
		t.Errorf("canary %+v", c.Canary)
	}
	if c.Floor.Streams < 1 || c.Floor.Seconds != 2 {
		t.Errorf("floor %+v", c.Floor)
	}
	attempts, _ := c.Sent.Attempts.Get()
	sampled, _ := c.Sent.Sampled.Get()
	written, _ := c.Sent.Written.Get()
	told, _ := c.Sent.Seen.Get()
	if attempts < 100 || attempts != sampled || attempts != written || told != 50 {
		t.Errorf("sent %+v", c.Sent)
	}
	if x, ok := c.Host.RTT.Finite(); !ok || x <= 0 || c.Host.SHA256 == "" || c.Host.Pacing == "" {
		t.Errorf("host %+v", c.Host)
	}
	if x, ok := c.CPU.Finite(); !ok || x <= 0 {
		t.Errorf("cpu %v", c.CPU)
	}
	if c.SendRate.Reason() == "" {
		t.Error("a second has no 10 s")
	}
}

// Without witnesses a round says so, in words, and is measured all the same.
func TestRoundWithoutWitnesses(t *testing.T) {
	url := serveSim(t, nil)
	_, rd := loadWith(t, url, turns(t, 200, 10*time.Millisecond, nil), time.Second, nil, func(p *Plan) {
		p.Canary = func(context.Context) (func() record.CanaryReport, error) { return nil, errors.New("it did\nnot start") }
		p.Floor = func(context.Context, int) (record.Floor, error) { return record.Floor{}, errors.New("no server") }
		p.Seen = func(context.Context, string) (int64, error) { return 0, errors.New("404") }
	})
	c := rd.Client
	for reason, v := range map[string]record.Value{
		"it did not start":                c.Canary.P99,
		"the self-test failed: no server": c.Floor.TTFTP99,
		"404":                             c.Sent.Seen,
	} {
		if _, ok := v.Get(); ok || !strings.Contains(v.Reason(), reason) {
			t.Errorf("%q, want %q", v.Reason(), reason)
		}
	}
	_, rd = loadOnce(t, url, turns(t, 200, 10*time.Millisecond, nil), time.Second, nil)
	if r := rd.Client.Floor.GapP50.Reason(); r != "self_test is 0s" {
		t.Errorf("a skipped self-test says %q", r)
	}
	if r := rd.Client.Sent.Seen.Reason(); r != "the server does not tell" {
		t.Errorf("an untold count says %q", r)
	}
}

// Requests that end badly are neither lost nor doubled: the four counts agree, but for what a broken connection hides.
func TestCountsOfFailures(t *testing.T) {
	for _, kind := range []simserver.FaultKind{simserver.FaultHTTP503, simserver.FaultReset} {
		t.Run(string(kind), func(t *testing.T) {
			url := serveSim(t, func(c *simserver.Config) { c.Errors = []simserver.Fault{{Kind: kind, Every: 5}} })
			_, rd := loadWith(t, url, turns(t, 300, 10*time.Millisecond, nil), time.Second, func(d *record.Declared) { d.Warmup.MaxErrorRate = 0.9 }, func(p *Plan) {
				p.Seen = simSeen
			})
			get := func(v record.Value) int { x, _ := v.Get(); return int(x) }
			s := rd.Client.Sent
			if get(s.Attempts) == 0 || get(s.Attempts) != get(s.Sampled) {
				t.Errorf("attempts %v, by the samples %v", s.Attempts, s.Sampled)
			}
			if seen := get(s.Seen); seen > get(s.Attempts) || seen < get(s.Attempts)-get(s.Broken) {
				t.Errorf("the server saw %d of %+v", seen, s)
			}
			if rd.Counts.Failures() == 0 {
				t.Error("no request failed")
			}
		})
	}
}

// A real canary beside a real round: it is heard, and it enters no sample.
func TestRoundHearsTheCanary(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- canary.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("canary: %v", err)
		}
	})
	f, rd := loadWith(t, serveSim(t, nil), turns(t, 200, 10*time.Millisecond, nil), time.Second, nil, func(p *Plan) {
		p.Canary = func(ctx context.Context) (func() record.CanaryReport, error) {
			return canary.Listen(ctx, "http://"+l.Addr().String(), p.Clock)
		}
	})
	c := rd.Client.Canary
	if p50, ok := c.P50.Finite(); !ok || c.Events < 5 || p50 < -0.01 {
		t.Errorf("canary %+v", c)
	}
	for s, err := range f.Samples(0) {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(s.ID, "r0") {
			t.Errorf("sample %q is none of the workload's", s.ID)
		}
	}
	if x, _ := rd.Client.Sent.Attempts.Get(); int(x) > 200 {
		t.Errorf("%v attempts, of 200 requests", x)
	}
}

// simSeen asks a simulated server.
func simSeen(ctx context.Context, url string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/sim/truth", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var counts simserver.Counts
	err = json.NewDecoder(resp.Body).Decode(&counts)
	return counts.Requests, err
}

func BenchmarkMeterReading(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		read()
	}
}
