package record

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// K-03: a client limit of 5 s ends 30 of 100 requests; the survivors alone would show a p99 of 1 s. Reports of the same:
// vllm-project/vllm-omni#5923, elastic/rally#1308.
func TestTimeoutsAreNotSurvived(t *testing.T) {
	var samples []Sample
	for i := range 100 {
		s := due(i, time.Duration(i)*10*time.Millisecond)
		s.Class, s.End = OK, s.Sched+Instant(time.Second)
		if i%10 < 3 {
			s.Class, s.Detail, s.End = Timeout, map[bool]string{true: "total", false: "idle"}[i == 0], s.Sched+Instant(5*time.Second)
		}
		samples = append(samples, s)
	}
	slices.Reverse(samples) // the order in which requests end is not that of the schedule
	sum := Summarise(samples, nil, Interval{M0: 1, M1: second(60), SLO: map[string]float64{"e2e_p95": 4000}})
	if got, ok := sum.Metrics["e2e_p50"].Finite(); !ok || got != 1000 {
		t.Errorf("p50 %v, want 1000 ms", sum.Metrics["e2e_p50"])
	}
	for _, key := range []string{"e2e_p95", "e2e_p99"} {
		if !sum.Metrics[key].IsFailed() {
			t.Errorf("%s is %v, want failed", key, sum.Metrics[key])
		}
	}
	if got, _ := sum.Metrics["error_rate"].Get(); got != 0.3 {
		t.Errorf("error rate %v, want 0.3", got)
	}
	if got := sum.Details; len(got) != 1 || got[Timeout] != "total" {
		t.Errorf("examples %v, want the first timeout's detail", got)
	}
	if got := sum.Counts.Classes[Timeout]; got != 30 || sum.Beyond["e2e_p95"] != 30 {
		t.Errorf("%d timeouts, %d beyond the SLO, want 30 and 30", got, sum.Beyond["e2e_p95"])
	}
}

// due is a measured request scheduled at an offset from the first nanosecond.
func due(seq int, at time.Duration) Sample {
	return Sample{V: SampleVersion, Seq: seq, ID: "r", Phase: PhaseMeasure, Sched: 1 + Instant(at)}
}

func second(n int) Instant { return Instant(n) * Instant(time.Second) }

// Property: every request has one class, and the classes sum to what was scheduled, inside the interval only.
func TestCountsAddUp(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(5, seed))
		var samples []Sample
		want := 0
		in := Interval{M0: second(1), M1: second(3)}
		for i := range 200 {
			s := due(i, time.Duration(r.IntN(4000))*time.Millisecond)
			s.Phase = []Phase{PhaseWarmup, PhaseMeasure, PhaseMeasure, PhaseTail}[r.IntN(4)]
			s.Class = Outcomes()[r.IntN(len(Outcomes()))]
			if s.Phase == PhaseMeasure && s.Sched >= in.M0 && s.Sched < in.M1 {
				want++
			}
			samples = append(samples, s)
		}
		sum := Summarise(samples, nil, in)
		got := 0
		for _, n := range sum.Counts.Classes {
			got += n
		}
		if got != want || sum.Counts.Scheduled != want || sum.Counts.Attempted()+sum.Counts.Classes[ConversationAborted] != want {
			t.Fatalf("seed %d: %d classes, %d scheduled, want %d", seed, got, sum.Counts.Scheduled, want)
		}
		if rate, ok := sum.Metrics["error_rate"].Get(); ok && rate != float64(sum.Counts.Failures())/float64(sum.Counts.Attempted()) {
			t.Fatalf("error rate %v of %+v", rate, sum.Counts)
		}
	}
}

// The bounds of the interval: the first instant is in it, the last is not.
func TestIntervalIsHalfOpen(t *testing.T) {
	in := Interval{M0: 100, M1: 200}
	var samples []Sample
	for i, at := range []Instant{99, 100, 199, 200} {
		samples = append(samples, Sample{Seq: i, Phase: PhaseMeasure, Class: Timeout, Sched: at})
	}
	if n := Summarise(samples, nil, in).Counts.Scheduled; n != 2 {
		t.Errorf("%d requests in the interval, want 2", n)
	}
}

func TestNothingMeasuredIsNotZero(t *testing.T) {
	sum := Summarise(nil, nil, Interval{M0: 1, M1: second(10), SLO: map[string]float64{"ttft_p99": 800}})
	for key, m := range sum.Metrics {
		if v, ok := m.Get(); ok {
			t.Errorf("%s is %v without a request", key, v)
		}
	}
	if _, ok := sum.OutTokens.Get(); ok {
		t.Errorf("out tokens %v", sum.OutTokens)
	}
}

func TestSmallRoundsPrintNoTail(t *testing.T) {
	sum := sumOf(40, nil, 10*ms)
	wantMetric(t, sum, "ttft_p50", 50.0)
	wantMetric(t, sum, "ttft_p90", "n=40")
	wantMetric(t, sum, "ttft_p99", "n=40")
	wantMetric(t, sumOf(10, nil, 10*ms), "ttft_p50", "n=10")
	wantMetric(t, sumOf(11, nil, 10*ms), "ttft_p50", 50.0)
}

// Throughput counts tokens when they came, not when their request was due, and failed requests only in the second figure.
func TestThroughputByStamp(t *testing.T) {
	in := Interval{M0: 1, M1: 1 + second(1)}
	inside, a := answer(0, 900*ms, 50*ms, 40*ms, 20*ms, 20*ms)
	failed, b := answer(1, 100*ms, 10*ms)
	failed.Class = StreamError
	sum := Summarise([]Sample{inside, failed}, []Stream{a, b}, in)
	wantMetric(t, sum, "output_tps", 3.0)
	wantMetric(t, sum, "output_tps_all", 5.0)
	wantMetric(t, sum, "input_tps", 10.0)
	// It ended after the interval.
	if v, ok := sum.Metrics["request_tps"].Get(); !ok || v != 0 {
		t.Errorf("request_tps %v, want a true 0", sum.Metrics["request_tps"])
	}
	if v, _ := sum.OutTokens.Get(); v != 5 {
		t.Errorf("out tokens %v, want all 5 of the success", v)
	}
}

func TestUnknownTokensMakeThroughputUnknown(t *testing.T) {
	sum := sumOf(20, func(_ int, s *Sample, _ *Stream) {
		s.NOut, s.NIn, s.TokensFrom = nil, nil, ""
		s.Flags = []string{"usage_inconsistent"}
	}, 10*ms)
	for key, why := range map[string]string{"output_tps": "token counts unknown", "input_tps": "prompt token counts unknown", "tpot_p50": "token counts unknown"} {
		wantMetric(t, sum, key, why)
	}
	if !slices.Contains(sum.Flags, "usage_inconsistent") || sum.Tokens != "" {
		t.Errorf("flags %v, tokens %q", sum.Flags, sum.Tokens)
	}
}

func TestGoodput(t *testing.T) {
	// Every fourth request is slow to its first token, every tenth fails.
	change := func(i int, s *Sample, _ *Stream) {
		if i%4 == 0 {
			s.First = s.Sched + Instant(500*ms)
			s.Last, s.End = s.First+Instant(10*ms), s.First+Instant(11*ms)
		}
		if i%10 == 1 {
			s.Class = Timeout
		}
	}
	var samples []Sample
	var streams []Stream
	for i := range 40 {
		s, st := answer(i, 50*ms, 10*ms)
		change(i, &s, &st)
		samples, streams = append(samples, s), append(streams, st)
	}
	for _, tt := range []struct {
		slo  map[string]float64
		want any
	}{
		{map[string]float64{"ttft_p99": 400}, 0.65},
		{map[string]float64{"ttft_p50": 20, "ttft_p99": 400}, 0.65},
		{map[string]float64{"e2e_p95": 1000}, 0.9},
		{map[string]float64{"ttft_p99": 400, "tpot_p99": 9}, 0.0},
		{map[string]float64{"error_rate": 0.01, "itl_p99": 5}, "no per-request limit is declared"},
	} {
		// Again and again: the order in which a map gives its limits must not matter.
		for range 20 {
			wantMetric(t, Summarise(samples, streams, Interval{M0: 1, M1: second(10), SLO: tt.slo}), "goodput", tt.want)
		}
	}
	sum := Summarise(samples, streams, Interval{M0: 1, M1: second(10), SLO: map[string]float64{"ttft_p99": 400, "ttft_p50_ok": 400, "itl_p95": 9, "error_rate": 0.1, "ttfo_p50": 1}})
	want := map[string]int{"ttft_p99": 14, "ttft_p50_ok": 10, "itl_p95": 40, "ttfo_p50": 40}
	if diff := cmp.Diff(want, sum.Beyond); diff != "" {
		t.Errorf("beyond (-want +got):\n%s", diff)
	}
}

// S-10: a proxy that buffers makes every answer look instant; a fifth of such answers marks the round.
func TestBunchedStreams(t *testing.T) {
	gaps := slices.Repeat([]time.Duration{0}, 15)
	for bunched, want := range map[int]bool{0: false, 3: false, 4: true, 20: true} {
		sum := sumOf(20, func(i int, _ *Sample, st *Stream) {
			if i < bunched {
				st.R = make([]int, len(st.T))
			}
		}, gaps...)
		if got := slices.Contains(sum.Flags, "bunched_stream"); got != want {
			t.Errorf("%d of 20 bunched: flag %v", bunched, got)
		}
	}
	// Reads of four events each are bunched too; short answers never are.
	four := func(_ int, _ *Sample, st *Stream) {
		st.R = make([]int, len(st.T))
		for i := range st.R {
			if i%4 == 0 {
				st.R[i] = 1
			}
		}
	}
	if sum := sumOf(20, four, gaps...); !slices.Contains(sum.Flags, "bunched_stream") {
		t.Errorf("flags %v", sum.Flags)
	} else {
		wantMetric(t, sum, "events_per_read", 4.0)
	}
	if sum := sumOf(20, four, gaps[:5]...); len(sum.Flags) > 0 {
		t.Errorf("answers of six tokens: flags %v", sum.Flags)
	}
}

func TestFailedChecksAreNamed(t *testing.T) {
	sum := sumOf(300, func(i int, s *Sample, _ *Stream) {
		s.ID = string(rune('a' + i%26))
		switch i % 26 {
		case 3, 1:
			s.Class = Assertion
		case 2:
			s.Class = EmptyOutput
		case 4:
			s.Class = Timeout
		}
	}, ms)
	if want := []string{"b", "c", "d"}; !slices.Equal(sum.FailedIDs, want) {
		t.Errorf("ids %v, want %v", sum.FailedIDs, want)
	}
}

func TestCachedShare(t *testing.T) {
	sum := sumOf(4, func(i int, s *Sample, _ *Stream) {
		s.NIn = new(100)
		if i < 2 {
			s.NCached = new(50)
		}
	}, ms)
	if v, _ := sum.CachedShare.Get(); v != 0.5 {
		t.Errorf("share %v, want 0.5 over the answers that told", v)
	}
	if v := sumOf(4, nil, ms).CachedShare; v.Reason() != "the server reports no cached tokens" {
		t.Errorf("share %v", v)
	}
}

// Summarise is pure: same input, same summary, input untouched.
func TestSummariseIsPure(t *testing.T) {
	f := fabric{requests: 300, rate: 50, m0: 1, ttft: 100, gap: 10, tokens: 10, failEvery: 40}
	samples, streams := f.make()
	again, againStreams := f.make()
	in := f.interval(map[string]float64{"ttft_p99": 200, "tpot_p99": 12})
	first := Summarise(samples, streams, in)
	if diff := cmp.Diff(first, Summarise(samples, streams, in)); diff != "" {
		t.Errorf("second call differs:\n%s", diff)
	}
	if diff := cmp.Diff(again, samples); diff != "" {
		t.Errorf("samples were changed:\n%s", diff)
	}
	if diff := cmp.Diff(againStreams, streams); diff != "" {
		t.Errorf("streams were changed:\n%s", diff)
	}
	slices.Reverse(samples)
	if diff := cmp.Diff(first, Summarise(samples, streams, in)); diff != "" {
		t.Errorf("the order of ending matters:\n%s", diff)
	}
}

func BenchmarkSummarise(b *testing.B) {
	f := fabric{requests: 2000, rate: 50, m0: 1, ttft: 100, gap: 10, tokens: 100}
	samples, streams := f.make()
	for b.Loop() {
		Summarise(samples, streams, f.interval(nil))
	}
}
