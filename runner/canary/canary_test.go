package canary

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// serve runs the canary's stream in this process.
func serve(t *testing.T) (url string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l) }()
	stop = func() {
		if cancel(); done != nil {
			if err := <-done; err != nil {
				t.Errorf("serve: %v", err)
			}
			done = nil
		}
	}
	t.Cleanup(func() { stop() })
	return "http://" + l.Addr().String(), stop
}

func TestHearsEveryEvent(t *testing.T) {
	url, _ := serve(t)
	clock := record.NewClock()
	stop, err := Listen(t.Context(), url, clock)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	got := stop()
	p50, ok := got.P50.Finite()
	worst, _ := got.Max.Finite()
	// Ten events are due; on a busy machine fewer come. A stamp cannot lie before the write it tells of, but for the
	// join of the clocks.
	if !ok || got.Events < 2 || got.Events > 12 || p50 < -0.01 || worst < p50 || p50 > 500 {
		t.Errorf("heard %+v", got)
	}
	t.Logf("%d events, late p50 %.3f ms, max %.3f ms", got.Events, p50, worst)
}

// A reader that stands still reads late, and the canary says by how much.
func TestLatenessIsSeen(t *testing.T) {
	clock := record.NewClock()
	zero, err := join(clock)
	if err != nil {
		t.Fatal(err)
	}
	first := clock.Now()
	wrote := zero + int64(first)
	text := ""
	for i, late := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 30 * time.Millisecond} {
		text += itoa(wrote+int64(i)*int64(Every)-int64(late)) + " "
	}
	got := report(record.Sample{First: first}, client.Trace{
		Choices: []client.Choice{{Text: text}}, Stream: record.Stream{T: []int64{0, int64(Every), int64(Every)}},
	}, zero, true)
	want := map[string][2]float64{"p50": {2, get(t, got.P50)}, "p99": {30, get(t, got.P99)}, "max": {30, get(t, got.Max)}}
	for name, pair := range want {
		if d := pair[0] - pair[1]; d > 1e-6 || d < -1e-6 {
			t.Errorf("%s: %v ms late, want %v", name, pair[1], pair[0])
		}
	}
	if got.Events != 3 {
		t.Errorf("%d events", got.Events)
	}
}

func itoa(n int64) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

func get(t *testing.T, v record.Value) float64 {
	t.Helper()
	x, ok := v.Finite()
	if !ok {
		t.Fatalf("no number: %s", v.Reason())
	}
	return x
}

func TestSilenceHasAReason(t *testing.T) {
	t.Run("nobody there", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		url := "http://" + l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		silent(t, url, func() {}, "refused")
	})
	t.Run("it dies", func(t *testing.T) {
		url, kill := serve(t)
		silent(t, url, kill, "broke after")
	})
	t.Run("other numbers", func(t *testing.T) {
		trace := client.Trace{Choices: []client.Choice{{Text: "1 2 "}}, Stream: record.Stream{T: []int64{0}}}
		if got := report(record.Sample{First: 1}, trace, 0, true); got.P99.Reason() != "the canary's events and stamps differ in number" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("not a number", func(t *testing.T) {
		trace := client.Trace{Choices: []client.Choice{{Text: "x "}}, Stream: record.Stream{T: []int64{0}}}
		if got := report(record.Sample{First: 1}, trace, 0, true); !strings.Contains(got.P99.Reason(), "no number") {
			t.Errorf("%+v", got)
		}
	})
}

// silent listens, does what spoils it, and wants a report without numbers that says why.
func silent(t *testing.T, url string, spoil func(), says string) {
	t.Helper()
	stop, err := Listen(t.Context(), url, record.NewClock())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	spoil()
	time.Sleep(200 * time.Millisecond)
	got := stop()
	if _, ok := got.P99.Get(); ok || !strings.Contains(got.P99.Reason(), says) {
		t.Errorf("heard %+v; want no number and a reason with %q", got, says)
	}
}

func TestJoinIsNarrow(t *testing.T) {
	clock := record.NewClock()
	zero, err := join(clock)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	before := clock.Now()
	now, err := monotonic()
	if err != nil {
		t.Fatal(err)
	}
	after := clock.Now()
	// The joined clock must agree with the kernel's between two readings of our own, but for the join's own width.
	slack := record.Instant(100 * time.Microsecond)
	if at := record.Instant(now - zero); at < before-slack || at > after+slack {
		t.Errorf("the kernel's %d lies outside of %d to %d", at, before, after)
	}
}
