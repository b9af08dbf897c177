package runner

import (
	"context"
	"testing"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// instantSender answers at once: what is left is the offering's own cost.
type instantSender struct{ clock record.Clock }

func (instantSender) Encode(seq int, _ *workload.Workload, _ workload.Request) (*client.Request, error) {
	return &client.Request{Seq: seq}, nil
}

func (s instantSender) Do(_ context.Context, r *client.Request, release <-chan record.Instant) (record.Sample, record.Stream) {
	at := <-release
	return record.Sample{Seq: r.Seq, Pick: at, Slot: at, Wrote: at, End: s.clock.Now(), Class: record.OK}, record.Stream{}
}

// BenchmarkOffer measures what one request costs the offering: its goroutine, its hand-over, its account. At 5,000
// requests/s ten microseconds each are five percent of a core.
func BenchmarkOffer(b *testing.B) {
	const n = 1000
	requests := single(n, 0)
	turn := make([]workload.Request, n)
	copy(turn, requests)
	for i := 1; i < n; i += 2 {
		turn[i].After = []int{i - 1}
	}
	for _, bm := range []struct {
		name     string
		requests []workload.Request
		load     record.Load
	}{
		{"open", requests, record.Load{}},
		{"turns", turn, record.Load{}},
		{"capped", requests, record.Load{MaxInFlight: 32}},
		{"closed", requests, record.Load{Concurrency: 32}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			clock := record.NewClock()
			results := make(chan result, n)
			b.ReportAllocs()
			for b.Loop() {
				o := &offering{client: instantSender{clock}, clock: clock, results: results}
				if bm.load.MaxInFlight > 0 {
					o.places = &places{free: bm.load.MaxInFlight}
				}
				if bm.load.Concurrency > 0 {
					o.loop = newClosedLoop(bm.load, clock.Now)
				}
				sent := false
				if err := o.run(b.Context(), b.Context(), func() *batch {
					if sent {
						return nil
					}
					sent = true
					return newBatch(bm.requests, clock.Now(), 0, measured)
				}); err != nil {
					b.Fatal(err)
				}
				for range n {
					<-results
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/request")
		})
	}
}
