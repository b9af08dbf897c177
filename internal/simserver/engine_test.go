package simserver

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = int64(time.Millisecond)

// tape records the tokens of one sequence in milliseconds.
type tape struct{ at []float64 }

func (r *tape) token(at int64) { r.at = append(r.at, float64(at)/float64(ms)) }

// job is a request of a scenario: times in milliseconds, the prompt in words.
type job struct {
	at, hold float64
	prompt   string
	output   int
}

func tokens(n int, prefix string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d ", prefix, i)
	}
	return b.String()
}

func sequenceOf(cfg Engine, j job, out sink) *sequence {
	p := newPrompt(cfg.BlockTokens, cfg.TemplateTokens)
	p.text(j.prompt)
	return &sequence{
		arrival: int64(j.at * float64(ms)), hold: int64(j.hold * float64(ms)), prompt: p, output: j.output, out: out,
	}
}

// play runs a scenario to its end and returns the instants of all tokens.
func play(cfg Engine, jobs ...job) [][]float64 {
	e := newEngine(cfg, 0, 1)
	tapes := make([]*tape, len(jobs))
	for i, j := range jobs {
		tapes[i] = &tape{}
		e.arrive(sequenceOf(cfg, j, tapes[i]))
	}
	e.advance(int64(time.Hour))
	all := make([][]float64, len(jobs))
	for i, r := range tapes {
		all[i] = r.at
	}
	return all
}

// round is an engine with round numbers: 1 ms a prompt token, decode steps of 10 ms plus 1 ms a sequence.
func round(change ...func(*Engine)) Engine {
	e := Default().Engine
	e.Lanes, e.BatchLimit, e.BlockTokens = 2, 8, 4
	e.PrefillPerToken = Duration(time.Millisecond)
	e.DecodeBase, e.DecodePerSeq = Duration(10*time.Millisecond), Duration(time.Millisecond)
	for _, f := range change {
		f(&e)
	}
	return e
}

func TestEngineTiming(t *testing.T) {
	tests := []struct {
		name string
		cfg  Engine
		jobs []job
		want [][]float64
	}{
		{
			name: "prefill is linear, then a step of 11 ms a token", cfg: round(),
			jobs: []job{{at: 5, prompt: tokens(7, "a"), output: 3}},
			want: [][]float64{{12, 23, 34}},
		},
		{
			name: "one token needs no step", cfg: round(),
			jobs: []job{{at: 0, prompt: tokens(3, "a"), output: 1}},
			want: [][]float64{{3}},
		},
		{
			name: "a prefill that ends inside a step comes out with it, and the next step is longer", cfg: round(),
			jobs: []job{{prompt: tokens(5, "a"), output: 3}, {prompt: tokens(8, "b"), output: 2}},
			want: [][]float64{{5, 16, 28}, {16, 28}},
		},
		{
			name: "two lanes: the third waits for the first to end", cfg: round(),
			jobs: []job{
				{prompt: tokens(10, "a"), output: 1},
				{prompt: tokens(20, "b"), output: 1},
				{prompt: tokens(4, "c"), output: 1},
				{prompt: tokens(4, "d"), output: 1},
			},
			want: [][]float64{{10}, {20}, {14}, {18}},
		},
		{
			name: "batch limit: a place is held to the last token",
			cfg:  round(func(e *Engine) { e.BatchLimit = 1 }),
			jobs: []job{{prompt: tokens(1, "a"), output: 2}, {prompt: tokens(2, "b"), output: 1}},
			want: [][]float64{{1, 12}, {14}},
		},
		{
			name: "first come first served, also when the queue's second would fit", cfg: round(func(e *Engine) { e.Lanes = 1 }),
			jobs: []job{
				{at: 0, prompt: tokens(5, "a"), output: 1},
				{at: 1, prompt: tokens(9, "b"), output: 1},
				{at: 2, prompt: tokens(1, "c"), output: 1},
			},
			want: [][]float64{{5}, {14}, {15}},
		},
		{
			name: "an admission delay lets others pass", cfg: round(func(e *Engine) { e.Lanes = 1 }),
			jobs: []job{{at: 0, hold: 30, prompt: tokens(5, "a"), output: 1}, {at: 1, prompt: tokens(2, "b"), output: 1}},
			want: [][]float64{{35}, {3}},
		},
		{
			name: "cached blocks cost nothing; the last token is always computed",
			cfg:  round(func(e *Engine) { e.CacheBlocks = 10 }),
			jobs: []job{
				{at: 0, prompt: tokens(8, "a"), output: 1},
				{at: 100, prompt: tokens(8, "a"), output: 1},                  // 4 of 8: block 2 holds the last token
				{at: 200, prompt: tokens(8, "a") + tokens(3, "b"), output: 1}, // 8 of 11
				{at: 300, prompt: tokens(3, "a"), output: 1},                  // shorter than a block
			},
			want: [][]float64{{8}, {104}, {203}, {303}},
		},
		{
			name: "prompts computed at the same time do not help each other",
			cfg:  round(func(e *Engine) { e.CacheBlocks = 10 }),
			jobs: []job{{prompt: tokens(9, "a"), output: 1}, {prompt: tokens(9, "a"), output: 1}},
			want: [][]float64{{9}, {9}},
		},
		{
			name: "a template costs its tokens in every prompt",
			cfg:  round(func(e *Engine) { e.TemplateTokens = 6 }),
			jobs: []job{{prompt: tokens(4, "a"), output: 1}},
			want: [][]float64{{10}},
		},
		{
			name: "a freeze stops prefill and steps",
			cfg: round(func(e *Engine) {
				e.Stall = Stall{Every: Duration(20 * time.Millisecond), For: Duration(5 * time.Millisecond)}
			}),
			jobs: []job{{at: 12, prompt: tokens(3, "a"), output: 3}}, // first step 15-26 meets the freeze 20-25
			want: [][]float64{{15, 31, 47}},                          // the second, 31-42, meets 40-45
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := play(tt.cfg, tt.jobs...)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("token instants in ms (-want +got):\n%s", diff)
			}
		})
	}
}

// The demo's figures: a prompt of 277 tokens, the median of its workload, takes 55.4 ms of prefill.
func TestDemoPrefill(t *testing.T) {
	got := play(Demo().Engine, job{prompt: tokens(277, "a"), output: 3})
	if diff := cmp.Diff([][]float64{{55.4, 60.42, 65.44}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// However late and in whatever portions the engine is advanced, tokens have the same instants: lateness of the process
// never adds up.
func TestAdvancingLateChangesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	cfg := round(func(e *Engine) {
		e.CacheBlocks, e.Lanes, e.BatchLimit = 20, 3, 6
		e.DriftPercentPerMinute = 30
		e.Cold = Cold{Factor: 3, Decay: Duration(time.Second)}
	})
	var jobs []job
	at := 0.0
	for range 200 {
		at += r.ExpFloat64() * 12
		jobs = append(jobs, job{at: at, prompt: tokens(1+r.IntN(30), string(rune('a'+r.IntN(3)))), output: 1 + r.IntN(6)})
	}
	want := play(cfg, jobs...)
	for round := range 20 {
		e := newEngine(cfg, 0, 1)
		tapes := make([]*tape, len(jobs))
		for i, j := range jobs {
			tapes[i] = &tape{}
			if s := sequenceOf(cfg, j, tapes[i]); r.IntN(2) == 0 {
				e.advance(s.arrival - r.Int64N(5*ms))
				e.arrive(s)
			} else {
				e.arrive(s)
				e.advance(s.arrival)
			}
		}
		e.advance(int64(time.Hour))
		for i := range jobs {
			if !slices.Equal(tapes[i].at, want[i]) {
				t.Fatalf("run %d, request %d: tokens at %v, want %v", round, i, tapes[i].at, want[i])
			}
		}
	}
}

// A messenger that comes late with an arrival does not make the prefill late.
func TestLateMessenger(t *testing.T) {
	e := newEngine(round(), 0, 1)
	r := &tape{}
	e.advance(4 * ms)
	e.arrive(sequenceOf(e.cfg, job{at: 1, prompt: tokens(10, "a"), output: 1}, r))
	e.advance(100 * ms)
	if want := []float64{11}; !slices.Equal(r.at, want) {
		t.Errorf("token at %v, want %v", r.at, want)
	}
}

func TestCancelFreesThePlace(t *testing.T) {
	cfg := round(func(e *Engine) { e.Lanes, e.BatchLimit = 1, 1 })
	for name, at := range map[string]float64{"prefilling": 2, "running": 15} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(cfg, 0, 1)
			first, second := &tape{}, &tape{}
			s := sequenceOf(cfg, job{prompt: tokens(5, "a"), output: 50}, first)
			e.arrive(s)
			e.arrive(sequenceOf(cfg, job{prompt: tokens(5, "b"), output: 1}, second))
			now := int64(at * float64(ms))
			e.advance(now)
			e.cancel(s, now)
			e.cancel(s, now) // again: no harm
			had := len(first.at)
			e.advance(int64(time.Hour))
			if len(first.at) != had {
				t.Errorf("the cancelled request got %d tokens more", len(first.at)-had)
			}
			if want := at + 5; len(second.at) != 1 || second.at[0] < want || second.at[0] > want+11 {
				t.Errorf("the waiting request's token is at %v, want within a step of %v", second.at, want)
			}
			if e.tally.admitted != 0 || e.tally.heldTokens != 0 || e.waiting() != 0 {
				t.Errorf("left over: %+v, %d waiting", e.tally, e.waiting())
			}
		})
	}
}

// Under random arrivals and cancellations nothing is lost, nothing leaks and time never runs backwards.
func TestEngineInvariants(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 7))
		cfg := round(func(e *Engine) {
			e.Lanes, e.BatchLimit, e.CacheBlocks = 1+r.IntN(3), 1+r.IntN(6), r.IntN(20)
			e.DecodeBase = Duration(r.IntN(2)) * e.DecodeBase
		})
		e := newEngine(cfg, 0, 1)
		tapes, live := []*tape{}, []*sequence{}
		cancelled := map[int]bool{}
		now := int64(0)
		for i := range 150 {
			now += r.Int64N(20 * ms)
			tp := &tape{}
			s := sequenceOf(cfg, job{prompt: tokens(1+r.IntN(20), "a"), output: 1 + r.IntN(9)}, tp)
			s.arrival = now
			e.arrive(s)
			e.advance(now)
			if e.tally.admitted > cfg.BatchLimit || len(e.prefills) > cfg.Lanes {
				t.Fatalf("seed %d: %d admitted, %d prefills", seed, e.tally.admitted, len(e.prefills))
			}
			tapes, live = append(tapes, tp), append(live, s)
			if r.IntN(4) == 0 {
				k := r.IntN(i + 1)
				e.cancel(live[k], now)
				cancelled[k] = true
			}
		}
		e.advance(int64(time.Hour))
		for i, tp := range tapes {
			if !slices.IsSorted(tp.at) {
				t.Fatalf("seed %d, request %d: %v", seed, i, tp.at)
			}
			if !cancelled[i] && len(tp.at) != live[i].output {
				t.Fatalf("seed %d, request %d: %d tokens of %d", seed, i, len(tp.at), live[i].output)
			}
		}
		if _, more := e.next(); more || e.tally.admitted != 0 || e.tally.heldTokens != 0 || e.waiting() != 0 {
			t.Fatalf("seed %d: left over: %+v, %d waiting", seed, e.tally, e.waiting())
		}
	}
}
