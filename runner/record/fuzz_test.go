package record

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// seed adds a text, its half and some spoilt forms of it. Seeds are short: the fuzzer spends its time on shortening long
// ones.
func seed(f *testing.F, text []byte) {
	f.Helper()
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add(bytes.ReplaceAll(text, []byte("1"), []byte("-9e18")))
	f.Add([]byte("null\n"))
}

// What is accepted must be judged, saved and read again without a panic or a change.
func FuzzRun(f *testing.F) {
	run := goldenRun(smallRound(0, Base), 1)
	run.Schema, run.Environment, run.Declared.Order = Schema, Environment{}, run.Declared.Order[:2]
	run.Rounds = []Round{{Slot: 0, Arm: Base, State: RoundPartial}}
	text, err := encode(run)
	if err != nil {
		f.Fatal(err)
	}
	seed(f, text)
	f.Add([]byte(`{"schema":1,"id":"x","kind":"load","status":"running","rounds":[{"slot":0,"arm":"head","state":"partial","metrics":{"ttft_p50":{"value":null,"infinite":true}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		run, err := readRun(bytes.NewReader(data))
		if err != nil {
			return
		}
		if run.Schema != Schema || len(run.Rounds) > maxRounds {
			t.Fatalf("schema %d, %d rounds", run.Schema, len(run.Rounds))
		}
		once, err := encode(run)
		if err != nil {
			// Years outside 0 to 9999 are read and cannot be written.
			return
		}
		again, err := readRun(bytes.NewReader(once))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		twice, err := encode(again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("it changed in rewriting: %v", err)
		}
	})
}

// Any accepted samples can be summed up, and their classes add up.
func FuzzSamples(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "small", "rounds", "00-base", samplesFile))
	if err != nil {
		f.Fatal(err)
	}
	seed(f, text[:1500])
	f.Add([]byte(`{"v":1,"seq":0,"class":"ok","phase":"measure","sched":5,"first":9,"last":20,"end":30,"n_out":4,"tokens_from":"usage"}` + "\n" + `{"v"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var samples []Sample
		if err := lines(bytes.NewReader(data), checkSample, func(s Sample) bool {
			samples = append(samples, s)
			return len(samples) < 1000
		}); err != nil && len(samples) == 0 {
			return
		}
		for i := range samples {
			if err := checkSample(&samples[i]); err != nil {
				t.Fatal(err)
			}
		}
		sum := Summarise(samples, nil, Interval{M0: 1, M1: latestInstant, SLO: map[string]float64{"ttft_p99": 1, "tpot_p50": 1}})
		n := 0
		for _, k := range sum.Counts.Classes {
			n += k
		}
		if n != sum.Counts.Scheduled || len(sum.Metrics) != len(Keys()) {
			t.Fatalf("%d of %d accounted for, %d metrics", n, sum.Counts.Scheduled, len(sum.Metrics))
		}
		Windows(samples, nil, 1, second(3))
	})
}

// Any accepted streams belong to some answer and can be summed up with it.
func FuzzStreams(f *testing.F) {
	f.Add([]byte(`{"seq":0,"t":[0,16135000,16390000],"n":[1,2,0],"r":[1,0,1]}`+"\n"), 3)
	f.Add([]byte(`{"seq":0,"t":[]}`+"\n"+`{"seq":1}`+"\n"), 0)
	f.Add([]byte(`{"seq":1,"t":[0,86400000000000]}`+"\n"), 1<<30)
	f.Fuzz(func(t *testing.T, data []byte, tokens int) {
		var streams []Stream
		var samples []Sample
		_ = lines(bytes.NewReader(data), checkStream, func(st Stream) bool {
			s := due(st.Seq, 0)
			s.Class, s.First, s.Last, s.End, s.TokensFrom = OK, 2, 5, 9, FromUsage
			if tokens >= 0 && tokens <= maxCount {
				s.NOut = &tokens
			}
			streams, samples = append(streams, st), append(samples, s)
			return len(streams) < 100
		})
		in := Interval{M0: 1, M1: second(2)}
		sum := Summarise(samples, streams, in)
		for key, m := range sum.Metrics {
			if v, ok := m.Get(); ok && v < 0 {
				t.Fatalf("%s is %v", key, v)
			}
		}
		for _, w := range Windows(samples, streams, in.M0, in.M1) {
			if v, ok := w.OutTokens.Get(); ok && v < 0 {
				t.Fatalf("%v tokens", v)
			}
		}
	})
}
