package record

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
)

func TestWindowsCountWhatHappenedInThem(t *testing.T) {
	f := fabric{requests: 300, rate: 30, m0: second(5), ttft: 200, gap: 15, tokens: 20, failEvery: 50}
	samples, streams := f.make()
	in := f.interval(nil)
	windows := Windows(samples, streams, in.M0, in.M1)
	if len(windows) != 10 {
		t.Fatalf("%d windows, want 10", len(windows))
	}
	scheduled, ok, failed, tokens := 0, 0, 0, 0.0
	for i, w := range windows {
		if w.T != in.M0+second(i) || w.Length != time.Second {
			t.Errorf("window %d begins at %d and lasts %v", i, w.T, w.Length)
		}
		scheduled += w.Scheduled
		ok += w.OK
		for _, n := range w.Failed {
			failed += n
		}
		v, there := w.OutTokens.Get()
		if !there {
			t.Errorf("window %d: out tokens %v", i, w.OutTokens)
		}
		tokens += v
		wantFlight(t, samples, w)
	}
	endedOK, endedFailed := 0, 0
	for _, s := range samples {
		if s.End < in.M1 && s.Class == OK {
			endedOK++
		} else if s.End < in.M1 {
			endedFailed++
		}
	}
	if scheduled != 300 || ok != endedOK || failed != endedFailed {
		t.Errorf("%d scheduled, %d ok, %d failed; want 300, %d, %d", scheduled, ok, failed, endedOK, endedFailed)
	}
	if rate, _ := Summarise(samples, streams, in).Metrics["output_tps_all"].Get(); math.Abs(rate-tokens/10) > 1e-9 {
		t.Errorf("%v tokens a second in the windows, %v in the summary", tokens/10, rate)
	}
}

// wantFlight compares the sweep with a look at every millisecond.
func wantFlight(t *testing.T, samples []Sample, w Window) {
	t.Helper()
	sum, most := 0, 0
	for k := range 1000 {
		at, n := w.T+Instant(k)*Instant(ms), 0
		for _, s := range samples {
			if s.Wrote <= at && at < s.End {
				n++
			}
		}
		sum += n
		most = max(most, n)
	}
	if math.Abs(float64(sum)/1000-w.InFlightMean) > 0.1 || w.InFlightMax < most || w.InFlightMax > most+1 {
		t.Errorf("window at %d: in flight %v, max %d; sampled %v, %d", w.T, w.InFlightMean, w.InFlightMax, float64(sum)/1000, most)
	}
}

// A request that is sent at the instant another ends does not overlap it.
func TestBackToBackRequestsDoNotOverlap(t *testing.T) {
	a, _ := answer(0, 100*ms)
	b, _ := answer(1, 300*ms)
	b.Wrote = a.End
	if w := Windows([]Sample{a, b}, nil, 1, 1+second(1)); w[0].InFlightMax != 1 {
		t.Errorf("%d in flight, want 1", w[0].InFlightMax)
	}
}

func TestLastWindowMayBeShort(t *testing.T) {
	s, st := answer(0, 100*ms, 900*ms, 300*ms)
	windows := Windows([]Sample{s}, []Stream{st}, 1, 1+Instant(1500*ms))
	if len(windows) != 2 || windows[1].Length != 500*ms {
		t.Fatalf("windows %+v", windows)
	}
	if v, _ := windows[1].OutTokens.Get(); v != 2 {
		t.Errorf("%v tokens in the last window, want 2", v)
	}
	if got := windows[1].InFlightMean; math.Abs(got-0.6) > 0.01 {
		t.Errorf("in flight %v, want 0.6 of half a second", got)
	}
	if w := Windows(nil, nil, 5, 5); w != nil {
		t.Errorf("an empty interval has windows: %v", w)
	}
}

// Without counts per event the total is spread by largest remainder: whole tokens, none lost, sizes at most one apart.
func TestShare(t *testing.T) {
	for total := range 60 {
		for parts := 1; parts < 25; parts++ {
			var sizes []int
			sum := 0
			for i := range parts {
				sizes = append(sizes, share(total, parts, i))
				sum += sizes[i]
			}
			if sum != total || slices.Max(sizes)-slices.Min(sizes) > 1 {
				t.Fatalf("%d over %d parts: %v", total, parts, sizes)
			}
		}
	}
}

func TestSpreadTokensFollowTheirEvents(t *testing.T) {
	// 10 tokens in 4 events, two of them in the second second.
	s, st := answer(0, 100*ms, 100*ms, 900*ms, 100*ms)
	s.NOut = new(10)
	windows := Windows([]Sample{s}, []Stream{st}, 1, 1+second(2))
	a, _ := windows[0].OutTokens.Get()
	b, _ := windows[1].OutTokens.Get()
	if a != 5 || b != 5 {
		t.Errorf("%v and %v tokens, want 5 and 5", a, b)
	}
	if windows[0].ITL.N != 0 {
		t.Errorf("%d token gaps although tokens per event are unknown", windows[0].ITL.N)
	}
}

func TestUnknownTokensWithholdTheSeries(t *testing.T) {
	s, st := answer(0, 100*ms, 100*ms)
	s.NOut, s.NIn, s.TokensFrom = nil, nil, Estimated
	w := Windows([]Sample{s}, []Stream{st}, 1, 1+second(1))[0]
	if w.OutTokens.Reason() != "token counts are estimated" || w.InTokens.Reason() != "prompt token counts unknown" {
		t.Errorf("out %v, in %v", w.OutTokens, w.InTokens)
	}
	series := newSeries(Interval{M0: 1, M1: 1 + second(2)})
	series.out = []int{3, 4}
	if series.plausible(9) || !series.plausible(7) {
		t.Error("a series whose largest second lies under the mean must be withheld")
	}
}

// The HDR histograms of all seconds, joined, agree with the nearest rank over the samples themselves within 0.1 %.
func TestHistogramsAgreeWithTheSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, scale := range []float64{2e3, 3e6, 4e8, 9e10} {
		var parts []Histogram
		var all []float64
		encoder := newHDREncoder()
		for range 5 {
			var values []point
			for range 400 {
				v := math.Floor(scale * math.Exp(r.NormFloat64()))
				values = append(values, point{value: v, weight: 1})
				all = append(all, v/1e6)
			}
			parts = append(parts, histogram(values, encoder))
		}
		slices.Sort(all)
		h, err := Join(parts)
		must(t, err)
		hdr, err := decodeHDR(h.HDR)
		must(t, err)
		if h.N != len(all) {
			t.Fatalf("%d values joined, want %d", h.N, len(all))
		}
		for _, q := range []float64{0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1} {
			want, got := Percentile(all, q), float64(hdr.ValueAtQuantile(100*q))/1e6
			if math.Abs(got-want) > 0.001*want {
				t.Errorf("scale %g, q %v: HDR %v, nearest rank %v", scale, q, got, want)
			}
		}
		p99, _ := h.P99.Get()
		if want := Percentile(all, 0.99); math.Abs(p99-want) > 0.001*want {
			t.Errorf("joined p99 %v, want %v", p99, want)
		}
	}
}

func TestHistogramSaysWhatItDropped(t *testing.T) {
	h := histogram([]point{{value: 5e6, weight: 1}, {value: 2 * hdrHighest, weight: 3}}, newHDREncoder())
	if h.N != 1 || h.Dropped != 3 {
		t.Errorf("%d values, %d dropped; want 1 and 3", h.N, h.Dropped)
	}
	sum, err := Join([]Histogram{h, h, {}})
	must(t, err)
	if sum.N != 2 || sum.Dropped != 6 {
		t.Errorf("joined %+v", sum)
	}
	if none := histogram(nil, newHDREncoder()); none.P50.Reason() == "" || none.HDR != "" {
		t.Errorf("nothing is %+v", none)
	}
	if none, err := Join(nil); err != nil || none.N != 0 || none.P99.Reason() == "" {
		t.Errorf("nothing joined is %+v, %v", none, err)
	}
	wide := hdrhistogram.New(1, 4*hdrHighest, hdrDigits)
	must(t, wide.RecordValue(3*hdrHighest))
	if _, err := Join([]Histogram{{HDR: encodeHDR(wide)}}); err == nil || !strings.Contains(err.Error(), "1 value(s)") {
		t.Errorf("a value of three hours was lost in silence: %v", err)
	}
	if _, err := Join([]Histogram{{HDR: "no histogram"}}); err == nil {
		t.Error("a text that is no histogram was joined")
	}
}

func TestWindowsArePure(t *testing.T) {
	f := fabric{requests: 100, rate: 50, m0: 1, ttft: 100, gap: 10, tokens: 10}
	samples, streams := f.make()
	in := f.interval(nil)
	if diff := cmp.Diff(Windows(samples, streams, in.M0, in.M1), Windows(samples, streams, in.M0, in.M1)); diff != "" {
		t.Error(diff)
	}
}
