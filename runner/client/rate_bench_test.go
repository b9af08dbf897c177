package client

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// cpuTime is what this process has used, user and system.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func rawClient(tb testing.TB, address string) *Client {
	tb.Helper()
	c, err := New(Options{URL: "http://" + address, Model: "m", Limits: record.DefaultLimits(), Clock: record.NewClock()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

func encoded(tb testing.TB, c *Client, tokens int, stream bool) Request {
	tb.Helper()
	r, err := c.request(c.shortPrompt("hi", tokens), stream)
	if err != nil {
		tb.Fatal(err)
	}
	return *r
}

// BenchmarkAnswers is the highest rate of small whole answers over 32 connections, the server in its own process on the same
// cores. us/request is the client's CPU time alone.
func BenchmarkAnswers(b *testing.B) {
	const workers = 32
	c := rawClient(b, startServer(b, "answers"))
	one := encoded(b, c, 16, false)
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var taken atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime(b)
	for range workers {
		wg.Go(func() {
			release := make(chan record.Instant, 1)
			for taken.Add(1) <= int64(b.N) {
				r := one
				r.Sched = c.o.Clock.Now()
				release <- r.Sched
				if got, _ := c.Do(b.Context(), &r, release); got.Class != record.OK {
					b.Errorf("%s: %s", got.Class, got.Detail)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-us/request")
}

// BenchmarkStreams is what one stamped event costs the client, with one read per event: 400 streams of 100 events/s.
func BenchmarkStreams(b *testing.B) {
	const streams, events = 400, 300
	c := rawClient(b, startServer(b, "stream "+strconv.Itoa(events)+" 10ms"))
	one := encoded(b, c, events, true)
	one.want.planned = events
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var reads, seen atomic.Int64
	cpu, before := time.Duration(0), time.Time{}
	for b.Loop() {
		var wg sync.WaitGroup
		cpu, before = cpuTime(b), time.Now()
		reads.Store(0)
		seen.Store(0)
		for range streams {
			wg.Go(func() {
				release := make(chan record.Instant, 1)
				r := one
				r.Sched = c.o.Clock.Now()
				release <- r.Sched
				got, st := c.Do(b.Context(), &r, release)
				if got.Class != record.OK || len(st.T) != events {
					b.Errorf("%s: %s, %d events", got.Class, got.Detail, len(st.T))
				}
				reads.Add(int64(got.Reads))
				seen.Add(int64(got.Events))
			})
		}
		wg.Wait()
		cpu = cpuTime(b) - cpu
	}
	b.ReportMetric(float64(seen.Load())/time.Since(before).Seconds(), "events/s")
	b.ReportMetric(float64(seen.Load())/cpu.Seconds(), "events/cpu-s")
	b.ReportMetric(float64(seen.Load())/float64(reads.Load()), "events/read")
}

// BenchmarkMemory is the resident memory of a live stream, with as many live at once as the descriptors allow, at most
// 10,000, after each has had some of its events.
func BenchmarkMemory(b *testing.B) {
	ceiling, err := Descriptors()
	if err != nil {
		b.Fatal(err)
	}
	streams := min(10_000, ceiling)
	c := rawClient(b, startServer(b, "stream 9 1s"))
	one := encoded(b, c, 256, true)
	one.want.planned = 256
	for b.Loop() {
		debug.FreeOSMemory()
		before := resident(b)
		var live atomic.Int64
		var wg sync.WaitGroup
		start := c.o.Clock.Now()
		for i := range streams {
			wg.Go(func() {
				release := make(chan record.Instant, 1)
				r := one
				r.Sched = start + record.Instant(time.Duration(i)*3*time.Second/time.Duration(streams))
				r.Tap = func(prev, _ record.Instant) {
					if !prev.Reached() {
						live.Add(1)
					}
				}
				time.AfterFunc(c.o.Clock.Until(r.Sched), func() { release <- c.o.Clock.Now() })
				if got, _ := c.Do(b.Context(), &r, release); got.Class != record.OK {
					b.Errorf("%s: %s", got.Class, got.Detail)
				}
			})
		}
		time.Sleep(6 * time.Second)
		at := live.Load()
		after := resident(b)
		b.ReportMetric(float64(after-before)/1024/float64(at), "KiB/stream")
		b.ReportMetric(float64(at), "streams")
		wg.Wait()
	}
}

// resident is this process's memory in the kernel's eyes, in bytes.
func resident(tb testing.TB) int64 {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Skip("no /proc")
	}
	_, after, _ := bytes.Cut(status, []byte("VmRSS:"))
	kib, _, _ := bytes.Cut(bytes.TrimSpace(after), []byte(" "))
	n, err := strconv.ParseInt(string(kib), 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n << 10
}
