package steady

import (
	"fmt"
	"math"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Decision is what the rule says after a window.
type Decision int

// The decisions. All but Continue end the warm-up.
const (
	// Continue asks for another window.
	Continue Decision = iota
	// Confirmed: the signals are level and without trend; measure now.
	Confirmed
	// WithFailures: the signals are confirmed, but for [failurePatience] windows requests kept failing. Measure now; that
	// requests fail is a finding, not a reason to measure nothing.
	WithFailures
	// Capped: the cap is reached without steady state; the round measures nothing.
	Capped
)

// failurePatience is how many windows the rule waits for failures to stop once the signals are confirmed.
const failurePatience = 10

// Detector applies one warm-up rule to one round. It is not safe for concurrent use.
type Detector struct {
	rule    record.Warmup
	windows []record.SteadyWindow
	report  record.SteadyReport
	// chosen is true once it is settled how many windows are joined into one.
	chosen bool
	// flatAt is the window at which both signals were first confirmed but for failures; 0 before.
	flatAt int
}

// New starts a warm-up under a declared rule. Joined is how many windows count as one, as the session's first warm-up chose it
// ([record.SteadyReport]); 0 in that first one, which chooses.
func New(rule record.Warmup, joined int) *Detector {
	return &Detector{rule: rule, chosen: joined > 0, report: record.SteadyReport{Joined: max(joined, 1), End: "cut"}}
}

// Observe adds the next window and decides. A window whose signal is n/a breaks every run of steady windows. Where windows are
// joined, only every so many-th can decide anything.
func (d *Detector) Observe(w record.SteadyWindow) Decision {
	d.windows = append(d.windows, w)
	n := len(d.windows)
	d.report.Windows = n
	d.report.Signal = d.windows
	if n%d.report.Joined == 0 {
		if decision := d.apply(); decision != Continue {
			return decision
		}
	}
	if !d.chosen && d.report.MetAt == 0 && n >= d.rule.Windows+d.rule.TrendWindows {
		d.join()
	}
	if d.elapsed() >= d.rule.Cap.Seconds() {
		d.report.End = "cap"
		return Capped
	}
	return Continue
}

// apply decides by the windows so far.
func (d *Detector) apply() Decision {
	n := len(d.windows)
	level := d.level(delivered) && d.level(latency)
	served := d.served()
	if level && served && d.report.MetAt == 0 {
		d.report.MetAt = n
	}
	flat := level && d.longEnough() && d.flat(delivered) && d.flat(latency)
	switch {
	case !flat:
		// flatAt stays: a server without failures need be flat once only, and noise would hold back the failing arm alone.
	case served:
		d.report.ConfirmedAt, d.report.End = n, "confirmed"
		return Confirmed
	case d.flatAt == 0:
		d.flatAt = n
	case n-d.flatAt >= failurePatience:
		d.report.ConfirmedAt, d.report.End = n, "started_with_failures"
		return WithFailures
	}
	return Continue
}

// Report is the warm-up so far, for round.json.
func (d *Detector) Report() record.SteadyReport { return d.report }

func (d *Detector) elapsed() float64 {
	return float64(len(d.windows)) * d.rule.Window.Seconds()
}

func (d *Detector) longEnough() bool {
	return len(d.windows) >= d.rule.TrendWindows*d.report.Joined && d.elapsed() >= d.rule.Min.Seconds()
}

// signal reads one number of a window.
type signal func(record.SteadyWindow) (float64, bool)

func delivered(w record.SteadyWindow) (float64, bool) { return w.Delivered.Finite() }
func latency(w record.SteadyWindow) (float64, bool)   { return w.Latency.Finite() }

// last returns the signal over the last n windows, joined ones averaged, or nil when there are fewer or one of them is n/a.
func (d *Detector) last(n int, s signal) []float64 {
	k := d.report.Joined
	if len(d.windows) < n*k {
		return nil
	}
	xs := make([]float64, n)
	for i, w := range d.windows[len(d.windows)-n*k:] {
		x, ok := s(w)
		if !ok {
			return nil
		}
		xs[i/k] += x / float64(k)
	}
	return xs
}

// Lacks says what still keeps the rule from confirming, for people; empty before it had its first chance, and once the warm-up
// is over.
func (d *Detector) Lacks() string {
	if d.report.End != "cut" || !d.longEnough() {
		return ""
	}
	for _, s := range []struct {
		name string
		of   signal
	}{{"output", delivered}, {"latency", latency}} {
		switch xs := d.last(d.rule.TrendWindows, s.of); {
		case xs == nil:
			return s.name + " is missing in a window"
		case !d.level(s.of):
			return fmt.Sprintf("%s varies by %.1f %% (at most %.3g %%)", s.name, 100*spread(d.last(d.rule.Windows, s.of)), 100*d.rule.Band)
		case !d.flat(s.of):
			return fmt.Sprintf("%s still moves by %.1f %% (at most %.3g %%)", s.name, 100*Trend(xs), 100*d.rule.Trend)
		}
	}
	if !d.served() {
		return "requests fail"
	}
	return ""
}

// level reports whether the last windows all lie within the band around their mean.
func (d *Detector) level(s signal) bool {
	xs := d.last(d.rule.Windows, s)
	return xs != nil && spread(xs) <= d.rule.Band
}

// spread is the largest distance of a value from the mean, as a share of it; +Inf when the mean is not positive.
func spread(xs []float64) float64 {
	m, worst := mean(xs), 0.0
	if m <= 0 {
		return math.Inf(1)
	}
	for _, x := range xs {
		worst = max(worst, math.Abs(x-m))
	}
	return worst / m
}

// served reports whether each of the last windows, joined or not, kept its error rate below the limit.
func (d *Detector) served() bool {
	for _, w := range d.windows[max(0, len(d.windows)-d.rule.Windows*d.report.Joined):] {
		if w.Failed > 0 && float64(w.Failed) >= d.rule.MaxErrorRate*float64(w.Requests) {
			return false
		}
	}
	return true
}

// flat reports whether the trend over the last TrendWindows windows stays within the limit.
func (d *Detector) flat(s signal) bool {
	xs := d.last(d.rule.TrendWindows, s)
	return xs != nil && Trend(xs) <= d.rule.Trend
}

// Trend is the change along a least-squares line from the first to the last value, as a share of the mean: |slope|·(n-1) /
// mean. It is +Inf when the mean is not positive, 0 for fewer than two values.
func Trend(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	m, mid := mean(xs), float64(len(xs)-1)/2
	if m <= 0 {
		return math.Inf(1)
	}
	var sxy, sxx float64
	for i, x := range xs {
		dx := float64(i) - mid
		sxy += dx * (x - m)
		sxx += dx * dx
	}
	return math.Abs(sxy/sxx) * float64(len(xs)-1) / m
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
