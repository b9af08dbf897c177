package steady

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// declared is the default rule: 5 windows of 10 s within 5 %, trend 3 % over 10, cap 10 min.
func declared() record.Warmup {
	return record.Warmup{
		Window: 10 * time.Second, Windows: 5, Band: 0.05, MaxErrorRate: 0.001, Cap: 10 * time.Minute, Trend: 0.03, TrendWindows: 10,
	}
}

func window(x float64) record.SteadyWindow {
	return record.SteadyWindow{Delivered: record.Of(x), Latency: record.Of(20), Requests: 100}
}

// feed observes windows until the rule decides, and returns the decision.
func feed(d *Detector, windows ...record.SteadyWindow) Decision {
	for _, w := range windows {
		if got := d.Observe(w); got != Continue {
			return got
		}
	}
	return Continue
}

// Worked example X11 of the verdict page: met at window 8, confirmed at window 13.
func TestWorkedExample(t *testing.T) {
	signal := []float64{40, 70, 92, 99, 101, 100, 98, 102, 100, 99, 101, 100, 100}
	for i, want := range map[int]float64{10: 0.476, 11: 0.189, 12: 0.044, 13: 0.004} {
		if got := Trend(signal[i-10 : i]); math.Abs(got-want) > 0.0006 {
			t.Errorf("trend at window %d = %.4f, want %.3f", i, got, want)
		}
	}
	d := New(declared(), 0)
	for i, x := range signal {
		got := d.Observe(window(x))
		if want := i == len(signal)-1; (got == Confirmed) != want {
			t.Fatalf("window %d: decision %v", i+1, got)
		}
	}
	r := d.Report()
	if r.MetAt != 8 || r.ConfirmedAt != 13 || r.Windows != 13 || r.End != "confirmed" {
		t.Errorf("report %+v, want met at 8 and confirmed at 13", r)
	}
}

func TestDecisions(t *testing.T) {
	failing := func(x float64) record.SteadyWindow { w := window(x); w.Failed = 1; return w }
	gap := window(100)
	gap.Latency = record.NA("no tokens")
	repeat := func(n int, w record.SteadyWindow) []record.SteadyWindow {
		ws := make([]record.SteadyWindow, n)
		for i := range ws {
			ws[i] = w
		}
		return ws
	}
	tests := []struct {
		name    string
		rule    func(*record.Warmup)
		windows []record.SteadyWindow
		want    Decision
		seen    int
	}{
		{"level from the start", nil, repeat(30, window(100)), Confirmed, 10},
		{"shortest warm-up raised", func(r *record.Warmup) { r.Min = 150 * time.Second }, repeat(30, window(100)), Confirmed, 15},
		{"failures never stop", nil, repeat(40, failing(100)), WithFailures, 20},
		{"failures never stop, one window is odd", nil, append(append(repeat(12, failing(100)), failing(120)), repeat(40, failing(100))...), WithFailures, 23},
		{"failures stop", nil, append(repeat(12, failing(100)), repeat(10, window(100))...), Confirmed, 17},
		{"signal missing", nil, repeat(60, gap), Capped, 60},
		{"signal back again", nil, append(repeat(3, gap), repeat(20, window(100))...), Confirmed, 13},
		{"delivers nothing", nil, repeat(60, window(0)), Capped, 60},
		{"too few windows", nil, repeat(9, window(100)), Continue, 9},
		{"cap of two minutes", func(r *record.Warmup) { r.Cap = 2 * time.Minute }, alternate(60, 80, 120), Capped, 12},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rule := declared()
			if tt.rule != nil {
				tt.rule(&rule)
			}
			d := New(rule, 0)
			if got := feed(d, tt.windows...); got != tt.want || d.Report().Windows != tt.seen {
				t.Errorf("decision %v after %d windows, want %v after %d", got, d.Report().Windows, tt.want, tt.seen)
			}
		})
	}
}

func alternate(n int, a, b float64) []record.SteadyWindow {
	ws := make([]record.SteadyWindow, n)
	for i := range ws {
		ws[i] = window(a)
		if i%2 == 1 {
			ws[i] = window(b)
		}
	}
	return ws
}

// play gives a detector the windows of a signal until it decides or they are over.
func play(d *Detector, n int, signal func(j int) float64) Decision {
	for j := range n {
		if got := d.Observe(window(signal(j))); got != Continue {
			return got
		}
	}
	return Continue
}

// On a ramp from 60 to 100 % with 1.5 % noise the declared rule alone starts with 2.4 / 7.8 / 18 / 32 % still missing at time
// constants of 30 / 60 / 120 / 240 s, the confirmed one with 0.2 / 0.9 / 3.1 / 8.2 %: what the last window seen still lacks.
func TestRamp(t *testing.T) {
	tests := []struct{ constant, met, confirmed float64 }{{30, 2.4, 0.2}, {60, 7.8, 0.9}, {120, 18, 3.1}, {240, 32, 8.2}}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.constant), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, uint64(tt.constant)))
			var met, confirmed float64
			const sessions = 4000
			for range sessions {
				d := New(declared(), 0)
				if got := play(d, 60, func(j int) float64 {
					return (1 - 0.4*math.Exp(-(float64(j)+0.5)*10/tt.constant)) * (1 + rng.NormFloat64()*0.015)
				}); got != Confirmed {
					t.Fatalf("decision %v on a ramp: %+v", got, d.Report())
				}
				missing := func(window int) float64 { return 40 * math.Exp(-(float64(window)-0.5)*10/tt.constant) }
				met += missing(d.Report().MetAt) / sessions
				confirmed += missing(d.Report().ConfirmedAt) / sessions
			}
			if math.Abs(met-tt.met) > 0.02*tt.met+0.05 || math.Abs(confirmed-tt.confirmed) > 0.02*tt.confirmed+0.06 {
				t.Errorf("missing %.2f %% when met, %.2f %% when confirmed; want %v and %v", met, confirmed, tt.met, tt.confirmed)
			}
		})
	}
}

// Stationary noise of 1.5 / 2.42 / 3 %: how often the declared rule is met in the first windows that could; all are confirmed
// within 30 windows.
func TestStationaryNoise(t *testing.T) {
	for _, tt := range []struct{ sd, first float64 }{{0.015, 99.8}, {0.0242, 90.2}, {0.03, 75.6}} {
		t.Run(fmt.Sprint(tt.sd), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(2, uint64(1e4*tt.sd)))
			const sessions = 4000
			first, confirmed := 0, 0
			for range sessions {
				d := New(declared(), 0)
				if play(d, 30, func(int) float64 { return 1 + tt.sd*rng.NormFloat64() }) == Confirmed {
					confirmed++
				}
				if d.Report().MetAt == declared().Windows {
					first++
				}
			}
			p := tt.first / 100
			if got := 100 * float64(first) / sessions; math.Abs(got-tt.first) > 400*math.Sqrt(p*(1-p)/sessions)+0.3 {
				t.Errorf("met at the first chance %.1f %%, want %v", got, tt.first)
			}
			if got := 100 * float64(confirmed) / sessions; got < 99.7 {
				t.Errorf("confirmed within 30 windows %.2f %%, want 100", got)
			}
		})
	}
}

// The largest noise with which five windows meet a band of 5 % nine times in ten.
func TestAttainable(t *testing.T) {
	if got := 0.05 / attainable(0.05, 5) / math.Sqrt(0.8); math.Abs(got-2.3107) > 5e-5 {
		t.Errorf("z = %.4f, want 2.3107", got)
	}
	if got := attainable(0.05, 5); math.Abs(got-0.0242) > 5e-5 {
		t.Errorf("attainable up to %.4f, want 0.0242", got)
	}
}

// zigzag alternates around 1 with a standard deviation v around its line over ten windows.
func zigzag(v float64) func(int) float64 {
	a := v * math.Sqrt(0.8) / math.Sqrt(1-3.0/99) // the line through ten takes 3/99 of the squares
	return func(j int) float64 { return 1 + a*float64(1-2*(j%2)) }
}

// spikes is a signal of which every fifth window stands out, so that five in a row never agree, with a standard deviation v
// around its line over ten windows.
func spikes(v float64) func(int) float64 {
	at := func(j int, b float64) float64 {
		if j%5 == 0 {
			return 1 + 4*b
		}
		return 1 - b
	}
	xs := make([]float64, 10)
	for i := range xs {
		xs[i] = at(i, 0.01)
	}
	unit, _ := noise(xs)
	return func(j int) float64 { return at(j, 0.01*v/unit) }
}

func TestNoise(t *testing.T) {
	xs, line := make([]float64, 10), make([]float64, 10)
	for j := range xs {
		xs[j], line[j] = 7*zigzag(0.03)(j), 5+0.3*float64(j)
	}
	if v, ok := noise(xs); !ok || math.Abs(v-0.03) > 1e-9 {
		t.Errorf("noise %v, want 0.03 of the mean", v)
	}
	if v, ok := noise(line); !ok || v > 1e-9 {
		t.Errorf("a straight line has noise %v", v)
	}
	for _, none := range [][]float64{nil, {1, 2}, {0, 0, 0}} {
		if _, ok := noise(none); ok {
			t.Errorf("%v has a noise", none)
		}
	}
}

// Windows too noisy for the band are joined, as few as will do, and the choice stands from window 15 on.
func TestJoinedWindows(t *testing.T) {
	tests := []struct {
		v            float64
		joined       int
		unattainable bool
	}{
		{0.060, 0, true},
		{0.0594, 0, true},
		{0.0592, 6, false},
		{0.0485, 5, false},
		{0.0483, 4, false},
		{0.0420, 4, false},
		{0.0418, 3, false},
	}
	for _, tt := range tests {
		d := New(declared(), 0)
		for j := range 15 {
			if d.Report().Joined != 1 || d.Report().Unattainable {
				t.Fatalf("noise %v: chosen at window %d: %+v", tt.v, j, d.Report())
			}
			d.Observe(window(spikes(tt.v)(j)))
		}
		r := d.Report()
		if x, ok := r.Noise.Finite(); !ok || math.Abs(x-tt.v) > 1e-4 || r.Unattainable != tt.unattainable || r.Joined != max(1, tt.joined) {
			t.Errorf("noise %v: %+v, want %d joined, unattainable %v", tt.v, r, tt.joined, tt.unattainable)
		}
	}
}

// What the first warm-up chose is applied from the first window of the others, and the windows count as they came.
func TestJoinedFromTheStart(t *testing.T) {
	d := New(declared(), 3)
	rng := rand.New(rand.NewPCG(3, 4))
	got := play(d, 60, func(int) float64 { return 1 + 0.03*rng.NormFloat64() })
	r := d.Report()
	if got != Confirmed || r.MetAt%3 != 0 || r.MetAt < 15 || r.ConfirmedAt < 30 || r.ConfirmedAt%3 != 0 || r.Joined != 3 {
		t.Errorf("decision %v, report %+v", got, r)
	}
	d = New(declared(), 1)
	if play(d, 20, spikes(0.06)); d.Report().Joined != 1 || d.Report().Unattainable {
		t.Errorf("chosen again: %+v", d.Report())
	}
	// Failures in any of the joined windows count.
	d = New(declared(), 2)
	for j := range 40 {
		w := window(100)
		w.Failed = j % 2
		if got = d.Observe(w); got != Continue {
			break
		}
	}
	if got != WithFailures || d.Report().Windows != 30 {
		t.Errorf("decision %v after %d windows, want started with failures after 30", got, d.Report().Windows)
	}
}

// On a slow ramp under noise beyond the plain rule, single windows agree by luck long before the service is there; joined ones
// wait for it.
func TestJoiningWaitsForTheRamp(t *testing.T) {
	const sessions, constant = 500, 120.0
	late := func(joined int) (missing float64) {
		rng := rand.New(rand.NewPCG(5, 6))
		n := 0.0
		for range sessions {
			d := New(declared(), joined)
			if play(d, 60, func(j int) float64 {
				return (1 - 0.4*math.Exp(-(float64(j)+0.5)*10/constant)) * (1 + 0.04*rng.NormFloat64())
			}) == Confirmed {
				missing += 40 * math.Exp(-(float64(d.Report().Windows)-0.5)*10/constant)
				n++
			}
		}
		return missing / n
	}
	if plain, joined := late(1), late(3); joined > 0.8*plain {
		t.Errorf("missing when confirmed: %.2f %% with windows joined, %.2f %% without", joined, plain)
	}
}

// A signal that is missing puts the choice off.
func TestJoinWaitsForASignal(t *testing.T) {
	d := New(declared(), 0)
	for j := range 20 {
		w := window(spikes(0.055)(j))
		if j < 8 {
			w.Latency = record.NA("no tokens")
		}
		d.Observe(w)
		if want := j >= 17; (d.Report().Joined == 6) != want {
			t.Fatalf("window %d: %+v", j+1, d.Report())
		}
	}
}

// A warm-up that goes on says why, from its first chance on.
func TestLacks(t *testing.T) {
	repeat := func(n int, w record.SteadyWindow) []record.SteadyWindow {
		ws := make([]record.SteadyWindow, n)
		for i := range ws {
			ws[i] = w
		}
		return ws
	}
	ramp := make([]record.SteadyWindow, 12)
	for i := range ramp {
		ramp[i] = window(100 + float64(i))
	}
	slower := ramp[:0:0]
	for i := range 12 {
		w := window(100)
		w.Latency = record.Of(20 + 0.2*float64(i))
		slower = append(slower, w)
	}
	gap, failing := window(100), window(100)
	gap.Latency, failing.Failed = record.NA("no tokens"), 1
	for name, tt := range map[string]struct {
		windows []record.SteadyWindow
		want    string
	}{
		"no chance yet": {alternate(9, 80, 120), ""},
		"too wide":      {alternate(10, 80, 120), "output varies by 23.1 % (at most 5 %)"},
		"a trend":       {ramp, "output still moves by 8.5 % (at most 3 %)"},
		"slower":        {slower, "latency still moves by 8.5 % (at most 3 %)"},
		"no signal":     {repeat(10, gap), "latency is missing in a window"},
		"failures":      {repeat(10, failing), "requests fail"},
		"over":          {repeat(10, window(100)), ""},
		"given up":      {alternate(60, 80, 120), ""},
	} {
		d := New(declared(), 1)
		feed(d, tt.windows...)
		if got := d.Lacks(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
