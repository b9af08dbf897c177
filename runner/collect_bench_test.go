package runner

import (
	"fmt"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// answered is an ended request with a timeline of that many events, 20 ms apart.
func answered(events int) result {
	s := record.Sample{
		V: record.SampleVersion, ID: "chat-000001-1", Conv: "chat-000001", Turn: 1, Phase: record.PhaseWarmup, Class: record.OK, Status: 200,
		Sched: 1, Pick: 2, Slot: 2, Conn: 2, Wrote: 3, Header: 4, First: 1e8, FirstOut: 1e8, Last: 2e8, End: 2e8 + 1,
		NIn: new(500), NOut: new(events), TokensFrom: record.FromUsage, Finish: "stop", Events: events, PayloadEvents: events, Reads: events,
	}
	st := record.Stream{T: make([]int64, events)}
	for i := 1; i < events; i++ {
		st.T[i] = int64(20*time.Millisecond) + int64(i*7919%2_000_000)
	}
	return result{sample: s, stream: st}
}

func newBenchCollector(tb testing.TB) *collector {
	tb.Helper()
	run := &record.Run{ID: "bench", Kind: record.KindLoad, Status: record.StatusRunning, Epoch: time.Now()}
	w, err := record.Create(tb.TempDir()+"/run", run)
	if err != nil {
		tb.Fatal(err)
	}
	rw, err := w.Round(0, record.Head)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := rw.Close(record.Round{Arm: record.Head}, nil, nil); err != nil {
			tb.Error(err)
		}
		if err := w.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &collector{writer: rw, cause: func() error { return nil }, broke: func(err error) { tb.Error(err) }}
}

// BenchmarkCollector takes ended requests as fast as it can. Allocations are per request, none per event.
func BenchmarkCollector(b *testing.B) {
	for _, events := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			c, r := newBenchCollector(b), answered(events)
			b.ReportAllocs()
			for b.Loop() {
				c.take(r)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
		})
	}
}

// An event costs the collector no allocation: a request of 1,000 events allocates what one of 10 does.
func TestCollectorAllocatesNothingPerEvent(t *testing.T) {
	allocs := map[int]float64{}
	for _, events := range []int{10, 1000} {
		c, r := newBenchCollector(t), answered(events)
		allocs[events] = testing.AllocsPerRun(200, func() { c.take(r) })
	}
	if allocs[1000] > allocs[10]+1 {
		t.Errorf("%v allocations with 1,000 events, %v with 10", allocs[1000], allocs[10])
	}
}
