package record

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// answer is a successful streamed request: first token after ttft, then one event per gap, each in a read of its own.
func answer(seq int, ttft time.Duration, gaps ...time.Duration) (Sample, Stream) {
	s := due(seq, time.Duration(seq)*time.Millisecond)
	s.Class, s.TokensFrom = OK, FromUsage
	s.Wrote = s.Sched + 100_000
	s.First = s.Sched + Instant(ttft)
	s.FirstOut, s.Last = s.First, s.First
	st := Stream{Seq: seq, T: []int64{0}}
	for _, g := range gaps {
		st.T = append(st.T, int64(g))
		s.Last += Instant(g)
	}
	s.End = s.Last + 1000
	s.NIn, s.NOut, s.OutPlanned = new(10), new(len(st.T)), len(st.T)
	return s, st
}

// round repeats one answer n times and sums it up, after change was applied to each.
func sumOf(n int, change func(i int, s *Sample, st *Stream), gaps ...time.Duration) Summary {
	var samples []Sample
	var streams []Stream
	for i := range n {
		s, st := answer(i, 50*time.Millisecond, gaps...)
		if change != nil {
			change(i, &s, &st)
		}
		samples, streams = append(samples, s), append(streams, st)
	}
	return Summarise(samples, streams, Interval{M0: 1, M1: second(10)})
}

const ms = time.Millisecond

func TestTokenLatencies(t *testing.T) {
	for _, tt := range []struct {
		name       string
		change     func(i int, s *Sample, st *Stream)
		gaps       []time.Duration
		tpot, itl  any
		icl        any
		gapsPerOne int
	}{
		{"a token an event", nil, []time.Duration{10 * ms, 10 * ms, 10 * ms}, 10.0, 10.0, 10.0, 3},
		{
			"four tokens an event, told", func(_ int, s *Sample, st *Stream) { s.NOut, st.N = new(12), []int{4, 4, 4} },
			[]time.Duration{40 * ms, 40 * ms},
			10.0, 10.0, 40.0, 8,
		},
		{
			"four tokens an event, not told", func(_ int, s *Sample, _ *Stream) { s.NOut = new(12) },
			[]time.Duration{40 * ms, 40 * ms},
			80.0 / 11, "tokens per event unknown", 40.0, 0,
		},
		{
			// Two events in each read: the gap is shared by both tokens.
			"two events a read", func(_ int, _ *Sample, st *Stream) { st.R = []int{1, 0, 1, 0} },
			[]time.Duration{0, 20 * ms, 0},
			20.0 / 3, 10.0, 20.0, 2,
		},
		{
			// An event of zero tokens, such as an empty piece of a character, lengthens the next gap.
			"an event without a token", func(_ int, s *Sample, st *Stream) { s.NOut, st.N = new(2), []int{1, 0, 1} },
			[]time.Duration{10 * ms, 10 * ms},
			20.0, 20.0, 10.0, 1,
		},
		{"one token", nil, nil, "no answer had tokens after its first event", "no answer had tokens after its first read", "each answer came in one read", 0},
		{
			"all in one event", func(_ int, s *Sample, _ *Stream) { s.NOut = new(20) }, nil,
			"no answer had tokens after its first event", "tokens per event unknown", "each answer came in one read", 0,
		},
		{
			"no usage", func(_ int, s *Sample, _ *Stream) { s.NOut, s.TokensFrom = nil, Estimated },
			[]time.Duration{10 * ms},
			"token counts are estimated", "token counts are estimated", 10.0, 0,
		},
		{
			"two sources", func(i int, s *Sample, _ *Stream) {
				if i == 7 {
					s.TokensFrom = FromLogprobs
				}
			},
			[]time.Duration{10 * ms},
			"token source differs between answers", "token source differs between answers", 10.0, 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sum := sumOf(20, tt.change, tt.gaps...)
			for key, want := range map[string]any{"tpot_p50": tt.tpot, "itl_p50": tt.itl, "icl_p50": tt.icl} {
				wantMetric(t, sum, key, want)
			}
			if n := sum.Metrics["itl_p50"].N; n != 20*tt.gapsPerOne {
				t.Errorf("itl from %d gaps, want %d", n, 20*tt.gapsPerOne)
			}
		})
	}
}

// wantMetric compares a metric with a number in ms, or with the reason of an n/a.
func wantMetric(t *testing.T, sum Summary, key string, want any) {
	t.Helper()
	m, ok := sum.Metrics[key]
	if !ok {
		t.Fatalf("no metric %s", key)
	}
	switch want := want.(type) {
	case float64:
		if got, ok := m.Finite(); !ok || math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s is %v (%s), want %v", key, got, m.Reason(), want)
		}
	case string:
		if m.Reason() != want {
			t.Errorf("%s is %v, want n/a: %q", key, m, want)
		}
	}
}

// One answer in thirty without a count leaves the rest standing for it; one in ten does not.
func TestAFewUnknownsAreLeftOut(t *testing.T) {
	for every, want := range map[int]any{30: 10.0, 10: "tokens per event unknown in 6 of 60 answers"} {
		sum := sumOf(60, func(i int, s *Sample, _ *Stream) {
			if i%every == 0 {
				s.NOut = new(9)
			}
		}, 10*ms, 10*ms)
		wantMetric(t, sum, "itl_p50", want)
	}
}

func TestFailuresWeighWhatTheyWouldHaveSaid(t *testing.T) {
	sum := sumOf(20, func(i int, s *Sample, _ *Stream) {
		if i < 2 {
			s.Class, s.OutPlanned = StreamError, 41
		}
	}, 10*ms, 10*ms, 10*ms)
	// 18 answers with 3 gaps each, and 2 failures with 40 planned gaps each: 80 of 134 at +Inf.
	if m := sum.Metrics["itl_p50"]; m.N != 134 || !m.IsFailed() {
		t.Errorf("itl_p50 is %v of %d, want failed of 134", m.Value, m.N)
	}
	// A chunk's size is unknown, so a failure weighs as much as the mean answer.
	if m := sum.Metrics["icl_p50"]; m.N != 18*3+2*3 || m.IsFailed() {
		t.Errorf("icl_p50 is %v of %d", m.Value, m.N)
	}
	if m := sum.Metrics["tpot_p90"]; m.N != 20 || !sum.Metrics["tpot_p95"].IsFailed() {
		t.Errorf("tpot of %d, p95 %v", m.N, sum.Metrics["tpot_p95"])
	}
	wantMetric(t, sum, "itl_p50_ok", 10.0)
}

// S-11 of the catalogue of stream faults: a missing latency never enters as 0, and E2E never stands in for TTFT.
func TestServicesThatDoNotStream(t *testing.T) {
	sum := sumOf(20, func(_ int, s *Sample, st *Stream) {
		s.First, s.FirstOut, s.Last, *st = 0, 0, 0, Stream{Seq: st.Seq}
	}, 10*ms)
	for _, latency := range []string{"ttft", "ttfo", "tpot", "itl", "icl"} {
		for _, suffix := range []string{"", "_ok"} {
			wantMetric(t, sum, latency+"_p50"+suffix, "the service does not stream")
		}
	}
	wantMetric(t, sum, "ttft_p50_send", "the service does not stream")
	wantMetric(t, sum, "e2e_p50", 60.001)
	if m := sum.Metrics["output_tps"]; m.Reason() != "" {
		t.Errorf("output_tps %v; an answer in one piece counts at its end", m)
	}
}

func TestReasoningOnlyHasNoOutputLatency(t *testing.T) {
	sum := sumOf(24, func(i int, s *Sample, _ *Stream) {
		if i%2 == 0 {
			s.FirstOut = 0
		}
	}, 10*ms)
	if m := sum.Metrics["ttfo_p50"]; m.N != 12 {
		t.Errorf("ttfo from %d requests, want the 12 with output: %v", m.N, m)
	}
	if m := sum.Metrics["ttft_p50"]; m.N != 24 {
		t.Errorf("ttft from %d requests, want 24", m.N)
	}
}

// Property: percentiles rise with q, over successes never exceed those with failures, and n/a is never 0.
func TestPercentilesAreMonotone(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(3, seed))
		f := fabric{requests: 20 + r.IntN(900), rate: 50, m0: 1, slot: seed, ttft: 100, gap: 10, tokens: 3 + r.IntN(20), failEvery: r.IntN(20)}
		samples, streams := f.make()
		for i := range samples {
			if r.IntN(8) == 0 {
				samples[i].Class = Outcomes()[r.IntN(len(Outcomes()))]
			}
		}
		sum := Summarise(samples, streams, f.interval(nil))
		if got := slices.Sorted(keysOf(sum.Metrics)); !slices.Equal(got, Keys()) {
			t.Fatalf("metrics %v, want exactly %v", got, Keys())
		}
		for _, latency := range []string{"ttft", "ttfo", "e2e", "tpot", "itl", "icl"} {
			for _, suffix := range []string{"", "_ok"} {
				before := 0.0
				for _, q := range quantiles() {
					m := sum.Metrics[latency+"_"+q.name+suffix]
					v, ok := m.Get()
					if !ok {
						if v != 0 || m.Reason() == "" || strings.Contains(m.Reason(), "n/a") {
							t.Errorf("%s_%s%s: n/a with %v, %q", latency, q.name, suffix, v, m.Reason())
						}
						continue
					}
					if v <= 0 || v < before || m.N < 11 && !m.IsFailed() {
						t.Errorf("seed %d: %s_%s%s is %v after %v, n=%d", seed, latency, q.name, suffix, v, before, m.N)
					}
					before = v
				}
			}
			with, okWith := sum.Metrics[latency+"_p50"].Get()
			without, okWithout := sum.Metrics[latency+"_p50_ok"].Get()
			if okWith && okWithout && without > with {
				t.Errorf("seed %d: %s over successes %v, over all %v", seed, latency, without, with)
			}
		}
	}
}

func keysOf(m map[string]Metric) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
