package record

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// limited sums up 70 answers of 1 s and 30 requests that ran into a limit, changed by change.
func limited(limits Limits, change func(i int, s *Sample)) Summary {
	var samples []Sample
	for i := range 100 {
		s := due(i, time.Duration(i)*10*ms)
		s.Pick = s.Sched + 1000
		s.Class, s.End = OK, s.Sched+Instant(time.Second)
		if i%10 < 3 {
			s.Class, s.Detail, s.End = Timeout, "total", s.Sched+Instant(5*time.Second)
			change(i, &s)
		}
		samples = append(samples, s)
	}
	return Summarise(samples, nil, Interval{M0: 1, M1: second(60), Limits: limits})
}

// K-03, the figures as printed: p95 and p99 lie among timeouts at 5 s, so they are at least that. A failure that is no
// timeout, or one of which nothing is known, takes the promise away, never the failure.
func TestTimeoutsPromiseTheirLimit(t *testing.T) {
	limits := Limits{Total: 5 * time.Second, FirstEvent: 2 * time.Second, Idle: 3 * time.Second}
	for _, tt := range []struct {
		name   string
		limits Limits
		change func(i int, s *Sample)
		e2e    float64
		ttft   bool
	}{
		{"total", limits, func(int, *Sample) {}, 5000, true},
		{"text after the limit", limits, func(_ int, s *Sample) { s.Detail = "total: 5s passed" }, 5000, true},
		{"the smallest limit holds for all", limits, func(i int, s *Sample) {
			if i == 2 {
				s.Detail = "first_event"
			}
		}, 2000, true},
		{"after the first token", limits, func(_ int, s *Sample) { s.Detail, s.First = "idle", s.Sched+1 }, 3000, false},
		{"one was refused", limits, func(i int, s *Sample) {
			if i == 2 {
				s.Class, s.Detail = HTTP503, "503"
			}
		}, 0, false},
		{"one was never sent", limits, func(i int, s *Sample) {
			if i == 2 {
				s.Detail, s.Pick = "no_progress: not sent, the server had stalled", 0
			}
		}, 0, false},
		{"no limit declared", Limits{}, func(int, *Sample) {}, 0, false},
		{"unknown limit", limits, func(_ int, s *Sample) { s.Detail = "patience" }, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sum := limited(tt.limits, tt.change)
			wantMetric(t, sum, "e2e_p50", 1000.0)
			for _, key := range []string{"e2e_p95", "e2e_p99"} {
				m := sum.Metrics[key]
				if floor, ok := m.AtLeast(); !m.IsFailed() || floor != tt.e2e || ok != (tt.e2e > 0) {
					t.Errorf("%s is %v, at least %v (%v); want %v", key, m, floor, ok, tt.e2e)
				}
			}
			if _, ok := sum.Metrics["e2e_p95_send"].AtLeast(); ok {
				t.Error("limits count from the release, not from the sent request: no promise there")
			}
			wantMetric(t, sum, "error_rate", 0.3)
		})
	}
	// The first token of streamed answers: unknown for those that ended before it, so at least the limit.
	sum := sumOf(100, func(i int, s *Sample, _ *Stream) {
		s.Pick = s.Sched
		if i%10 < 3 {
			s.Class, s.Detail, s.First, s.FirstOut = Timeout, "first_event", 0, 0
		}
	}, 10*ms)
	if _, ok := sum.Metrics["ttft_p90"].AtLeast(); ok {
		t.Error("without declared limits there is no promise")
	}
}

func TestFailedBeyondOnTheWire(t *testing.T) {
	for v, want := range map[Value]string{
		FailedBeyond(5000):        `{"value":null,"reason":"failed","infinite":true,"at_least":5000}`,
		FailedBeyond(0):           `{"value":null,"reason":"failed","infinite":true}`,
		FailedBeyond(math.Inf(1)): `{"value":null,"reason":"failed","infinite":true}`,
		FailedBeyond(math.NaN()):  `{"value":null,"reason":"failed","infinite":true}`,
	} {
		text, err := json.Marshal(v)
		must(t, err)
		var back Value
		must(t, json.Unmarshal(text, &back))
		if string(text) != want || !back.Equal(v) {
			t.Errorf("%s read as %v, want %s", text, back, want)
		}
	}
	if floor, ok := Of(7).AtLeast(); ok || floor != 0 {
		t.Errorf("a number promises %v", floor)
	}
}

// A stall is a gap over ten times the median gap of the same answer.
func TestStalls(t *testing.T) {
	for _, tt := range []struct {
		name    string
		gaps    []time.Duration
		longest any
		stalls  int
	}{
		{"even", slices.Repeat([]time.Duration{10 * ms}, 5), 10.0, 0},
		{"one of a second", []time.Duration{10 * ms, 10 * ms, time.Second, 10 * ms}, 1000.0, 1},
		{"exactly ten times is none", []time.Duration{10 * ms, 100 * ms, 10 * ms}, 100.0, 0},
		{"a microsecond more is one", []time.Duration{10 * ms, 100*ms + time.Microsecond, 10 * ms}, 100.001, 1},
		// The median of two gaps by nearest rank is the smaller.
		{"two gaps", []time.Duration{ms, 20 * ms}, 20.0, 1},
		{"one gap", []time.Duration{20 * ms}, 20.0, 0},
		{"one read", nil, "each answer came in one read", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sum := sumOf(20, nil, tt.gaps...)
			wantMetric(t, sum, "stall_p50", tt.longest)
			a := sum.Answers
			if want := min(1, tt.stalls) * 20; a.Stalls != 20*tt.stalls || a.Stalled != want {
				t.Errorf("%d stalls in %d answers, want %d in %d", a.Stalls, a.Stalled, 20*tt.stalls, want)
			}
			if v, ok := a.LongestStall.Get(); ok && v != tt.longest {
				t.Errorf("longest stall %v, want %v", v, tt.longest)
			}
		})
	}
	// The summary of a failed answer's stall is +Inf, as in every latency.
	sum := sumOf(20, func(i int, s *Sample, _ *Stream) {
		if i < 12 {
			s.Class = StreamError
		}
	}, 10*ms, 10*ms)
	if !sum.Metrics["stall_p50"].IsFailed() || sum.Answers.Streamed != 8 {
		t.Errorf("stall p50 %v, %d answers streamed", sum.Metrics["stall_p50"], sum.Answers.Streamed)
	}
}

// E2E ends at the marker; what it took after the last payload is kept apart.
func TestEndAfterTheLastToken(t *testing.T) {
	sum := sumOf(20, func(_ int, s *Sample, _ *Stream) { s.End = s.Last + Instant(7*ms) }, 10*ms)
	wantMetric(t, sum, "e2e_p50", 67.0)
	wantMetric(t, sum, "e2e_last_p50", 60.0)
	wantMetric(t, sum, "tail_p50", 7.0)
	if _, there := sum.Metrics["tail_p50_ok"]; there {
		t.Error("tail is information: it has no variant over successes")
	}
}

// The latency from the sent request is kept beside the one from the schedule.
func TestSendVariants(t *testing.T) {
	sum := sumOf(20, func(_ int, s *Sample, _ *Stream) { s.Wrote = s.Sched + Instant(20*ms) }, 10*ms)
	wantMetric(t, sum, "ttft_p50", 50.0)
	wantMetric(t, sum, "ttft_p50_send", 30.0)
	wantMetric(t, sum, "e2e_p50_send", 40.001)
}

func TestAnswerReport(t *testing.T) {
	sum := sumOf(40, func(i int, s *Sample, st *Stream) {
		switch {
		case i < 3: // the cap was hit while reasoning
			s.FirstOut = 0
		case i < 5: // usage says 0, text came
			s.NOut, s.Flags = new(0), []string{"usage_inconsistent"}
		case i < 9: // one token
			s.NOut, st.T, s.Last = new(1), st.T[:1], s.First
		case i < 10:
			s.Class = Timeout
		}
	}, 10*ms, 10*ms)
	want := AnswerReport{Streamed: 39, ReasoningOnly: 3, WithoutTPOT: 4, UsageInconsistent: 2, LongestStall: Of(10)}
	if diff := cmp.Diff(want, sum.Answers); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// 33 with a TPOT and one failure; 4 have none by nature and are left out; 2 of 35 cannot be told, which is too many.
	wantMetric(t, sum, "tpot_p50", "token counts unknown in 2 of 39 answers")
	est := sumOf(20, func(_ int, s *Sample, _ *Stream) { s.NOut, s.TokensFrom = nil, Estimated }, 10*ms)
	if est.Answers.Estimated != 20 {
		t.Errorf("%d estimated, want 20", est.Answers.Estimated)
	}
}

// A count that cannot be true takes no part in any token figure of its request.
func TestInconsistentUsageIsNoCount(t *testing.T) {
	sum := sumOf(20, func(_ int, s *Sample, st *Stream) {
		s.NOut, st.N, s.Flags = new(3), []int{1, 1, 1}, []string{"usage_inconsistent"}
	}, 10*ms, 10*ms)
	for key, why := range map[string]string{
		"tpot_p50": "token counts unknown", "itl_p50": "tokens per event unknown", "output_tps": "token counts unknown",
		"tokens_per_event": "token counts unknown",
	} {
		wantMetric(t, sum, key, why)
	}
	wantMetric(t, sum, "icl_p50", 10.0)
}

// Ten requests a second for four seconds, each in flight for half a second from 100 ms after it was due.
func TestPressure(t *testing.T) {
	var samples []Sample
	for i := range 40 {
		s := due(i, time.Duration(i)*100*ms)
		s.Class, s.Wrote = OK, s.Sched+Instant(100*ms)
		s.End = s.Wrote + Instant(500*ms)
		if i%4 == 0 {
			s.Class = HTTP503
		}
		samples = append(samples, s)
	}
	in := Interval{M0: 1, M1: 1 + second(4)}
	sum := Summarise(samples, nil, in)
	for key, want := range map[string]float64{
		// The last request is sent at 4 s and the last five end after it: outside.
		"offered_rps": 10, "sent_rps": 9.75, "achieved_rps": 8.5,
		// 39 flights of 0.5 s, less what the last five have beyond 4 s: 0.1 + 0.2 + 0.3 + 0.4 s.
		"in_flight_mean": (39*0.5 - 1.0) / 4, "in_flight_max": 5,
	} {
		wantMetric(t, sum, key, want)
	}
	windows, mean, most := Windows(samples, nil, in.M0, in.M1), 0.0, 0
	for _, w := range windows {
		mean += w.InFlightMean / 4
		most = max(most, w.InFlightMax)
	}
	wantMetric(t, sum, "in_flight_mean", mean)
	wantMetric(t, sum, "in_flight_max", float64(most))
	for _, key := range []string{"offered_rps", "in_flight_max"} {
		wantMetric(t, Summarise(nil, nil, in), key, "no request was due in the interval")
	}
}

// Property: whatever the requests, token gaps weigh what tokens there are after each answer's first read, a failure what it
// was planned to say, and the classes sum to what was scheduled.
func TestWeightsAddUp(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(21, seed))
		var samples []Sample
		var streams []Stream
		want := 0
		for i := range 20 + r.IntN(50) {
			s, st := answer(i, 50*ms, slices.Repeat([]time.Duration{5 * ms}, 1+r.IntN(20))...)
			st.N, st.R = make([]int, len(st.T)), make([]int, len(st.T))
			tokens, first, reads := 0, 0, 0
			for k := range st.T {
				st.N[k] = r.IntN(4)
				if k > 0 {
					st.R[k] = r.IntN(2)
				}
				if st.R[k] != 0 {
					reads++
				}
				tokens += st.N[k]
				if reads == 0 {
					first += st.N[k]
				}
			}
			s.NOut, s.OutPlanned = new(tokens), r.IntN(40)
			s.Class = Outcomes()[r.IntN(len(Outcomes()))]
			if r.IntN(3) > 0 {
				s.Class = OK
			}
			if s.Class == OK {
				want += tokens - first
			} else {
				want += max(1, s.OutPlanned-1)
			}
			samples, streams = append(samples, s), append(streams, st)
		}
		sum := Summarise(samples, streams, Interval{M0: 1, M1: second(10)})
		if m := sum.Metrics["itl_p50"]; m.N != want {
			t.Fatalf("seed %d: %d token gaps, want %d", seed, m.N, want)
		}
		classes := 0
		for _, n := range sum.Counts.Classes {
			classes += n
		}
		if classes != len(samples) || sum.Counts.Scheduled != classes {
			t.Fatalf("seed %d: %d classes of %d", seed, classes, len(samples))
		}
	}
}
