package pace_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/internal/simserver"
	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/pace"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// serverEnv makes this test binary a simulated server: its value is the configuration.
const serverEnv = "PACE_TEST_SERVER"

func TestMain(m *testing.M) {
	if cfg := os.Getenv(serverEnv); cfg != "" {
		os.Exit(serveMain(cfg))
	}
	os.Exit(m.Run())
}

// serveMain serves until its standard input ends. Its log names the address.
func serveMain(text string) int {
	cfg, err := simserver.ParseConfig([]byte(text))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	if err := simserver.Serve(ctx, cfg, simserver.Options{Addr: "127.0.0.1:0", Getenv: os.Getenv, Log: os.Stdout}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// spawnServer runs a simulated server as a process of its own and returns its URL.
func spawnServer(b *testing.B, cfg simserver.Config) string {
	b.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), serverEnv+"="+string(text)), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	log := bufio.NewScanner(out)
	var drained sync.WaitGroup
	b.Cleanup(func() {
		_ = in.Close()
		drained.Wait()
		_ = cmd.Wait()
	})
	for log.Scan() {
		if addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(log.Text()); addr != "" {
			drained.Go(func() { _, _ = io.Copy(io.Discard, out) })
			return "http://" + addr
		}
	}
	b.Fatal("the server named no address")
	return ""
}

// BenchmarkLag is the rig for the lag of the pacer: lag is pick - sched, hand is wrote - pick, e2e is end - sched (all µs),
// gap_cv the coefficient of variation of the gaps between picks, percent; the plan's gaps are constant. Beside it a real
// client talks to a server in a process of its own. Most of a run's time is before and after the released stretch: ns/op
// means nothing here.
func BenchmarkLag(b *testing.B) {
	instant := simserver.Default()
	instant.PrefillPerToken, instant.DecodeBase, instant.DecodePerSeq, instant.BatchLimit, instant.Lanes = 0, 0, 0, 1<<20, 1<<20
	for _, rate := range []int{400, 1000, 5000} {
		b.Run(fmt.Sprintf("alone/%d", rate), func(b *testing.B) { benchLag(b, rate, nil) })
	}
	for _, load := range []struct {
		name   string
		rate   int
		server simserver.Config
		turn   workload.Turn
		stream bool
	}{
		{"streams", 400, simserver.Demo(), turn(300, 8), true},
		{"small", 1000, instant, turn(10, 4), false},
		{"small", 5000, instant, turn(10, 4), false},
	} {
		b.Run(fmt.Sprintf("%s/%d", load.name, load.rate), func(b *testing.B) {
			benchLag(b, load.rate, newTraffic(b, load.server, load.turn, load.stream))
		})
	}
}

func turn(in, out int) workload.Turn {
	return workload.Turn{
		ID: "t", Conv: "t", N: 1, InTokens: in, Prompt: &workload.Text{Inline: strings.Repeat("word ", in)},
		Out: workload.Output{Mode: workload.Force, Tokens: out},
	}
}

func benchLag(b *testing.B, rate int, load *traffic) {
	b.Helper()
	const span = 4 * time.Second
	clock := record.NewClock()
	if load != nil {
		clock = load.clock
	}
	picks := make([]record.Instant, rate*int(span/time.Second))
	due := make([]record.Instant, len(picks))
	for b.Loop() {
		start := clock.Now() + record.Instant(time.Second)
		for i := range due {
			due[i] = start + record.Instant(i)*record.Instant(time.Second)/record.Instant(rate)
		}
		release := func(i int, pick record.Instant) { picks[i] = pick }
		if load != nil {
			release = load.offer(b, due, picks)
		}
		if err := pace.Run(b.Context(), clock, due, release); err != nil {
			b.Fatal(err)
		}
		if load != nil {
			load.wait(b)
		}
	}
	lag := make([]float64, len(picks))
	for i := range picks {
		lag[i] = micro(picks[i] - due[i])
	}
	b.ReportMetric(0, "ns/op")
	reportSpread(b, "lag", lag)
	b.ReportMetric(gapVariation(picks), "gap_cv_%")
}

func micro(d record.Instant) float64 { return float64(d) / 1e3 }

func reportSpread(b *testing.B, name string, v []float64) {
	b.Helper()
	slices.Sort(v)
	b.ReportMetric(record.Percentile(v, 0.5), name+"_p50_us")
	b.ReportMetric(record.Percentile(v, 0.99), name+"_p99_us")
	b.ReportMetric(v[len(v)-1], name+"_max_us")
}

// gapVariation is the coefficient of variation of the gaps, percent.
func gapVariation(at []record.Instant) float64 {
	var sum, squares float64
	for i := 1; i < len(at); i++ {
		gap := float64(at[i] - at[i-1])
		sum, squares = sum+gap, squares+gap*gap
	}
	n := float64(len(at) - 1)
	mean := sum / n
	return 100 * math.Sqrt(max(squares/n-mean*mean, 0)) / mean
}

// traffic sends the same request again and again, as a round does: made ahead, one goroutine each.
type traffic struct {
	clock   record.Clock
	client  *client.Client
	w       *workload.Workload
	request workload.Request

	flying  sync.WaitGroup
	mu      sync.Mutex
	samples []record.Sample
}

func newTraffic(b *testing.B, server simserver.Config, turn workload.Turn, stream bool) *traffic {
	b.Helper()
	w, err := workload.New(workload.Manifest{
		Name: "bench", Version: 1, Seed: "1", Source: workload.Source{Importer: "synthetic"},
		Output: workload.OutputPolicy{Mode: workload.Force}, Arrivals: workload.Arrivals{Kind: "generated", SpanNS: int64(time.Second)},
	}, []workload.Turn{turn}, nil)
	if err != nil {
		b.Fatal(err)
	}
	p, err := w.Plan(time.Second, time.Second)
	if err != nil {
		b.Fatal(err)
	}
	t := &traffic{clock: record.NewClock(), w: w, request: p.Measured[0]}
	t.client, err = client.New(client.Options{
		URL: spawnServer(b, server), Dialect: "openai-chat", Model: "sim", NoStream: !stream, Limits: record.DefaultLimits(), Clock: t.clock,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(t.client.Close)
	return t
}

// offer prepares one request for each due time, half a second ahead, and returns what releases them.
func (t *traffic) offer(b *testing.B, due, picks []record.Instant) func(int, record.Instant) {
	b.Helper()
	t.samples = t.samples[:0]
	gates, early := make([]chan record.Instant, len(due)), make([]client.Handover, len(due))
	for i := range gates {
		gates[i] = make(chan record.Instant, 1)
	}
	t.flying.Go(func() {
		for i, at := range due {
			time.Sleep(t.clock.Until(at) - 500*time.Millisecond)
			r, err := t.client.Encode(i, t.w, t.request)
			if err != nil {
				b.Error(err)
				return
			}
			r.Sched, r.Early = at, &early[i]
			t.flying.Go(func() {
				s, _ := t.client.Do(b.Context(), r, gates[i])
				t.mu.Lock()
				defer t.mu.Unlock()
				t.samples = append(t.samples, s)
			})
		}
	})
	return func(i int, pick record.Instant) {
		picks[i] = pick
		early[i].Write()
		gates[i] <- pick
	}
}

// wait waits for the last answer and reports what the client saw.
func (t *traffic) wait(b *testing.B) {
	b.Helper()
	t.flying.Wait()
	hand, e2e := make([]float64, 0, len(t.samples)), make([]float64, 0, len(t.samples))
	for _, s := range t.samples {
		if s.Class != record.OK {
			b.Fatalf("%s: %s", s.Class, s.Detail)
		}
		hand, e2e = append(hand, micro(s.Wrote-s.Pick)), append(e2e, micro(s.End-s.Sched))
	}
	reportSpread(b, "hand", hand)
	reportSpread(b, "e2e", e2e)
}
