package steady

import (
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
	d := New(declared())
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
			d := New(rule)
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

// On a ramp from 60 to 100 % with 1.5 % noise the declared rule alone starts with 2.4 / 7.8 / 18 % still missing at time
// constants 30 / 60 / 120 s, the confirmed one with 0.2 / 0.9 / 3.1 %.
func TestRamp(t *testing.T) {
	tests := []struct{ constant, met, confirmed float64 }{{30, 2.4, 0.2}, {60, 7.8, 0.9}, {120, 18, 3.1}}
	for _, tt := range tests {
		rng := rand.New(rand.NewPCG(1, uint64(tt.constant)))
		var met, confirmed float64
		const sessions = 2000
		for range sessions {
			d := New(declared())
			for j := range 60 {
				clean := 1 - 0.4*math.Exp(-(float64(j)+0.5)*10/tt.constant)
				if d.Observe(window(clean*(1+rng.NormFloat64()*0.015))) != Continue {
					break
				}
			}
			missing := func(window int) float64 { return 40 * math.Exp(-float64(window)*10/tt.constant) }
			met += missing(d.Report().MetAt)
			confirmed += missing(d.Report().Windows)
		}
		met, confirmed = met/sessions, confirmed/sessions
		if math.Abs(met-tt.met) > 0.15*tt.met+0.4 || math.Abs(confirmed-tt.confirmed) > 0.15*tt.confirmed+0.2 {
			t.Errorf("constant %v s: missing %.2f %% when met, %.2f %% when confirmed; want %v and %v", tt.constant, met, confirmed, tt.met, tt.confirmed)
		}
	}
}
