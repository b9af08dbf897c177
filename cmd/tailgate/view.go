package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// view shows the progress of a session. In a log each event is one plain line, inside a collapsible group per round where
// the CI runner knows groups; on a terminal a bar counts the rounds below the lines and shows the current one as it goes.
type view struct {
	w     io.Writer
	run   *record.Run
	began time.Time
	// groups is true inside a GitHub job.
	groups bool
	bars   *mpb.Progress
	bar    *mpb.Bar

	mu sync.Mutex
	// now is what the bar says of the current round.
	now string
	// group is the slot whose group is open, noGroup for none.
	group   int
	lastLog time.Time
}

const (
	// noGroup is no slot: conditioning has slot -1.
	noGroup = -2
	// logEvery is how often a log hears of a measured interval.
	logEvery = 10 * time.Second
)

func newView(w io.Writer, run *record.Run, a *app) *view {
	v := &view{w: w, run: run, began: time.Now(), groups: a.getenv("GITHUB_ACTIONS") == "true", group: noGroup}
	if !isTerminal(w) || a.getenv("CI") != "" || a.getenv("TERM") == "dumb" {
		return v
	}
	v.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(24))
	v.bar = v.bars.AddBar(int64(max(1, len(run.Declared.Order))),
		mpb.PrependDecorators(decor.Elapsed(decor.ET_STYLE_MMSS), decor.CountersNoUnit(" %d/%d rounds ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.now
		})),
	)
	v.w = v.bars
	return v
}

// step is the runner's progress callback.
func (v *view) step(p runner.Progress) {
	if p.Phase == "cooldown" && v.run.Declared.Cooldown == 0 {
		return
	}
	if p.Phase == "measure" && p.Planned != 0 {
		p.Text = sofar(p)
	}
	v.mu.Lock()
	v.now = fmt.Sprintf("%s %s %s", p.Arm, p.Phase, p.Text)
	v.mu.Unlock()
	if v.bar != nil && p.Phase == "done" && p.Slot >= 0 {
		v.bar.SetTotal(int64(max(p.Slots, len(v.run.Declared.Order))), false)
		v.bar.Increment()
	}
	if v.passing(p) {
		return
	}
	v.enter(p)
	fmt.Fprintln(v.w, v.head(p)+p.Text)
}

// passing reports whether a step is for the bar only: a line per warm-up window or per second drowns a log.
func (v *view) passing(p runner.Progress) bool {
	switch {
	case p.Phase == "warmup":
		return true
	case p.Phase != "measure" || p.Planned == 0:
		return false
	case v.bar != nil || time.Since(v.lastLog) < logEvery:
		return true
	}
	v.lastLog = time.Now()
	return false
}

func sofar(p runner.Progress) string {
	of := ""
	if p.Planned != runner.Uncounted {
		of = fmt.Sprintf(" of %d", p.Planned)
	}
	text := fmt.Sprintf("%d%s requests, %d failed", p.Done, of, p.Failed)
	if p50, ok := p.P50.Finite(); ok {
		p99, _ := p.P99.Finite()
		text += fmt.Sprintf(", p50 %.4g ms, p99 %.4g ms", p50, p99)
	}
	return text
}

// enter starts a group per round in a GitHub log.
func (v *view) enter(p runner.Progress) {
	if !v.groups || p.Arm == "" || p.Slot == v.group {
		return
	}
	v.leave()
	v.group = p.Slot
	fmt.Fprintf(v.w, "::group::%s\n", title(p))
}

func (v *view) leave() {
	if v.groups && v.group != noGroup {
		fmt.Fprintln(v.w, "::endgroup::")
	}
	v.group = noGroup
}

// close takes the bar away; what was printed stays.
func (v *view) close() {
	v.leave()
	if v.bar != nil {
		v.bar.Abort(true)
		v.bars.Wait()
	}
}

func title(p runner.Progress) string {
	if p.Slot < 0 {
		return fmt.Sprintf("conditioning %s", p.Arm)
	}
	return fmt.Sprintf("slot %d %s (pair %d)", p.Slot, p.Arm, p.Pair+1)
}

func (v *view) head(p runner.Progress) string {
	elapsed := time.Since(v.began).Round(time.Second)
	if p.Arm == "" {
		return fmt.Sprintf("%6s  %-23s ", elapsed, p.Phase)
	}
	slot := "-"
	if p.Slot >= 0 {
		slot = fmt.Sprintf("%d/%d", p.Slot+1, max(p.Slots, len(v.run.Declared.Order)))
	}
	return fmt.Sprintf("%6s  %5s %s  %-9s ", elapsed, slot, p.Arm, p.Phase)
}
