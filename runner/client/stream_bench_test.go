package client

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// BenchmarkStamps is what docs/load.md says of stamps over HTTP/2: how late an event's stamp is behind the clock read just
// before it was written, over either protocol, 100 streams of 100 events/s from the standard library's server in this process.
func BenchmarkStamps(b *testing.B) {
	const streams, events, gap = 100, 300, 10 * time.Millisecond
	for _, over2 := range []bool{false, true} {
		name := map[bool]string{false: "HTTP1", true: "HTTP2"}[over2]
		b.Run(name, func(b *testing.B) {
			clock := record.NewClock()
			var mu sync.Mutex
			var late []time.Duration
			reads := 0
			for b.Loop() {
				written := make([][]record.Instant, streams)
				next := make(chan int, streams)
				for i := range streams {
					next <- i
				}
				s := serveBoth(b, nil, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					i := <-next
					w.Header().Set("X-Request-Id", strconv.Itoa(i))
					for due := time.Now(); len(written[i]) < events; due = due.Add(gap) {
						time.Sleep(time.Until(due))
						written[i] = append(written[i], clock.Now())
						flushed(w, helloEvent)
					}
					flushed(w, finishEvent, doneEvent)
				})
				c := client2(b, s.url, func(o *Options) { o.HTTP2, o.Clock = over2, clock })
				var wg sync.WaitGroup
				for range streams {
					wg.Go(func() {
						r, err := c.request(c.shortPrompt("hi", events), true)
						if err != nil {
							b.Error(err)
							return
						}
						r.Sched = clock.Now()
						release := make(chan record.Instant, 1)
						release <- r.Sched
						got, st := c.Do(b.Context(), r, release)
						i, err := strconv.Atoi(got.RequestID)
						if err != nil || got.Class != record.OK || len(st.T) != events {
							b.Errorf("%s: %s", got.Class, got.Detail)
							return
						}
						mu.Lock()
						defer mu.Unlock()
						reads += got.Reads
						at := got.First
						for k, d := range st.T {
							at += record.Instant(d)
							late = append(late, time.Duration(at-written[i][k]))
						}
					})
				}
				wg.Wait()
			}
			slices.Sort(late)
			q := func(q float64) float64 { return late[int(q*float64(len(late)-1))].Seconds() * 1e6 }
			b.ReportMetric(q(0.5), "p50-us")
			b.ReportMetric(q(0.99), "p99-us")
			b.ReportMetric(float64(len(late))/float64(reads), "events/read")
		})
	}
}
