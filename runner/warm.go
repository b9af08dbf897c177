package runner

import (
	"context"
	"errors"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/steady"
)

// warm offers warm-up windows back to back until decide ends it, ctx ends, or the server exits. Requests in flight are
// then waited for, so that the measured interval meets a quiet server in its warm state.
func (r *round) warm(ctx context.Context, decide func(record.SteadyWindow) steady.Decision) error {
	declared := r.s.run.Declared
	plan, err := Traffic(r.plan.Workload, declared)
	if err != nil {
		return err
	}
	window := record.Instant(declared.Warmup.Window)
	m := newMeter(0, declared.Warmup.Window, Streams(r.plan.Workload))
	started := make(chan record.Instant, 1)
	begin := func() record.Instant {
		start := r.plan.Clock.Now() + record.Instant(settle)
		r.rd.Phases.Warmup = start
		m.begin(start)
		started <- start
		return start
	}
	releasing, stopReleasing := context.WithCancel(ctx)
	defer stopReleasing()
	c := (&collector{
		writer: r.rw, space: r.space, broke: r.abandon, cause: r.cause,
		seen: func(s record.Sample) {
			m.ended(s, r.plan.Clock.Now())
			r.flights.add(s)
			r.hits.add(s, r.rd.Phases.Warmup+window)
		},
	}).start()
	verdict := make(chan error, 1)
	go func() {
		defer stopReleasing()
		verdict <- r.judgeWindows(releasing, m, started, decide)
	}()
	k := 0
	o := &offering{client: r.client, clock: r.plan.Clock, workload: r.plan.Workload, results: c.results, tap: m.event}
	r.flies(&o.inFlight)
	if r.rd.Reset != nil {
		r.rd.Reset.Possible = r.plan.Workload.GreatestShare(plan.Warmup(0))
	}
	var start record.Instant
	if declared.Load.Kind == record.ClosedLoop {
		m.closed = true
		o.loop = newClosedLoop(declared.Load, begin)
	} else {
		start = begin()
		if declared.Load.MaxInFlight > 0 {
			o.places = &places{free: declared.Load.MaxInFlight}
		}
	}
	err = o.run(releasing, r.cut, func() *batch {
		requests := plan.Warmup(k)
		tokens := 0
		for _, q := range requests {
			tokens += q.Turn.Out.Tokens
		}
		m.offer(k, len(requests), tokens)
		b := newBatch(requests, start+record.Instant(k)*window, r.seq, func(int, record.Instant) record.Phase { return record.PhaseWarmup })
		k++
		r.seq += len(requests)
		return b
	})
	stopReleasing()
	r.rate = m.rate()
	return errors.Join(err, <-verdict, c.close())
}

// judgeWindows reads each window when it is over and asks decide.
func (r *round) judgeWindows(ctx context.Context, m *meter, started <-chan record.Instant, decide func(record.SteadyWindow) steady.Decision) error {
	exited := r.exited()
	var start record.Instant
	select {
	case start = <-started:
	case <-exited:
		return errCrashed
	case <-ctx.Done():
		return nil
	}
	for k := 0; ; k++ {
		end := start + record.Instant(k+1)*record.Instant(m.window)
		timer := pauseTimer(r.plan.Clock.Until(end))
		select {
		case <-timer:
		case <-exited:
			return errCrashed
		case <-ctx.Done():
			return nil
		}
		if decide(m.read(k)) != steady.Continue {
			return nil
		}
	}
}

// exited is closed when the server leaves; nil, which blocks for ever, for a server we did not start.
func (r *round) exited() <-chan struct{} {
	if r.server == nil {
		return nil
	}
	return r.server.Exited()
}

// cause is why the round's requests were cut; nil while they are not.
func (r *round) cause() error { return context.Cause(r.cut) }
