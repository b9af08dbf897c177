package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// reachTries is how often a running server that cannot be reached is dialled before it counts as gone, reachEvery the
	// pause between: whoever runs it may be starting it again.
	reachTries, reachEvery = 5, 2 * time.Second
	// reachLimit bounds one dial.
	reachLimit = 5 * time.Second
)

// fleet is the servers that stay up while rounds alternate between them: one of each arm, started together, stopped together.
// Of servers that somebody else started it holds none, and stops none.
type fleet struct {
	s *Session
	// foreign says that the servers are somebody else's.
	foreign bool
	// up holds, by arm, the round that started the server; empty while none is up.
	up map[record.Arm]*round
	// life numbers the starts of both, from 1; startup is the longest that one took.
	life    int
	startup record.Instant
}

// newFleet is the fleet that a run was declared to have; nil where each round has a server of its own.
func newFleet(s *Session) *fleet {
	foreign := s.run.Kind == record.KindURL
	if !foreign && s.run.Declared.Mode != record.ModeResident {
		return nil
	}
	return &fleet{s: s, foreign: foreign, up: map[record.Arm]*round{}}
}

// borrow has the round send to its arm's standing server. Where none is up yet, both are started.
func (r *round) borrow(ctx context.Context) error {
	f := r.s.fleet
	r.rd.Resident, r.rd.Slice = true, &record.Slice{IdleOpen: int(r.s.open(r.rd.Arm.Other()))}
	if f.foreign {
		return r.join(ctx)
	}
	starter, err := f.serve(ctx, r)
	if err != nil {
		return err
	}
	r.lender, r.server, r.log = starter, starter.server, starter.log
	r.lines = countLines(filepath.Join(r.plan.Writer.Dir(), r.log))
	r.rd.Slice.Life, r.rd.Slice.GPUs, r.rd.Slice.Idle = f.life, f.set(r.rd.Arm), f.set(r.rd.Arm.Other())
	r.rd.Phases.Ready = r.plan.Clock.Now()
	return r.connect(starter.server.URL())
}

// join has the round send to a server that somebody else runs.
func (r *round) join(ctx context.Context) error {
	if err := r.reach(ctx); err != nil {
		return err
	}
	r.rd.Phases.Ready = r.plan.Clock.Now()
	if err := r.connect(r.plan.Arms[r.rd.Arm].URL); err != nil {
		r.putDown(record.Incident{ID: record.ProbeUnfit, Arm: r.rd.Arm, Text: fmt.Sprintf("%s's server cannot be asked: %v", r.rd.Arm, err)})
		return errStop
	}
	return nil
}

// giveBack ends the round's hold on a server that goes on.
func (r *round) giveBack(ctx context.Context) {
	if r.rd.Phases.Ready.Reached() && ctx.Err() == nil {
		r.reduce()
	}
	if r.rd.Server.Exit != nil {
		// Its end is on record: nobody need tell it again.
		r.lender.rd.Server.Exit = r.rd.Server.Exit
	}
	r.server, r.lender = nil, nil
}

// serve returns the round that holds an arm's server. A server that left meanwhile is put on record, and both are started
// afresh, so that they are equally old.
func (f *fleet) serve(ctx context.Context, r *round) (*round, error) {
	if st := f.up[r.rd.Arm]; st != nil && st.left() {
		if st.rd.Server.Exit == nil {
			r.server, r.log = st.server, st.log
			r.crashed()
			// The incident holds it; the round itself is measured on another server.
			r.rd.Server.Exit, r.rd.Server.ExitText, r.server, r.log = nil, "", nil, ""
		}
		if err := f.down(ctx); err != nil {
			return nil, err
		}
	}
	if len(f.up) == 0 {
		if err := f.start(ctx); err != nil {
			return nil, err
		}
	}
	return f.up[r.rd.Arm], nil
}

// left reports whether a server has ended by itself.
func (r *round) left() bool {
	select {
	case <-r.server.Exited():
		return true
	default:
		return false
	}
}

// start starts both servers, base first, so that what is wrong with the machine shows there.
func (f *fleet) start(ctx context.Context) error {
	f.life++
	began := f.s.plan.Clock.Now()
	if err := os.MkdirAll(filepath.Join(f.s.plan.Writer.Dir(), serverLogs), 0o755); err != nil { //nolint:gosec // run folders are meant to be read
		return err
	}
	for _, arm := range []record.Arm{record.Base, record.Head} {
		st := newRound(f.s, record.Round{Slot: -1, Arm: arm}, nil)
		st.log = filepath.Join(serverLogs, fmt.Sprintf("%d-%s.log", f.life, arm))
		st.devices = f.set(arm)
		if err := st.bringUp(ctx); err != nil {
			// No round ends that holds it: it would outlive a session that is cancelled while it loads.
			return errors.Join(err, st.stop(ctx))
		}
		st.client.Close()
		st.client, st.rd.Phases = nil, record.Phases{}
		f.up[arm] = st
	}
	f.startup = max(f.startup, f.s.plan.Clock.Now()-began)
	return nil
}

// ahead is how long it takes to start servers that the next round needs and that are down.
func (f *fleet) ahead() record.Instant {
	if f == nil || f.foreign || len(f.up) > 0 {
		return 0
	}
	return f.startup
}

// serverLogs is the folder of the run for the logs of servers that outlive a round.
const serverLogs = "servers"

// set is the GPUs of an arm's server in the present life: the arms swap sets with each.
func (f *fleet) set(arm record.Arm) []string {
	p := f.s.run.Declared.Resident
	if p == nil || len(p.Sets) != 2 {
		return nil
	}
	return p.Sets[(f.life+1+index(arm))%2]
}

// index is 0 for base and 1 for head.
func index(arm record.Arm) int {
	if arm == record.Head {
		return 1
	}
	return 0
}

// down stops both servers, side by side, and has each proven gone. It may be called when none is up.
func (f *fleet) down(ctx context.Context) error {
	if f == nil {
		return nil
	}
	var wait sync.WaitGroup
	for _, st := range f.up {
		// What the stop says is asked for again below: a second call returns the first answer.
		wait.Go(func() { _, _ = st.server.Stop(ctx) })
	}
	wait.Wait()
	var errs []error
	for _, arm := range []record.Arm{record.Base, record.Head} {
		if st := f.up[arm]; st != nil {
			errs = append(errs, st.stop(ctx))
			f.s.journal(record.Event{Name: "stopped", Arm: arm, Text: stopText(st.rd.Stop)})
		}
	}
	clear(f.up)
	return errors.Join(errs...)
}

// stopText is how a server that no round tells of went away.
func stopText(r record.StopReport) string {
	text := fmt.Sprintf("%.1f s, %s", r.Seconds, strings.Join(r.Signals, ", "))
	if r.Forced > 0 {
		text += fmt.Sprintf(", %d needed force", r.Forced)
	}
	return text
}

// turn restarts both servers where the plan says so: no arm keeps the luck of one start, nor one set of GPUs.
func (s *Session) turn(ctx context.Context, pairs int) error {
	p := s.run.Declared.Resident
	if s.fleet == nil || s.fleet.foreign || p == nil || !slices.Contains(p.Restarts, pairs) || len(s.fleet.up) == 0 {
		return nil
	}
	s.journal(record.Event{Name: "restart_both", Text: fmt.Sprintf("after %d pairs", pairs)})
	return s.fleet.down(ctx)
}

// fallBack goes on with a fresh server for each round.
func (s *Session) fallBack(ctx context.Context, r record.Round) error {
	s.note("resident_fell_back", r.Slot, fmt.Sprintf("the cache reset is not available (%s): from here on each round has a fresh server; "+
		"mend the key reset, or leave rounds.mode out", resetAnswer(*r.Reset)))
	err := s.fleet.down(ctx)
	s.fleet = nil
	return err
}

// resetAnswer is what a server said to the last call.
func resetAnswer(r record.ResetReport) string {
	switch {
	case r.Status == 0:
		return "no answer: " + r.Text
	case r.Text == "":
		return fmt.Sprintf("status %d", r.Status)
	default:
		return fmt.Sprintf("status %d: %s", r.Status, r.Text)
	}
}

// emptied has the server's cache emptied, and reports whether the round may go on.
func (r *round) emptied(ctx context.Context) (bool, error) {
	plan := r.s.run.Declared.Reset
	if !r.rd.Resident || plan == nil {
		return true, nil
	}
	report := reset{plan: *plan, url: r.url, header: r.plan.API.Header, open: func() int64 { return r.s.open(record.Base) + r.s.open(record.Head) }}.do(ctx)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	r.rd.Reset = &report
	text := string(report.Outcome)
	if report.Tries > 1 {
		text += fmt.Sprintf(" after %d calls", report.Tries)
	}
	r.say("reset", text)
	if report.Outcome == record.ResetUnavailable && r.s.fleet.foreign {
		r.putDown(record.Incident{ID: record.ResetMissing, Arm: r.rd.Arm, Text: fmt.Sprintf(
			"%s's server at %s does not take the cache reset (%s); mend the key reset, or write reset: none", r.rd.Arm, address(r.url), resetAnswer(report))})
		return false, errStop
	}
	return report.Outcome != record.ResetUnavailable && report.Outcome != record.ResetFailed, nil
}

// reach makes sure that a server which somebody else runs is there. When it is not, the other one is looked for too: what
// both lack is no fault of head's.
func (r *round) reach(ctx context.Context) error {
	err := r.dial(ctx, r.rd.Arm)
	for try := 1; err != nil && try < reachTries && ctx.Err() == nil; try++ {
		r.say("wait", fmt.Sprintf("%s cannot be reached: %v", address(r.plan.Arms[r.rd.Arm].URL), err))
		if pauseErr := pause(ctx, reachEvery); pauseErr != nil {
			return pauseErr
		}
		err = r.dial(ctx, r.rd.Arm)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		r.s.served[r.rd.Arm] = true
		return nil
	}
	r.gone(r.rd.Arm, err)
	if err := r.dial(ctx, r.rd.Arm.Other()); err != nil && ctx.Err() == nil {
		r.gone(r.rd.Arm.Other(), err)
	}
	return errStop
}

func (r *round) gone(arm record.Arm, err error) {
	r.putDown(record.Incident{ID: record.ServerGone, Arm: arm, Text: fmt.Sprintf(
		"%s's server at %s cannot be reached (%v); tailgate did not start it and does not start it again", arm, address(r.plan.Arms[arm].URL), err)})
}

// dial opens a connection to a running server and closes it again. Its error has no URL in it.
func (r *round) dial(ctx context.Context, arm record.Arm) error {
	u, err := url.Parse(r.plan.Arms[arm].URL)
	if err != nil {
		return errors.New("not a URL")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443"}[u.Scheme]
		if port == "" {
			port = "80"
		}
	}
	conn, err := (&net.Dialer{Timeout: reachLimit}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	return conn.Close()
}

// open counts the requests to an arm's server that are not over.
func (s *Session) open(arm record.Arm) int64 {
	if o := s.flying[arm]; o != nil {
		return o.Load()
	}
	return 0
}

// flies remembers the count of requests in flight of the arm's latest offering.
func (r *round) flies(n *atomic.Int64) { r.s.flying[r.rd.Arm] = n }

// hits counts how much of the prompts of the first warm-up window a server's cache held.
type hits struct{ in, cached, said, silent int }

func (h *hits) add(s record.Sample, until record.Instant) {
	if s.Class != record.OK || s.Sched >= until {
		return
	}
	if s.NIn == nil || s.NCached == nil {
		h.silent++
		return
	}
	h.said++
	h.in += *s.NIn
	h.cached += *s.NCached
}

// rate is the share of prompt tokens that the cache held; n/a where the server does not say.
func (h *hits) rate() record.Value {
	switch {
	case h.said+h.silent == 0:
		return record.NA("no request of the first warm-up window succeeded")
	case h.in == 0:
		return record.NA("the server does not say how much of a prompt was cached")
	default:
		return record.Of(float64(h.cached) / float64(h.in))
	}
}
