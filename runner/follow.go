package runner

import (
	"time"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// followAhead is the [lookAhead] of a turn that waits for another: its conversation has thought for long enough that memory is
// no concern, and its connection must still be dialled ahead.
const followAhead = 20*time.Millisecond + client.DialAhead

// wake has the turns follow that waited for a request, or aborts them when it failed.
func (o *offering) wake(t turnRef, end record.Instant, ok bool) {
	b := t.b
	for _, j := range b.followers(t.i) {
		o.mu.Lock()
		f := &b.flights[j]
		f.waiting--
		f.latest = max(f.latest, end)
		f.aborted = f.aborted || !ok
		ready, aborted, latest := f.waiting == 0, f.aborted, f.latest
		o.mu.Unlock()
		if !ready {
			continue
		}
		if aborted {
			o.abort(turnRef{b, j})
			continue
		}
		due := latest + record.Instant(b.requests[j].Delay)
		if at := b.start + record.Instant(b.requests[j].Offset); b.requests[j].Offset > 0 && o.loop == nil {
			due = max(due, at)
		}
		o.follow(turnRef{b, j}, due)
	}
}

// follow has a turn sent at its due time. While its conversation thinks it holds an entry of the agenda and nothing else.
func (o *offering) follow(t turnRef, due record.Instant) {
	if t.i < t.b.awaited && t.b.phase(t.i, due) != record.PhaseMeasure {
		// It falls behind the measured interval, and so does what follows from it: nobody waits for them.
		t.b.settleAll(t.i)
	}
	o.flying.Add(1)
	release := func() {
		defer o.flying.Done()
		if o.loop != nil {
			o.loop.arrive(t, due)
			return
		}
		o.release(t, due, o.clock.Now())
	}
	prepare := func() {
		o.flying.Go(func() { o.prepare(t, due) })
		if due <= o.clock.Now() {
			release()
			return
		}
		o.agenda.at(due, release, o.flying.Done)
	}
	if start := due - record.Instant(followAhead); start > o.clock.Now() {
		o.agenda.at(start, prepare, o.flying.Done)
		return
	}
	prepare()
}

// abort records a turn that was never sent because an earlier one of its conversation failed.
func (o *offering) abort(t turnRef) {
	due := o.clock.Now()
	b, turn := t.b, t.b.requests[t.i].Turn
	sample := record.Sample{
		V: record.SampleVersion, Seq: b.seq + t.i, ID: turn.ID, Conv: turn.Conv, Turn: turn.N, Phase: b.phase(t.i, due), Sched: due,
		Class: record.ConversationAborted, Detail: "an earlier turn of its conversation failed",
		InPlanned: turn.InTokens, OutPlanned: turn.Out.Tokens,
	}
	o.results <- result{sample, record.Stream{Seq: sample.Seq}}
	o.wake(t, due, false)
	b.settle(t.i)
	o.leave(b)
}
