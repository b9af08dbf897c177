package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tailgate-ci/tailgate/runner/pace"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// digested bounds the requests that the wire digest of a closed loop covers: there the whole workload may be sent, and
// those that were not are serialised for it afterwards.
const digested = 10_000

// interval is the measured part of a round under way.
type interval struct {
	r *round
	o *offering
	b *batch
	// planned counts the requests of the interval; in a closed loop those it may take.
	planned   int
	releasing context.Context
	stop      context.CancelFunc
	timers    []*time.Timer
}

// interval measures. Before it, the garbage of the warm-up is collected, so that the interval does not pay for it.
func (r *round) interval() error {
	defer pace.Calm()()
	r.edge("start")
	declared := r.s.run.Declared
	plan, err := Traffic(r.plan.Workload, declared)
	if err != nil {
		return err
	}
	n := &interval{r: r, planned: len(plan.Measured)}
	n.releasing, n.stop = context.WithCancel(r.cut)
	defer n.stop()
	watch := newProgress(r.plan.Clock)
	n.o = &offering{client: r.client, clock: r.plan.Clock, workload: r.plan.Workload, tap: watch.token}
	r.flies(&n.o.inFlight)
	r.c = n.collect()
	n.o.results = r.c.results
	defer watch.guard(declared.Limits.NoProgress, &n.o.inFlight, func() { r.abandon(errStalled) })()
	vouched := r.vouchFor()
	if declared.Load.Kind == record.ClosedLoop {
		n.closed(plan.Measured)
	} else {
		n.open(plan)
	}
	err = n.offer()
	r.rd.Phases.Drained = r.plan.Clock.Now()
	vouched()
	r.edge("end")
	r.rd.Client.WireSHA256 = n.digest()
	n.remark()
	return err
}

// open has the requests sent by the schedule, from a moment after now on.
func (n *interval) open(plan *workload.Plan) {
	load := n.r.s.run.Declared.Load
	m0 := n.begin()
	m1 := n.r.rd.Phases.M1
	n.b = newBatch(slices.Concat(plan.Measured, plan.Tail), m0, n.r.seq, func(i int, due record.Instant) record.Phase {
		if i < n.planned && due < m1 {
			return record.PhaseMeasure
		}
		return record.PhaseTail
	})
	n.b.await(n.planned, n.stop)
	if load.MaxInFlight > 0 {
		n.o.places = &places{free: load.MaxInFlight}
	}
	n.r.say("measure", fmt.Sprintf("%s, %d requests", n.r.s.run.Declared.Measure, n.planned))
}

// closed has the requests sent by slots, which open when each has its first request ready.
func (n *interval) closed(requests []workload.Request) {
	d := n.r.s.run.Declared
	loop := newClosedLoop(d.Load, n.begin)
	loop.measure, loop.done = d.Measure, n.stop
	n.o.loop = loop
	n.b = newBatch(requests, 0, n.r.seq, func(_ int, due record.Instant) record.Phase { return loop.phase(due) })
	n.r.say("measure", fmt.Sprintf("%s, closed loop of %d slots over at most %d requests", d.Measure, d.Load.Concurrency, n.planned))
	if text := n.short(); text != "" {
		n.r.say("measure", text)
	}
}

// begin fixes the interval, a moment from now, and starts its account.
func (n *interval) begin() record.Instant {
	r, d := n.r, n.r.s.run.Declared
	gap := settle
	if r.plan.observing() {
		gap = settleGPU
	}
	m0 := r.plan.Clock.Now() + record.Instant(gap)
	m1 := m0 + record.Instant(d.Measure)
	r.rd.Phases.M0, r.rd.Phases.M1 = m0, m1
	n.timers = append(
		n.timers,
		time.AfterFunc(r.plan.Clock.Until(m1)+tailLimit, n.stop),
		time.AfterFunc(r.plan.Clock.Until(m1)+d.Limits.Drain, func() { r.abandon(errDrain) }),
	)
	return m0
}

// offer sends the measured requests and the tail, ends the tail when the measured ones are done, and cuts what is open at
// the drain limit.
func (n *interval) offer() error {
	r, sent := n.r, false
	err := n.o.run(n.releasing, r.cut, func() *batch {
		if sent {
			return nil
		}
		sent = true
		return n.b
	})
	for _, t := range n.timers {
		t.Stop()
	}
	if n.o.loop != nil {
		r.rd.Phases.M1, _ = n.o.loop.ended()
	} else if context.Cause(r.cut) == nil || errors.Is(context.Cause(r.cut), errStalled) {
		n.o.leftover(n.b, n.planned, r.cause())
	}
	return errors.Join(err, r.c.close())
}

func (n *interval) collect() *collector {
	r, planned := n.r, n.planned
	if r.s.run.Declared.Load.Kind == record.ClosedLoop {
		planned = Uncounted
	}
	return (&collector{
		writer: r.rw, space: r.space, broke: r.abandon, cause: r.cause,
		tick: func(done, failed int, p50, p99 record.Value) {
			r.plan.say(Progress{
				Slot: r.rd.Slot, Slots: r.s.slot, Arm: r.rd.Arm, Pair: r.rd.Pair, Phase: "measure", Done: done, Planned: planned, Failed: failed,
				InFlight: record.Of(float64(n.o.inFlight.Load())), P50: p50, P99: p99,
			})
		},
	}).start()
}

// digest is over what the workload has sent on the wire. Requests that were never sent, because an earlier turn failed or
// took too long, or because no slot came to them, are serialised for it now: what differs must be the bytes, not how far
// the server let the round come. A closed loop has no offsets of its own, so there the digest is over bytes alone.
func (n *interval) digest() string {
	count, offsets := n.planned, true
	if n.o.loop != nil {
		count, offsets = min(count, digested), false
	}
	for i := range count {
		if n.b.bodies[i].Load() == nil {
			n.o.encode(turnRef{n.b, i})
		}
	}
	return n.b.wireDigest(count, offsets)
}

// remark flags what limits the use of the round.
func (n *interval) remark() {
	if n.o.places != nil && n.o.places.limited() {
		n.r.flag("client_limited")
	}
	if n.o.loop == nil {
		return
	}
	if m1, dry := n.o.loop.ended(); dry {
		n.r.flag("workload_ran_out")
		n.r.s.note("workload_ran_out", n.r.rd.Slot, fmt.Sprintf(
			"the workload's %d requests were all sent after %.1f s of %s: the measured interval ends there; shorten load.measure or build a longer workload",
			n.planned, time.Duration(m1-n.r.rd.Phases.M0).Seconds(), n.r.s.run.Declared.Measure,
		))
	}
}

// short says beforehand that the workload will not last, by the rate of the warm-up; empty when it will.
func (n *interval) short() string {
	d := n.r.s.run.Declared
	if n.r.rate <= 0 || float64(n.planned)/n.r.rate >= d.Measure.Seconds() {
		return ""
	}
	return fmt.Sprintf("at the %.3g requests/s of the warm-up the workload's %d requests last %.0f s of %s; the interval will end there",
		n.r.rate, n.planned, float64(n.planned)/n.r.rate, d.Measure)
}
