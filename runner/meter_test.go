package runner

import (
	"math"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const ms = record.Instant(time.Millisecond)

// A stream that spans two windows counts in each what arrived there.
func TestMeterCutsByArrival(t *testing.T) {
	m := newMeter(1000*ms, 100*time.Millisecond, true)
	for k := range 2 {
		m.offer(k, 1, 4)
	}
	// Tokens at 1080, 1100, 1120, 1140: one in window 0, three in window 1, gaps of 20 ms.
	m.event(0, 1080*ms)
	for _, at := range []record.Instant{1100, 1120, 1140} {
		m.event((at-20)*ms, at*ms)
	}
	four := 4
	m.ended(record.Sample{Class: record.OK, End: 1141 * ms, Sched: 1000 * ms, NOut: &four, PayloadEvents: 4}, 1141*ms)
	for k, want := range []struct{ delivered, latency float64 }{{0.25, math.NaN()}, {0.75, 20}} {
		w := m.read(k)
		if got, ok := w.Delivered.Finite(); !ok || got != want.delivered {
			t.Errorf("window %d delivered %v, want %v", k, got, want.delivered)
		}
		got, ok := w.Latency.Finite()
		if ok != !math.IsNaN(want.latency) || ok && math.Abs(got-want.latency) > 1e-9 {
			t.Errorf("window %d latency %v (%v), want %v", k, got, ok, want.latency)
		}
	}
}

// Two tokens an event: what finished answers say turns events into tokens.
func TestMeterCountsTokensNotEvents(t *testing.T) {
	m := newMeter(0, time.Second, true)
	m.offer(0, 1, 8)
	for i := range 4 {
		m.event(0, record.Instant(i+1)*ms)
	}
	eight := 8
	m.ended(record.Sample{Class: record.OK, End: 5 * ms, Sched: ms, NOut: &eight, PayloadEvents: 4}, 5*ms)
	if got, _ := m.read(0).Delivered.Finite(); got != 1 {
		t.Errorf("delivered %v of what was offered, want 1", got)
	}
}

func TestMeterWithoutStream(t *testing.T) {
	m := newMeter(0, time.Second, false)
	m.offer(0, 2, 10)
	five := 5
	m.ended(record.Sample{Class: record.OK, Sched: 10 * ms, End: 40 * ms, NOut: &five}, 40*ms)
	m.ended(record.Sample{Class: record.HTTP5xx, Sched: 20 * ms, End: 50 * ms, Detail: "500"}, 50*ms)
	w := m.read(0)
	if d, _ := w.Delivered.Finite(); d != 0.5 {
		t.Errorf("delivered %v, want 0.5", d)
	}
	if l, _ := w.Latency.Finite(); l != 30 {
		t.Errorf("latency %v ms, want the 30 ms of the whole answer", l)
	}
	if w.Requests != 2 || w.Failed != 1 {
		t.Errorf("%d requests, %d failed; want 2 and 1", w.Requests, w.Failed)
	}
}

// Nothing offered and nothing received are n/a, not 0.
func TestMeterHasNoZeroForNothing(t *testing.T) {
	w := newMeter(0, time.Second, true).read(3)
	if _, ok := w.Delivered.Get(); ok {
		t.Error("delivered is a number although nothing was offered")
	}
	if _, ok := w.Latency.Get(); ok {
		t.Error("latency is a number although no token came")
	}
}
