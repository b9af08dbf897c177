package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// loadView shows the progress of a load: on a terminal two lines that stay in place, a bar with the time left and the
// figures so far; in a log one plain line every ten seconds and at each step.
type loadView struct {
	w     io.Writer
	run   *record.Run
	clock record.Clock
	// latency is what the percentiles so far are of.
	latency string

	bars *mpb.Progress
	bar  *mpb.Bar

	mu sync.Mutex
	// phase is the step the round is in, began its first instant.
	phase string
	began record.Instant
	// figures is the second line.
	figures string
	window  int
	// recent are the last seconds of the measured interval, for the rate.
	recent []runner.Progress
	logged record.Instant
}

// barSteps is the resolution of the bar.
const barSteps = 1000

func (l *loading) view() *loadView {
	w, a := l.app.err, l.app
	v := &loadView{w: w, run: l.run, clock: l.clock, latency: "TTFT"}
	if !runner.Streams(l.workload) {
		v.latency = "E2E"
	}
	if !isTerminal(w) || a.getenv("CI") != "" || a.getenv("TERM") == "dumb" {
		return v
	}
	v.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(30))
	v.bar = v.bars.New(barSteps, mpb.BarStyle().Lbound("[").Rbound("]"),
		mpb.PrependDecorators(decor.Any(v.locked(func(decor.Statistics) string { return v.title() }))),
		mpb.AppendDecorators(decor.Any(v.locked(func(decor.Statistics) string { return " " + v.left(v.clock.Now()) }))),
		mpb.BarExtender(mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
			_, err := fmt.Fprintln(w, cutTo(v.locked(func(decor.Statistics) string { return v.figures })(s), s.AvailableWidth))
			return err
		}), false),
	)
	v.w = v.bars
	return v
}

func (v *loadView) locked(text func(decor.Statistics) string) func(decor.Statistics) string {
	return func(s decor.Statistics) string {
		v.mu.Lock()
		defer v.mu.Unlock()
		return text(s)
	}
}

func cutTo(s string, width int) string {
	if runes := []rune(s); width > 0 && len(runes) > width {
		return string(runes[:width])
	}
	return s
}

// step is the runner's progress callback.
func (v *loadView) step(p runner.Progress) {
	v.mu.Lock()
	line := v.take(p)
	if v.bar != nil {
		// A bar that reaches its end is over for mpb, and the next step starts it anew.
		v.bar.SetCurrent(min(barSteps-1, int64(barSteps*v.share(p.T))))
	}
	v.mu.Unlock()
	if line != "" {
		fmt.Fprintln(v.w, line)
	}
}

// take notes a step and returns the line that is printed for it, empty for none. Warm-up windows and seconds are for the
// bar; a log hears of them every ten seconds.
func (v *loadView) take(p runner.Progress) string {
	if p.Phase != v.phase && p.Phase != "incident" {
		v.phase, v.began, v.figures = p.Phase, p.T, ""
	}
	passing := false
	switch {
	case p.Phase == "warmup":
		v.window++
		_, v.figures, _ = strings.Cut(p.Text, ", ")
		passing = true
	case p.Phase == "measure" && p.Planned != 0:
		v.recent = append(v.recent, p)
		v.figures, passing = v.sofar(p), true
	case p.Phase == "measure":
		v.recent = []runner.Progress{p}
	default:
		v.figures = p.Text
	}
	if passing && (v.bar != nil || time.Duration(p.T-v.logged) < logEvery) {
		return ""
	}
	v.logged = p.T
	text := p.Text
	if passing {
		text = v.left(p.T) + "; " + v.figures
	}
	return strings.TrimRight(fmt.Sprintf("%6s  %-8s %s", time.Duration(p.T).Round(time.Second), phaseWord(p.Phase), text), " ")
}

// phaseWord is a step in the words of a reader.
func phaseWord(phase string) string {
	if phase == "warmup" {
		return "warm-up"
	}
	return phase
}

func (v *loadView) title() string {
	if v.phase == "" {
		return "starting "
	}
	return phaseWord(v.phase) + " "
}

// share is how much of the current step is over.
func (v *loadView) share(now record.Instant) float64 {
	d := v.run.Declared
	switch v.phase {
	case "warmup":
		return min(1, float64(v.window)/float64(max(1, d.Warmup.TrendWindows, d.Warmup.Windows)))
	case "measure":
		return min(1, float64(now-v.began)/float64(max(1, d.Measure)))
	default:
		return 0
	}
}

// left says how long the current step may still take.
func (v *loadView) left(now record.Instant) string {
	d := v.run.Declared
	switch v.phase {
	case "warmup":
		return fmt.Sprintf("window %d of at least %d, at most %s", v.window, max(d.Warmup.TrendWindows, d.Warmup.Windows), config.Duration(d.Warmup.Cap))
	case "measure":
		rest := d.Measure - time.Duration(now-v.began)
		if rest <= 0 {
			return "all sent, waiting for the last answers"
		}
		return minutes(rest) + " left"
	default:
		return ""
	}
}

func minutes(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// sofar is the figures of the measured interval so far.
func (v *loadView) sofar(p runner.Progress) string {
	parts := []string{fmt.Sprintf("%d of %d done", p.Done, p.Planned)}
	if p.Planned == runner.Uncounted {
		parts[0] = fmt.Sprintf("%d done", p.Done)
	}
	if rate, ok := v.rate(p); ok {
		parts = append(parts, fmt.Sprintf("%.3g/s", rate))
	}
	if n, ok := p.InFlight.Finite(); ok {
		parts = append(parts, fmt.Sprintf("%.0f in flight", n))
	}
	parts = append(parts, fmt.Sprintf("%d failed", p.Failed))
	if p50, ok := p.P50.Finite(); ok {
		p99, _ := p.P99.Finite()
		parts = append(parts, fmt.Sprintf("%s p50 %.3g, p99 %.3g ms", v.latency, p50, p99))
	}
	return strings.Join(parts, ", ")
}

// rate is how many requests ended per second over the last five seconds.
func (v *loadView) rate(now runner.Progress) (float64, bool) {
	const over = record.Instant(5 * time.Second)
	for len(v.recent) > 2 && now.T-v.recent[0].T > over {
		v.recent = v.recent[1:]
	}
	first := v.recent[0]
	if now.T <= first.T {
		return 0, false
	}
	return float64(now.Done-first.Done) / time.Duration(now.T-first.T).Seconds(), true
}

// close takes the live lines away; what was printed stays.
func (v *loadView) close() {
	if v.bar != nil {
		v.bar.Abort(true)
		v.bars.Wait()
	}
}
