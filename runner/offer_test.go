package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/pace"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

const milli = time.Millisecond

// fakeSender answers requests in no time but the one it is told to take. It stands for client and server together, so that
// an offering can be tested in fake time.
type fakeSender struct {
	clock record.Clock
	// takes is how long request seq takes once it may go; fails how it ends, ok when nil.
	takes func(seq int) time.Duration
	fails func(seq int) record.Outcome
	// lingers is how long a connection stays open after an answer.
	lingers time.Duration

	mu sync.Mutex
	// waiting are the requests that hold a goroutine, before and after their release; flying those released.
	waiting, flying, most int
	encoded               []int
}

func (s *fakeSender) Encode(seq int, _ *workload.Workload, q workload.Request) (*client.Request, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.encoded = append(s.encoded, seq)
	return &client.Request{Seq: seq, Body: []byte(q.Turn.ID)}, nil
}

func (s *fakeSender) Do(ctx context.Context, r *client.Request, release <-chan record.Instant) (record.Sample, record.Stream) {
	out := record.Sample{Seq: r.Seq, Sched: r.Sched, Phase: r.Phase, Class: record.Cut, Detail: "before it was sent"}
	s.count(1, 0)
	defer s.count(-1, 0)
	select {
	case <-ctx.Done():
		return out, record.Stream{}
	case at, ok := <-release:
		if !ok {
			return out, record.Stream{}
		}
		out.Pick, out.Slot, out.Wrote = at, at, s.clock.Now()
	}
	s.count(0, 1)
	defer s.count(0, -1)
	select {
	case <-ctx.Done():
		out.Detail = "in flight"
		return out, record.Stream{}
	case <-time.After(s.takes(r.Seq)):
	}
	out.End, out.Class, out.Detail = s.clock.Now(), record.OK, ""
	if s.fails != nil {
		out.Class = s.fails(r.Seq)
	}
	if s.lingers > 0 {
		// An answer that is over while its connection is not: Do hears that at once, and returns later.
		r.Ended(out.End, out.Class == record.OK)
		time.Sleep(s.lingers)
	}
	return out, record.Stream{Seq: r.Seq}
}

func (s *fakeSender) count(waiting, flying int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting += waiting
	s.flying += flying
	s.most = max(s.most, s.flying)
}

func (s *fakeSender) holds() (waiting, flying int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting, s.flying
}

func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// single makes n requests without predecessors, due every gap.
func single(n int, gap time.Duration) []workload.Request {
	out := make([]workload.Request, n)
	for i := range out {
		out[i] = workload.Request{Turn: &workload.Turn{ID: fmt.Sprint("r", i)}, Offset: time.Duration(i) * gap}
	}
	return out
}

// offered runs an offering over one batch in fake time and returns its samples by sequence number.
func offered(releasing context.Context, t *testing.T, o *offering, b *batch) []record.Sample {
	t.Helper()
	results := make(chan result, 10_000)
	o.results, o.wait = results, pace.Timer
	sent := false
	if err := o.run(releasing, t.Context(), func() *batch {
		if sent {
			return nil
		}
		sent = true
		return b
	}); err != nil {
		t.Fatal(err)
	}
	close(results)
	var out []record.Sample
	for r := range results {
		out = append(out, r.sample)
	}
	slices.SortFunc(out, func(a, b record.Sample) int { return a.Seq - b.Seq })
	return out
}

func measured(int, record.Instant) record.Phase { return record.PhaseMeasure }

// since is a list of instants as times since m0.
func since(m0 record.Instant, samples []record.Sample, of func(record.Sample) record.Instant) []time.Duration {
	var out []time.Duration
	for _, s := range samples {
		out = append(out, time.Duration(of(s)-m0))
	}
	return out
}

func sched(s record.Sample) record.Instant { return s.Sched }

// Case K-04: eight requests 100 milli apart, one place, 500 milli each. The wait inside the client counts.
func TestWaitingForAPlaceCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := record.NewClock()
		fake := &fakeSender{clock: clock, takes: always(500 * milli)}
		m0 := clock.Now() + record.Instant(time.Second)
		o := &offering{client: fake, clock: clock, places: &places{free: 1}}
		got := offered(t.Context(), t, o, newBatch(single(8, 100*milli), m0, 0, measured))
		var e2e, send, slotWait, lag []time.Duration
		var sum time.Duration
		for _, s := range got {
			e2e = append(e2e, time.Duration(s.End-s.Sched))
			send = append(send, time.Duration(s.End-s.Wrote))
			slotWait = append(slotWait, time.Duration(s.Slot-s.Pick))
			lag = append(lag, time.Duration(s.Pick-s.Sched))
			sum += e2e[len(e2e)-1]
		}
		want := []time.Duration{500 * milli, 900 * milli, 1300 * milli, 1700 * milli, 2100 * milli, 2500 * milli, 2900 * milli, 3300 * milli}
		if diff := cmp.Diff(want, e2e); diff != "" {
			t.Errorf("latency from schedule:\n%s", diff)
		}
		if sum/8 != 1900*milli || slices.Max(slotWait) != 2800*milli || slices.Max(send) != 500*milli || slices.Min(send) != 500*milli {
			t.Errorf("mean %s, longest wait %s, from send %s to %s", sum/8, slices.Max(slotWait), slices.Min(send), slices.Max(send))
		}
		if slices.Max(lag) != 0 {
			t.Errorf("pacer lag %v: waiting for a place is no lag", lag)
		}
		if !o.places.limited() || fake.most != 1 {
			t.Errorf("limited %t, %d in flight at most", o.places.limited(), fake.most)
		}
	})
}

// A cap that is never reached changes nothing.
func TestPlacesThatSuffice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := record.NewClock()
		o := &offering{client: &fakeSender{clock: clock, takes: always(150 * milli)}, clock: clock, places: &places{free: 2}}
		got := offered(t.Context(), t, o, newBatch(single(20, 100*milli), clock.Now(), 0, measured))
		for _, s := range got {
			if s.Slot != s.Sched || s.Pick != s.Sched {
				t.Errorf("%d: due %d, picked %d, slot %d", s.Seq, s.Sched, s.Pick, s.Slot)
			}
		}
		if o.places.limited() || !o.places.room() {
			t.Error("the cap was reached, or a place was lost")
		}
	})
}

// chain is one conversation: each turn waits for the one before it, for the delays given.
func chain(delays ...time.Duration) []workload.Request {
	out := single(len(delays)+1, 0)
	for i, d := range delays {
		out[i+1].After, out[i+1].Delay = []int{i}, d
	}
	return out
}

// Case W-04: turn 1 answered in 400 milli, think 1,000 milli, turn 2 answered in 300 milli, think 500 milli, turn 3.
func TestTurnsWaitForTheirPredecessors(t *testing.T) {
	took := []time.Duration{400 * milli, 300 * milli, 100 * milli}
	tests := []struct {
		name  string
		fails int
		want  []time.Duration
		class []record.Outcome
	}{
		{"all answered", -1, []time.Duration{0, 1400 * milli, 2200 * milli}, []record.Outcome{record.OK, record.OK, record.OK}},
		{
			"the first fails", 0,
			[]time.Duration{0, 400 * milli, 400 * milli},
			[]record.Outcome{record.HTTP5xx, record.ConversationAborted, record.ConversationAborted},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := record.NewClock()
				fake := &fakeSender{clock: clock, takes: func(seq int) time.Duration { return took[seq] }, fails: func(seq int) record.Outcome {
					if seq == tt.fails {
						return record.HTTP5xx
					}
					return record.OK
				}}
				m0 := clock.Now() + record.Instant(time.Second)
				var thinking atomic.Int64
				time.AfterFunc(1900*milli, func() { waiting, _ := fake.holds(); thinking.Store(int64(waiting)) })
				got := offered(t.Context(), t, &offering{client: fake, clock: clock}, newBatch(chain(1000*milli, 500*milli), m0, 0, measured))
				if diff := cmp.Diff(tt.want, since(m0, got, sched)); diff != "" {
					t.Errorf("due:\n%s", diff)
				}
				var class []record.Outcome
				for _, s := range got {
					class = append(class, s.Class)
					if s.Class == record.OK && s.Pick != s.Sched {
						t.Errorf("turn %d was picked %s late", s.Seq+1, time.Duration(s.Pick-s.Sched))
					}
				}
				if diff := cmp.Diff(tt.class, class); diff != "" {
					t.Error(diff)
				}
				if n := thinking.Load(); n != 0 {
					t.Errorf("%d goroutines wait for a conversation that thinks", n)
				}
			})
		})
	}
}

// A turn that is due with its predecessor's end was serialised before that end.
func TestTurnWithoutDelayIsReadyBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := record.NewClock()
		fake := &fakeSender{clock: clock, takes: always(400 * milli)}
		var encoded atomic.Int64
		time.AfterFunc(390*milli, func() {
			fake.mu.Lock()
			defer fake.mu.Unlock()
			encoded.Store(int64(len(fake.encoded)))
		})
		m0 := clock.Now()
		got := offered(t.Context(), t, &offering{client: fake, clock: clock}, newBatch(chain(0, time.Second), m0, 0, measured))
		if diff := cmp.Diff([]time.Duration{0, 400 * milli, 1800 * milli}, since(m0, got, sched)); diff != "" {
			t.Error(diff)
		}
		if encoded.Load() != 2 || len(fake.encoded) != 3 {
			t.Errorf("%d requests serialised before the first ended, %d in all; want 2 and 3", encoded.Load(), len(fake.encoded))
		}
	})
}

// Ten thousand thinking conversations hold no goroutine each, and none delays another.
func TestManyConversationsThink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		clock := record.NewClock()
		requests := single(n, 0)
		for i := range n {
			requests = append(requests, workload.Request{
				Turn: &workload.Turn{ID: fmt.Sprint("f", i)}, After: []int{i}, Delay: time.Duration(1000+i%100) * milli,
			})
		}
		fake := &fakeSender{clock: clock, takes: always(10 * milli)}
		var waiting atomic.Int64
		time.AfterFunc(500*milli, func() { n, _ := fake.holds(); waiting.Store(int64(n)) })
		m0 := clock.Now()
		got := offered(t.Context(), t, &offering{client: fake, clock: clock}, newBatch(requests, m0, 0, measured))
		if len(got) != 2*n || waiting.Load() != 0 {
			t.Fatalf("%d samples, %d goroutines while all think", len(got), waiting.Load())
		}
		for _, s := range got[n:] {
			if want := got[s.Seq-n].End + record.Instant(requests[s.Seq].Delay); s.Sched != want || s.Pick != want {
				t.Fatalf("turn %d due %d, picked %d, want %d", s.Seq, s.Sched, s.Pick, want)
			}
		}
	})
}

// When releasing ends, what was not due goes nowhere, what is in flight comes home, and nobody is left behind.
func TestEndOfReleasing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		places int
		phase  record.Phase
		want   int
	}{
		{"open", 0, record.PhaseTail, 11},
		{"tail waiting for a place is dropped", 2, record.PhaseTail, 4},
		{"measured ones keep waiting for a place", 2, record.PhaseMeasure, 11},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := record.NewClock()
				fake := &fakeSender{clock: clock, takes: always(800 * milli)}
				releasing, stop := context.WithCancel(t.Context())
				time.AfterFunc(1050*milli, stop)
				o := &offering{client: fake, clock: clock}
				if tt.places > 0 {
					o.places = &places{free: tt.places}
				}
				got := offered(releasing, t, o, newBatch(append(single(100, 100*milli), chain(time.Hour)...), clock.Now(), 0, func(int, record.Instant) record.Phase { return tt.phase }))
				ok := 0
				for _, s := range got {
					if s.Class == record.OK {
						ok++
					}
				}
				if ok != tt.want {
					t.Errorf("%d answered, want %d", ok, tt.want)
				}
				if waiting, flying := fake.holds(); waiting != 0 || flying != 0 {
					t.Errorf("%d goroutines, %d requests left behind", waiting, flying)
				}
			})
		})
	}
}

// A cut ends everything that is released or waits, and all of it is reported.
func TestCutReportsWhatWasReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := record.NewClock()
		fake := &fakeSender{clock: clock, takes: always(time.Hour)}
		cut, abandon := context.WithCancel(t.Context())
		time.AfterFunc(1050*milli, abandon)
		results := make(chan result, 100)
		o := &offering{client: fake, clock: clock, places: &places{free: 2}, results: results, wait: pace.Timer}
		sent := false
		if err := o.run(cut, cut, func() *batch {
			if sent {
				return nil
			}
			sent = true
			return newBatch(single(100, 100*milli), clock.Now(), 0, measured)
		}); err != nil {
			t.Fatal(err)
		}
		if n := len(results); n != 11 {
			t.Errorf("%d requests reported, 11 were due", n)
		}
	})
}

// A request that is due before its bytes are ready goes late, and its lag says so: never its latency alone.
func TestLateSerialisationIsLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := record.NewClock()
		fake := &slowEncoder{fakeSender{clock: clock, takes: always(10 * milli)}}
		got := offered(t.Context(), t, &offering{client: fake, clock: clock}, newBatch(single(3, 0), clock.Now(), 0, measured))
		if diff := cmp.Diff([]time.Duration{100 * milli, 200 * milli, 300 * milli}, since(got[0].Sched, got, func(s record.Sample) record.Instant { return s.Pick })); diff != "" {
			t.Error(diff)
		}
	})
}

type slowEncoder struct{ fakeSender }

func (s *slowEncoder) Encode(seq int, w *workload.Workload, q workload.Request) (*client.Request, error) {
	time.Sleep(100 * milli)
	return s.fakeSender.Encode(seq, w, q)
}

type brokenEncoder struct{ fakeSender }

func (s *brokenEncoder) Encode(seq int, w *workload.Workload, q workload.Request) (*client.Request, error) {
	if seq == 1 {
		return nil, errors.New("turn r1: no such text")
	}
	return s.fakeSender.Encode(seq, w, q)
}

// A turn that cannot be serialised ends the round with its name, not with a hang.
func TestTurnThatCannotBeSerialised(t *testing.T) {
	for _, loop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			clock := record.NewClock()
			o := &offering{
				client: &brokenEncoder{fakeSender{clock: clock, takes: always(10 * milli)}}, clock: clock, results: make(chan result, 10), wait: pace.Timer,
			}
			if loop {
				o.loop = newClosedLoop(record.Load{Concurrency: 1}, clock.Now)
			}
			sent := false
			err := o.run(t.Context(), t.Context(), func() *batch {
				if sent {
					return nil
				}
				sent = true
				return newBatch(single(3, 0), clock.Now(), 0, measured)
			})
			if err == nil || err.Error() != "turn r1: no such text" {
				t.Errorf("closed %t: %v", loop, err)
			}
		})
	}
}

// What waits for an answer goes on at its end, not when its connection is clean 100 ms later.
func TestEndOfAnAnswerIsHeardAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name     string
		places   int
		requests []workload.Request
		want     []time.Duration
		of       func(record.Sample) record.Instant
	}{
		{"next turn", 0, chain(0, 50*milli), []time.Duration{0, 200 * milli, 450 * milli}, func(s record.Sample) record.Instant { return s.Pick }},
		{"next place", 1, single(3, 0), []time.Duration{0, 200 * milli, 400 * milli}, func(s record.Sample) record.Instant { return s.Slot }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := record.NewClock()
				o := &offering{client: &fakeSender{clock: clock, takes: always(200 * milli), lingers: 100 * milli}, clock: clock}
				if tt.places > 0 {
					o.places = &places{free: tt.places}
				}
				m0 := clock.Now()
				got := offered(t.Context(), t, o, newBatch(tt.requests, m0, 0, measured))
				if diff := cmp.Diff(tt.want, since(m0, got, tt.of)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeSender{clock: record.NewClock(), takes: always(200 * milli), lingers: 100 * milli}
		_, m0, got := loopOver(t, fake, record.Load{Concurrency: 1}, 500*milli, single(10, 0))
		if diff := cmp.Diff([]time.Duration{0, 200 * milli, 400 * milli}, since(m0, only(got, record.PhaseMeasure), sched)); diff != "" {
			t.Errorf("next slot: %s", diff)
		}
	})
}
