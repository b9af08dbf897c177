package record

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkWindows cuts a round of 400 s into seconds: what a round costs between its end and the next one's start.
func BenchmarkWindows(b *testing.B) {
	for _, f := range []fabric{
		{requests: 2000, rate: 5, m0: 1, ttft: 200, gap: 30, tokens: 50},
		{requests: 40_000, rate: 100, m0: 1, ttft: 200, gap: 10, tokens: 50},
	} {
		samples, streams := f.make()
		in := f.interval(nil)
		b.Run(fmt.Sprintf("rate=%g", f.rate), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if len(Windows(samples, streams, in.M0, in.M1)) != 400 {
					b.Fatal("not 400 seconds")
				}
			}
		})
	}
}

// BenchmarkStreamCodec writes and reads timelines as they lie on disk, 100 events each. Bytes an event are on disk.
func BenchmarkStreamCodec(b *testing.B) {
	_, streams := fabric{requests: 200, rate: 10, m0: 1, ttft: 200, gap: 30, jitter: 0.2, tokens: 100}.make()
	events := 0
	for _, st := range streams {
		events += len(st.T)
	}
	perEvent := func(b *testing.B) {
		b.Helper()
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
	}
	b.Run("encode", func(b *testing.B) {
		var e streamEncoder
		b.ReportAllocs()
		for b.Loop() {
			for _, st := range streams {
				e.encode(st)
			}
		}
		perEvent(b)
	})
	var packed bytes.Buffer
	b.Run("write", func(b *testing.B) {
		var e streamEncoder
		z := gzip.NewWriter(&packed)
		b.ReportAllocs()
		for b.Loop() {
			packed.Reset()
			z.Reset(&packed)
			for i, st := range streams {
				_, _ = z.Write(e.encode(st))
				if i%10 == 9 {
					_ = z.Flush()
				}
			}
			_ = z.Close()
		}
		b.ReportMetric(float64(packed.Len())/float64(events), "B/event")
		perEvent(b)
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			z, err := gzip.NewReader(bytes.NewReader(packed.Bytes()))
			if err == nil {
				err = lines(z, checkStream, func(Stream) bool { return true })
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		perEvent(b)
	})
}

// BenchmarkRoundWriter appends ended requests with their timelines, as the collector does. Allocations are per request: the
// number of events must not show in them.
func BenchmarkRoundWriter(b *testing.B) {
	for _, tokens := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("events=%d", tokens), func(b *testing.B) {
			samples, streams := fabric{requests: 1, rate: 10, m0: 1, ttft: 200, gap: 30, jitter: 0.2, tokens: tokens, even: true}.make()
			rw, err := newRoundWriter(openFile, filepath.Join(b.TempDir(), "round"))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := rw.Sample(samples[0], streams[0]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tokens), "ns/event")
			if err := rw.Close(Round{Arm: Head}, nil, nil); err != nil {
				b.Fatal(err)
			}
		})
	}
}
