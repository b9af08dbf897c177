package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/steady"
	"github.com/tailgate-ci/tailgate/runner/target"
)

const (
	// settle lies between warm-up and the first measured request; a watched GPU gets longer, so that no driver call falls
	// into the first seconds of the interval.
	settle, settleGPU = 200 * time.Millisecond, 2 * time.Second
	// tailLimit is how long arrivals go on after the measured interval, so that its last requests do not meet an emptying
	// server.
	tailLimit = 30 * time.Second
	// deadWindows is how many warm-up windows in a row may fail as a whole before a server that is not ours to watch counts
	// as gone.
	deadWindows = 5
	// startTries is how often a server may fail to start before that is a finding.
	startTries = 2
)

var (
	// errDrain cuts requests that are still open when the drain limit ends.
	errDrain = errors.New("drain limit")
	// errStalled cuts a round whose server gives no more tokens.
	errStalled = errors.New("no progress")
	// errCrashed ends a warm-up whose server is gone.
	errCrashed = errors.New("the server exited")
)

// round measures one arm once.
type round struct {
	s      *Session
	plan   *Plan
	rd     record.Round
	rw     *record.RoundWriter
	server *target.Server
	client *client.Client
	// lender holds the server of a round that only borrows it; nil where the server is the round's own.
	lender *round
	// log is where the server's log is, relative to the run folder; empty for the round's own folder. lines is how many lines
	// it had when the round began.
	log   string
	lines int
	// devices are the GPUs that this server may see; empty for those of the plan.
	devices []string
	// hits tell how much of the first warm-up window was cached.
	hits hits
	// url is where the server answers.
	url string
	// flights are the warm-up's requests, for their largest number in flight.
	flights flights
	// cut aborts everything in flight, with the reason as its cause.
	cut     context.Context
	abandon context.CancelCauseFunc
	c       *collector
	seq     int
	vouch   voucher
	// mistaken counts the probes in a row whose answer looked like another dialect's.
	mistaken int
	// rate is how many requests a second ended in the last windows of the warm-up, 0 when unknown.
	rate float64
}

func newRound(s *Session, rd record.Round, rw *record.RoundWriter) *round {
	rd.Metrics, rd.Counts.Classes = map[string]record.Metric{}, map[record.Outcome]int{}
	return &round{s: s, plan: s.plan, rd: rd, rw: rw}
}

// measure does the whole round: cool down, start, warm up, measure, stop, prove. Its record is complete in r.rd whatever
// the error; the error says that the session cannot go on.
func (r *round) measure(ctx context.Context) error {
	defer r.attend(ctx)()
	err := r.serve(ctx)
	if err == nil {
		err = r.preflight(ctx)
	}
	ready := false
	if err == nil {
		ready, err = r.emptied(ctx)
	}
	if err == nil && ready {
		err = r.exercise(ctx)
	}
	if stopErr := r.stop(ctx); err == nil {
		err = stopErr
	}
	if closeErr := r.finish(); err == nil || errors.Is(err, context.Canceled) {
		err = errors.Join(closeErr, ctx.Err())
	}
	return err
}

// condition starts the server, offers the load for d unrecorded, and stops it.
func (r *round) condition(ctx context.Context, d record.Instant) error {
	defer r.attend(ctx)()
	r.say("conditioning", time.Duration(d).String())
	err := r.serve(ctx)
	if err == nil {
		err = r.preflight(ctx)
	}
	if err == nil {
		limit, cancel := context.WithTimeout(r.cut, time.Duration(d))
		err = r.warm(limit, func(record.SteadyWindow) steady.Decision { return steady.Continue })
		cancel()
		if errors.Is(err, errCrashed) {
			r.crashed()
			err = nil
		}
	}
	if stopErr := r.stop(ctx); err == nil {
		err = stopErr
	}
	return errors.Join(err, r.finish())
}

// serveOnly starts the server, asks what is asked before a first round, and stops it.
func (r *round) serveOnly(ctx context.Context) error {
	defer r.attend(ctx)()
	err := r.serve(ctx)
	if err == nil {
		err = r.preflight(ctx)
	}
	if stopErr := r.stop(ctx); err == nil {
		err = stopErr
	}
	return errors.Join(err, r.finish())
}

// attend opens what lives as long as the round: the cut, the collector, the telemetry's sink.
func (r *round) attend(ctx context.Context) func() {
	r.cut, r.abandon = context.WithCancelCause(ctx)
	if r.plan.Telemetry != nil {
		// A lost telemetry line shows as a gap; the round writer reports the cause when it closes.
		r.plan.Telemetry.SetSink(func(line []byte) { _ = r.rw.Telemetry(line) })
	}
	return func() {
		if r.plan.Telemetry != nil {
			r.plan.Telemetry.SetSink(nil)
		}
		r.abandon(nil)
	}
}

// serve sees to a server, a fresh one unless one stays up between rounds, and leaves r.client ready to send.
func (r *round) serve(ctx context.Context) error {
	if r.server != nil || r.client != nil {
		return nil
	}
	if r.rd.Slot >= 0 {
		r.say("cooldown", "")
		if err := pause(ctx, r.s.run.Declared.Cooldown); err != nil {
			return err
		}
		r.selfTest(ctx)
	}
	if r.s.fleet != nil {
		return r.borrow(ctx)
	}
	if p := r.s.run.Declared.Resident; p != nil && len(p.Sets) > 0 {
		// Servers that were to stay up and do not: both arms get the same GPUs then, one after the other.
		r.devices = p.Sets[0]
	}
	return r.bringUp(ctx)
}

// bringUp starts the round's own server, trying once more when it fails.
func (r *round) bringUp(ctx context.Context) error {
	for try := 1; ; try++ {
		err := r.start(ctx, try)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.s.failed(err, r.rd.Arm, r.rd.Slot, try, r.logPath(try)); err != nil {
			return err
		}
		if stopErr := r.stop(ctx); stopErr != nil {
			return stopErr
		}
		if te, _ := errors.AsType[*target.Error](err); try == startTries || !again(te.ID) {
			return errStop
		}
	}
}

// again reports whether a failed start deserves a second try; what the runner's own state causes does not.
func again(id string) bool { return id == record.StartFailed || id == record.StartTimeout }

func (r *round) logPath(try int) string {
	if r.log != "" {
		if try > 1 {
			return fmt.Sprintf("%s-try%d.log", strings.TrimSuffix(r.log, ".log"), try)
		}
		return r.log
	}
	name := "server.log"
	if try > 1 {
		name = fmt.Sprintf("server-try%d.log", try)
	}
	rel, err := filepath.Rel(r.plan.Writer.Dir(), filepath.Join(r.rw.Dir(), name))
	if err != nil {
		return name
	}
	return rel
}

func (r *round) start(ctx context.Context, try int) error {
	t := r.plan.Arms[r.rd.Arm]
	r.say("start", "")
	r.rd.Phases.Start = r.plan.Clock.Now()
	server, err := target.Start(ctx, target.Spec{
		Start: t.Start, Args: t.Args, Dir: t.Dir, Env: r.environ(t.Env), Port: t.Port, ReadyPath: t.ReadyPath, ReadyTimeout: t.ReadyTimeout,
		Signal: t.Signal, Grace: t.Grace, LogPath: filepath.Join(r.plan.Writer.Dir(), r.logPath(try)), Probe: r.probe,
		Clock: r.plan.Clock, Mask: t.Mask, Ledger: t.Ledger, StopCommand: t.StopCommand, StopLog: filepath.Join(r.plan.Writer.Dir(), r.stopLogPath()), PIDs: t.PIDs,
		Ground: r.s.ground, Beside: r.s.fleet != nil && len(r.s.fleet.up) > 0, MemoryTimeout: t.MemoryTimeout, ExpectGPU: t.ExpectGPU,
	})
	if err != nil {
		return err
	}
	r.server = server
	r.rd.Phases.Spawned = r.plan.Clock.Now()
	if err := server.Ready(ctx, func(text string) { r.say("start", text) }); err != nil {
		return err
	}
	r.rd.Phases.Ready = r.plan.Clock.Now()
	r.s.served[r.rd.Arm] = true
	if err := r.s.confirm(ctx, r.rd.Slot, server); err != nil {
		return err
	}
	r.say("ready", fmt.Sprintf("%.1f s", time.Duration(r.rd.Phases.Ready-r.rd.Phases.Start).Seconds()))
	return r.connect(server.URL())
}

// connect makes the round's client.
func (r *round) connect(url string) error {
	c, err := client.New(r.clientOptions(url))
	if err != nil {
		return err
	}
	r.client, r.url = c, url
	r.rd.Client.Address, r.rd.Client.Dialect = c.Address(), r.plan.API.Dialect
	return nil
}

func (r *round) clientOptions(url string) client.Options {
	return clientOptions(r.plan.API, url, r.s.run.Declared, r.plan.Clock)
}

func clientOptions(api API, url string, d record.Declared, clock record.Clock) client.Options {
	return client.Options{
		URL: url, Dialect: api.Dialect, Model: api.Model, Header: api.Header, Limits: d.Limits, Clock: clock,
		Settings: api.Settings, Example: api.Example, HTTP2: d.Load.HTTP2,
	}
}

// exercise warms the server up and measures it.
func (r *round) exercise(ctx context.Context) error {
	if r.server != nil {
		defer r.watch()()
	}
	warm, err := r.warmUp()
	if err != nil || !warm || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	if err := r.checkPorts(); err != nil {
		return err
	}
	err = r.interval()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// warmUp offers the warm-up traffic until the declared rule decides, and reports whether there is a warm server to measure.
func (r *round) warmUp() (bool, error) {
	detector := steady.New(r.s.run.Declared.Warmup, r.s.joined)
	var last record.SteadyWindow
	dead := 0
	err := r.warm(r.cut, func(w record.SteadyWindow) steady.Decision {
		decision := detector.Observe(w)
		now, report := r.plan.Clock.Now(), detector.Report()
		if report.MetAt == report.Windows {
			r.rd.Phases.Met = now
		}
		if decision == steady.Confirmed || decision == steady.WithFailures {
			r.rd.Phases.Confirmed = now
		}
		last = w
		r.say("warmup", windowText(report, last, detector.Lacks()))
		if dead++; w.Failed == 0 || gaveOutput(w) {
			dead = 0
		}
		if r.server == nil && dead == deadWindows {
			return steady.Capped
		}
		return decision
	})
	r.rd.Steady = detector.Report()
	r.s.join(r.rd.Slot, r.rd.Steady)
	if r.rd.Reset != nil {
		r.rd.Reset.HitRate = r.hits.rate()
	}
	if r.rd.Steady.End == "started_with_failures" {
		r.flag("started_with_failures")
	}
	if errors.Is(err, errCrashed) {
		r.crashed()
		return false, nil
	}
	if r.server == nil && dead == deadWindows {
		r.silent()
		return false, err
	}
	return err == nil && (r.rd.Steady.End == "confirmed" || r.rd.Steady.End == "started_with_failures"), err
}

// gaveOutput reports whether any request of a window got an answer.
func gaveOutput(w record.SteadyWindow) bool {
	delivered, ok := w.Delivered.Finite()
	return ok && delivered > 0
}

func windowText(r record.SteadyReport, w record.SteadyWindow, lacks string) string {
	text := fmt.Sprintf("window %d", r.Windows)
	if d, ok := w.Delivered.Finite(); ok {
		text += fmt.Sprintf(", delivered %.0f %%", 100*d)
	}
	if l, ok := w.Latency.Finite(); ok {
		text += fmt.Sprintf(", %.3g ms a token", l)
	}
	if r.Joined > 1 {
		text += fmt.Sprintf(", %d joined into one", r.Joined)
	}
	if r.Unattainable {
		text += ", too noisy for the band"
	}
	if w.Failed > 0 {
		text += fmt.Sprintf(", %d failed", w.Failed)
	}
	if lacks != "" {
		text += ": " + lacks
	}
	return text
}

// space says when the disk of the run folder is about to be full.
func (r *round) space() error { return spaceLeft(r.plan.Writer.Dir()) }

// edge has the sensor read counters and processes now, outside the measured interval.
func (r *round) edge(name string) {
	if r.plan.observing() {
		r.plan.Telemetry.Edge(fmt.Sprintf("r%d.%s", r.rd.Slot, name))
	}
}

func (r *round) say(phase, text string) {
	r.plan.say(Progress{Slot: r.rd.Slot, Slots: r.s.slot, Arm: r.rd.Arm, Pair: r.rd.Pair, Phase: phase, Text: text})
	if phase != "warmup" || text == "" {
		slot := r.rd.Slot
		r.s.journal(record.Event{Name: phase, Slot: &slot, Arm: r.rd.Arm, Text: text})
	}
}

func (r *round) flag(name string) {
	if !slices.Contains(r.rd.Flags, name) {
		r.rd.Flags = append(r.rd.Flags, name)
	}
}
