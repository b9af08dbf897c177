package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/target"
)

// stop ends the server and has it proven gone. It runs on a cancelled session too.
func (r *round) stop(ctx context.Context) error {
	if r.client != nil {
		r.rd.Client.Dialled, r.rd.Client.Reused = r.client.Connections()
		r.rd.Server.Model = r.client.Model()
		r.client.Close()
		r.client = nil
	}
	if r.server == nil {
		r.reduceAlone(ctx)
		return nil
	}
	if r.lender != nil {
		r.giveBack(ctx)
		return nil
	}
	if r.rd.Phases.Ready.Reached() && ctx.Err() == nil {
		r.reduce()
	}
	r.say("stop", "")
	server := r.server
	report, err := server.Stop(ctx)
	r.rd.Stop = report
	r.rd.Phases.Stopped = r.plan.Clock.Now()
	r.server = nil
	parting := r.parted(ctx, server)
	if err == nil {
		r.rd.Phases.Proved = r.plan.Clock.Now()
		return parting
	}
	if _, ok := errors.AsType[*target.Error](err); !ok {
		return err
	}
	if err := r.s.failed(err, r.rd.Arm, r.rd.Slot, 0, ""); err != nil {
		return err
	}
	return errStop
}

// reduceAlone keeps what the machine did while a server was measured that somebody else had started: which processes of a
// GPU are its own cannot be told then.
func (r *round) reduceAlone(ctx context.Context) {
	ours := r.s.run.Kind != record.KindLoad && r.s.run.Kind != record.KindURL
	if ours || !r.rd.Phases.Ready.Reached() || ctx.Err() != nil {
		return
	}
	r.reduce()
	for i := range r.rd.Machine.GPUs {
		g := &r.rd.Machine.GPUs[i]
		g.Procs, g.ProcsNA = nil, "the server was not started by tailgate"
	}
}

// reduce keeps what the machine did in the measured interval; it needs the server alive to tell its processes.
func (r *round) reduce() {
	if r.plan.Telemetry == nil {
		r.rd.Machine.GPUReason = "nothing was observed"
		return
	}
	from, to := r.rd.Phases.M0, r.rd.Phases.M1
	if !from.Reached() {
		from, to = r.rd.Phases.Ready, r.plan.Clock.Now()
	}
	var pids []int
	if r.server != nil {
		pids = r.server.PIDs()
	}
	r.rd.Machine = r.plan.Telemetry.Reduce(from, to, func(pid int) bool { return slices.Contains(pids, pid) })
}

// crashed puts on record that the server left by itself in mid-round.
func (r *round) crashed() {
	code, text := r.server.Exit()
	r.rd.Server.Exit, r.rd.Server.ExitText = &code, text
	in := record.Incident{
		ID: record.Crashed, Arm: r.rd.Arm, Exit: &code, Log: r.logPath(1),
		Text: "the server exited in mid-round (" + text + "); see its log", Tail: r.server.LogTail(),
	}
	if r.rd.Slot >= 0 {
		slot := r.rd.Slot
		in.Slot = &slot
	}
	r.s.incident(in)
}

// silent puts on record that a server we did not start answers nothing any more.
func (r *round) silent() {
	where := ""
	if r.rd.Resident {
		where = fmt.Sprintf("%s's server at %s: ", r.rd.Arm, address(r.url))
	}
	in := record.Incident{
		ID: record.EngineStalled, Arm: r.rd.Arm,
		Text: where + fmt.Sprintf("no request was answered in %d warm-up windows in a row; look whether the server still runs", deadWindows),
	}
	if r.rd.Slot >= 0 {
		slot := r.rd.Slot
		in.Slot = &slot
	}
	r.s.incident(in)
}

// watch notes a server that exits while it is measured; the requests it fails speak for themselves.
func (r *round) watch() func() {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-r.server.Exited():
		case <-done:
		}
	}()
	return func() {
		close(done)
		<-over
		select {
		case <-r.server.Exited():
			if r.rd.Server.Exit == nil {
				r.crashed()
			}
		default:
		}
	}
}

// finish summarises the round and closes its files.
func (r *round) finish() error {
	var samples []record.Sample
	var streams []record.Stream
	if r.c != nil {
		samples, streams = r.c.samples, r.c.streams
	}
	cause := context.Cause(r.cut)
	if errors.Is(cause, errStalled) {
		slot := r.rd.Slot
		r.s.incident(record.Incident{
			ID: record.EngineStalled, Arm: r.rd.Arm, Slot: &slot, Log: r.ownLog(),
			Text: "the server kept requests open and gave no token for " + r.s.run.Declared.Limits.NoProgress.String() + "; see its log",
		})
	}
	r.rd.State = record.RoundPartial
	whole := cause == nil || errors.Is(cause, errDrain) || errors.Is(cause, errStalled)
	if r.rd.Phases.M0.Reached() && r.c != nil && r.c.err == nil && whole {
		r.rd.State = record.RoundComplete
		// First what the load generator says of itself, then what the server did.
		if drifted(samples, streams, r.rd.Phases.M0, r.rd.Phases.M1) {
			r.flag("not_steady")
		}
		r.vouch.fill(&r.rd.Client, samples, r.c.sent, r.s.run.Declared.Measure)
		r.fill(record.Summarise(samples, streams, record.Interval{M0: r.rd.Phases.M0, M1: r.rd.Phases.M1, SLO: r.s.run.Declared.SLO, Limits: r.s.run.Declared.Limits}))
	}
	if r.log == "" {
		r.rd.Server.LogLines = countLines(filepath.Join(r.rw.Dir(), "server.log"))
	} else {
		r.rd.Server.LogLines = countLines(filepath.Join(r.plan.Writer.Dir(), r.log)) - r.lines
	}
	var windows []record.Window
	if r.rd.Phases.M0.Reached() {
		windows = record.Windows(samples, streams, r.rd.Phases.M0, r.rd.Phases.M1)
	}
	err := r.rw.Close(r.rd, windows, record.ClientFile{ClientReport: r.rd.Client, Limits: r.s.run.Declared.Limits, Load: r.s.run.Declared.Load})
	if err != nil {
		// What could not be written down, on a full disk, is no finished round: nobody could check its figures.
		r.rd.State = record.RoundPartial
	}
	if r.rd.Slot < 0 {
		r.say("done", "not recorded, not judged")
	} else {
		r.say("done", string(r.rd.State))
	}
	return err
}

func (r *round) fill(sum record.Summary) {
	r.rd.Counts, r.rd.Metrics, r.rd.Beyond, r.rd.FailedIDs = sum.Counts, sum.Metrics, sum.Beyond, sum.FailedIDs
	r.rd.Tokens, r.rd.OutTokens, r.rd.Server.CachedShare = sum.Tokens, sum.OutTokens, sum.CachedShare
	r.rd.Answers, r.rd.Blocks = sum.Answers, sum.Blocks
	r.rd.Details = sum.Details
	for _, f := range sum.Flags {
		r.flag(f)
	}
}

// reclassify names why a request was cut when it was not by the user but by a limit of the round.
func reclassify(s *record.Sample, cause error) {
	if s.Class != record.Cut {
		return
	}
	switch {
	case errors.Is(cause, errDrain):
		s.Class, s.Detail = record.Unfinished, "still open at the drain limit"
	case errors.Is(cause, errStalled):
		s.Class, s.Detail = record.Timeout, "no_progress"
	}
}

// countLines counts the lines of a server log; a log that cannot be read has none.
func countLines(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close() //nolint:errcheck // read only
	n, buf := 0, make([]byte, 64<<10)
	for {
		k, err := f.Read(buf)
		n += bytes.Count(buf[:k], []byte{'\n'})
		if err == io.EOF || err != nil {
			return n
		}
	}
}

func pauseTimer(d time.Duration) <-chan time.Time { return time.After(d) }

// progress remembers when the last token came.
type progress struct {
	clock record.Clock
	last  atomic.Int64
}

func newProgress(clock record.Clock) *progress {
	p := &progress{clock: clock}
	p.last.Store(int64(clock.Now()))
	return p
}

func (p *progress) token(_, now record.Instant) { p.last.Store(int64(now)) }

// guard calls stalled once when requests are open and no token came for limit. The returned function ends it.
func (p *progress) guard(limit time.Duration, open *atomic.Int64, stalled func()) func() {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if open.Load() == 0 {
				p.last.Store(int64(p.clock.Now()))
			}
			if limit > 0 && time.Duration(p.clock.Now()-record.Instant(p.last.Load())) > limit {
				stalled()
				return
			}
		}
	}()
	return func() { close(done) }
}
