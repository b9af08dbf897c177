package record

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a round takes on disk, recorded as a runner does it: flushed once a second, an hour into the run, ten streams of
// about 100 tokens begun each second. The gaps of a real server scatter less than the 20 % of the hardest case.
func TestSizeOnDisk(t *testing.T) {
	const perSample, perEvent = 700, 2.5
	for _, tt := range []struct {
		name        string
		gap, jitter float64
		change      func(*Sample)
	}{
		{"10 ms, 8 %", 10, 0.08, func(*Sample) {}},
		{"25 ms, 8 %", 25, 0.08, func(*Sample) {}},
		{"30 ms, 20 %", 30, 0.20, func(*Sample) {}},
		{"server times instead of a request id", 30, 0.08, func(s *Sample) {
			s.RequestID = ""
			s.Server = ServerTimes{Prompt: new(int64(213_456_789)), Decode: new(int64(1_813_456_789)), Load: new(int64(2_345_678))}
		}},
		{"a failed answer with a flag", 30, 0.08, func(s *Sample) {
			s.Class, s.Detail, s.Flags = Timeout, "total", []string{"no_finish_reason"}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fabric{requests: 600, rate: 10, m0: second(3600), ttft: 200, gap: tt.gap, jitter: tt.jitter, tokens: 100, cached: 0.3}
			samples, streams := f.make()
			dir := filepath.Join(t.TempDir(), "round")
			rw, err := newRoundWriter(openFile, dir)
			must(t, err)
			events := 0
			for i := range samples {
				tt.change(&samples[i])
				must(t, rw.Sample(samples[i], streams[i]))
				events += len(streams[i].T)
				if i%10 == 9 {
					must(t, rw.Flush())
				}
			}
			must(t, rw.Close(Round{Arm: Head, State: RoundComplete}, nil, nil))
			size := func(name string, per int) float64 {
				info, err := os.Stat(filepath.Join(dir, name))
				must(t, err)
				return float64(info.Size()) / float64(per)
			}
			lines, streamed := size(samplesFile, len(samples)), size(eventsFile, events)
			t.Logf("%.0f B a request, %.2f B an event", lines, streamed)
			if lines > perSample || streamed > perEvent {
				t.Errorf("%.0f B a request, %.2f B an event; want at most %d and %v", lines, streamed, perSample, perEvent)
			}
		})
	}
}

// What is written is what is read, to the microsecond, whatever the gaps; offsets never drift.
func TestStreamsRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 31))
	var e streamEncoder
	for range 500 {
		s := Stream{Seq: r.IntN(1e6)}
		if n := r.IntN(50); n > 0 {
			s.T = make([]int64, n)
			for i := 1; i < n; i++ {
				s.T[i] = r.Int64N([]int64{1, 500, 1500, 40e6, 9e9}[r.IntN(5)])
			}
			if r.IntN(2) == 0 {
				s.N, s.R = make([]int, n), make([]int, n)
				for i := range n {
					s.N[i], s.R[i] = r.IntN(5), r.IntN(2)
				}
			}
		}
		var once, twice Stream
		line := bytes.Clone(e.encode(s))
		must(t, json.Unmarshal(line, &once))
		must(t, json.Unmarshal(e.encode(once), &twice))
		if diff := cmp.Diff(once, twice); diff != "" {
			t.Fatalf("writing what was read changes it:\n%s", diff)
		}
		if diff := cmp.Diff([]any{s.Seq, s.N, s.R, len(s.T)}, []any{once.Seq, once.N, once.R, len(once.T)}); diff != "" {
			t.Fatal(diff)
		}
		var want, got int64
		for i := range s.T {
			want, got = want+s.T[i], got+once.T[i]
			if got != onGrid(want) {
				t.Fatalf("event %d at %d ns, want %d", i, got, onGrid(want))
			}
		}
		must(t, checkStream(&once))
	}
}

// Streams of earlier versions have nanoseconds in t; a line cannot have both, nor a pace beyond any stream.
func TestStreamForms(t *testing.T) {
	var s Stream
	must(t, json.Unmarshal([]byte(`{"seq":7,"t":[0,10000000,9000000],"n":[1,2,3]}`), &s))
	if diff := cmp.Diff(Stream{Seq: 7, T: []int64{0, 10e6, 9e6}, N: []int{1, 2, 3}}, s); diff != "" {
		t.Error(diff)
	}
	must(t, json.Unmarshal([]byte(`{"seq":7,"gap_ns":10000000,"d":[0,0,-1000]}`), &s))
	if diff := cmp.Diff(Stream{Seq: 7, T: []int64{0, 10e6, 9e6}}, s); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{
		`{"seq":1,"t":[0,1],"gap_ns":1000,"d":[0,1]}`, `{"seq":1,"gap_ns":-1,"d":[0]}`, `{"seq":1,"gap_ns":9000000000000000000,"d":[0]}`,
		`{"seq":1,"gap_ns":1,"d":[0,9000000000000000000]}`, `{"seq":1,"d":[0,-9000000000000000000]}`, `{"seq":1,"d":"x"}`,
	} {
		if err := json.Unmarshal([]byte(bad), &s); err == nil {
			t.Errorf("%s was read as %+v", bad, s)
		}
	}
	negative := `{"seq":1,"gap_ns":1000,"d":[0,-2]}`
	err := lines(strings.NewReader(negative+"\n"), checkStream, func(Stream) bool { return true })
	if err == nil || !strings.Contains(err.Error(), "event 1") {
		t.Errorf("an event before its predecessor: %v", err)
	}
}

// An event costs no allocation: what a request of 1,000 events allocates is what one of 10 does.
func TestEventsDoNotAllocate(t *testing.T) {
	allocs := map[int]float64{}
	for _, tokens := range []int{10, 1000} {
		samples, streams := fabric{requests: 1, rate: 10, m0: 1, ttft: 200, gap: 30, tokens: tokens, even: true}.make()
		rw, err := newRoundWriter(openFile, filepath.Join(t.TempDir(), "round"))
		must(t, err)
		allocs[tokens] = testing.AllocsPerRun(200, func() { must(t, rw.Sample(samples[0], streams[0])) })
		must(t, rw.Close(Round{Arm: Head}, nil, nil))
	}
	if allocs[1000] > allocs[10]+1 {
		t.Errorf("%v allocations with 1,000 events, %v with 10", allocs[1000], allocs[10])
	}
	_, streams := fabric{requests: 20, rate: 10, m0: 1, ttft: 200, gap: 30, tokens: 100}.make()
	var e streamEncoder
	if n := testing.AllocsPerRun(50, func() {
		for _, st := range streams {
			_, _ = io.Discard.Write(e.encode(st))
		}
	}); n > 0 {
		t.Errorf("the encoder allocates %v times", n)
	}
}
