package runner

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// loopOver runs a closed loop over requests in fake time.
func loopOver(t *testing.T, fake *fakeSender, load record.Load, measure time.Duration, requests []workload.Request) (*closedLoop, record.Instant, []record.Sample) {
	t.Helper()
	releasing, stop := context.WithCancel(t.Context())
	defer stop()
	var m0 record.Instant
	loop := newClosedLoop(load, func() record.Instant {
		m0 = fake.clock.Now() + record.Instant(200*milli)
		return m0
	})
	loop.measure, loop.done = measure, stop
	b := newBatch(requests, 0, 0, func(_ int, due record.Instant) record.Phase { return loop.phase(due) })
	got := offered(releasing, t, &offering{client: fake, clock: fake.clock, loop: loop}, b)
	return loop, m0, got
}

func only(samples []record.Sample, phase record.Phase) []record.Sample {
	return slices.DeleteFunc(slices.Clone(samples), func(s record.Sample) bool { return s.Phase != phase })
}

func counted(samples []record.Sample, phase record.Phase) int { return len(only(samples, phase)) }

// N slots, each sends when its last one is over; what falls due after the interval is tail.
func TestSlotsSendWhenFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeSender{clock: record.NewClock(), takes: always(200 * milli)}
		loop, m0, got := loopOver(t, fake, record.Load{Concurrency: 3}, time.Second, single(1000, 0))
		var want []time.Duration
		for k := range 5 {
			want = append(want, slices.Repeat([]time.Duration{time.Duration(k) * 200 * milli}, 3)...)
		}
		if diff := cmp.Diff(want, since(m0, only(got, record.PhaseMeasure), sched)); diff != "" {
			t.Errorf("due:\n%s", diff)
		}
		for _, s := range got {
			if s.Pick != s.Sched || s.Slot != s.Sched {
				t.Errorf("%d: due %d, picked %d, slot %d", s.Seq, s.Sched, s.Pick, s.Slot)
			}
		}
		if n := counted(got, record.PhaseMeasure); n != 15 || fake.most != 3 {
			t.Errorf("%d measured, %d in flight; want 15 and 3", n, fake.most)
		}
		if m1, dry := loop.ended(); dry || m1 != m0+record.Instant(time.Second) {
			t.Errorf("the interval ended at %s, dry %t", time.Duration(m1-m0), dry)
		}
	})
}

// A slow request keeps its own slot busy and no other, and is followed to its end.
func TestSlowRequestHoldsOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeSender{clock: record.NewClock(), takes: func(seq int) time.Duration {
			if seq == 0 {
				return 5 * time.Second
			}
			return 100 * milli
		}}
		_, _, got := loopOver(t, fake, record.Load{Concurrency: 2}, time.Second, single(1000, 0))
		if n := counted(got, record.PhaseMeasure); n != 11 {
			t.Errorf("%d measured, want the slow one and 10 of the other slot", n)
		}
		if got[0].Class != record.OK || counted(got, record.PhaseTail) < 39 {
			t.Errorf("the slow one is %s, %d in the tail: arrivals go on until it has ended", got[0].Class, counted(got, record.PhaseTail))
		}
	})
}

func TestSlotsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeSender{clock: record.NewClock(), takes: always(100 * milli)}
		_, m0, got := loopOver(t, fake, record.Load{Concurrency: 1, Think: 150 * milli}, time.Second, single(1000, 0))
		want := []time.Duration{0, 250 * milli, 500 * milli, 750 * milli}
		if diff := cmp.Diff(want, since(m0, only(got, record.PhaseMeasure), sched)); diff != "" {
			t.Error(diff)
		}
	})
}

// A conversation that thinks holds no slot: the slot takes the next conversation, and the turn goes when it is due and a
// slot is free, before fresh conversations.
func TestThinkingHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeSender{clock: record.NewClock(), takes: always(100 * milli)}
		requests := single(1000, 0)
		requests[900].After, requests[900].Delay = []int{0}, 230*milli
		_, m0, got := loopOver(t, fake, record.Load{Concurrency: 1}, 600*milli, requests)
		var order []string
		for _, s := range only(got, record.PhaseMeasure) {
			order = append(order, fmt.Sprintf("%d at %s", s.Seq, time.Duration(s.Sched-m0)))
		}
		// The turn is due at 330 milli; the slot is busy until 400 milli.
		want := []string{"0 at 0s", "1 at 100ms", "2 at 200ms", "3 at 300ms", "4 at 500ms", "900 at 400ms"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Error(diff)
		}
	})
}

// A workload that runs out ends the interval where a slot found nothing: fewer slots are another load.
func TestWorkloadRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeSender{clock: record.NewClock(), takes: always(100 * milli)}
		loop, m0, got := loopOver(t, fake, record.Load{Concurrency: 4}, time.Minute, single(42, 0))
		m1, dry := loop.ended()
		if !dry || m1 < m0+record.Instant(time.Second) || m1 > m0+record.Instant(1001*milli) {
			t.Errorf("ended after %s, dry %t; want 1 s", time.Duration(m1-m0), dry)
		}
		if len(got) != 42 || counted(got, record.PhaseMeasure) != 42 {
			t.Errorf("%d sent, %d measured; want 42", len(got), counted(got, record.PhaseMeasure))
		}
	})
}

// Slots wait for turns that think when nothing else is left, and the interval ends there too.
func TestOnlyThinkingTurnsAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeSender{clock: record.NewClock(), takes: always(100 * milli)}
		loop, m0, got := loopOver(t, fake, record.Load{Concurrency: 1}, time.Minute, chain(time.Second, time.Second))
		if m1, dry := loop.ended(); !dry || m1 > m0+record.Instant(101*milli) {
			t.Errorf("ended after %s, dry %t", time.Duration(m1-m0), dry)
		}
		if n := counted(got, record.PhaseMeasure); n != 1 {
			t.Errorf("%d measured, want 1", n)
		}
	})
}

// A turn whose predecessor failed is counted, and gives no slot away.
func TestFailedTurnInAClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeSender{clock: record.NewClock(), takes: always(100 * milli), fails: func(seq int) record.Outcome {
			if seq == 0 {
				return record.HTTP5xx
			}
			return record.OK
		}}
		requests := append(chain(time.Second), single(100, 0)...)
		_, _, got := loopOver(t, fake, record.Load{Concurrency: 1}, 450*milli, requests)
		if got[1].Class != record.ConversationAborted || counted(got, record.PhaseMeasure) != 6 || fake.most != 1 {
			t.Errorf("second turn %s, %d measured, %d in flight", got[1].Class, counted(got, record.PhaseMeasure), fake.most)
		}
	})
}
