package runner

import (
	"errors"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// withdraw takes back everything that was not released. Of those that wait for a place, measured requests keep waiting.
func (o *offering) withdraw() {
	o.agenda.close()
	if o.loop != nil {
		o.loop.stop()
	}
	if o.places != nil {
		for _, t := range o.places.drop(func(t turnRef) bool {
			return t.b.phase(t.i, record.Instant(t.b.flights[t.i].sched.Load())) != record.PhaseMeasure
		}) {
			f := &t.b.flights[t.i]
			f.stage.Store(stageWithdrawn)
			close(f.gate)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for b := range o.batches {
		for i := range b.flights {
			f := &b.flights[i]
			if f.stage.CompareAndSwap(stageReady, stageWithdrawn) {
				close(f.gate)
			} else if !f.stage.CompareAndSwap(stageNew, stageWithdrawn) {
				f.stage.CompareAndSwap(stageDue, stageWithdrawn)
			}
		}
	}
}

// leftover records the first n requests that were due and never released, so that what could not be sent is counted: as
// timeouts when the server stalled, else as our own failure to send.
func (o *offering) leftover(b *batch, n int, cause error) {
	for _, i := range b.independent {
		if i >= n || b.flights[i].reported {
			continue
		}
		turn := b.requests[i].Turn
		sample := record.Sample{
			V: record.SampleVersion, Seq: b.seq + i, ID: turn.ID, Conv: turn.Conv, Turn: turn.N, Phase: record.PhaseMeasure,
			Sched: b.start + record.Instant(b.requests[i].Offset), Class: record.Unsent, Detail: "the pacer did not release it",
			InPlanned: turn.InTokens, OutPlanned: turn.Out.Tokens,
		}
		if errors.Is(cause, errStalled) {
			sample.Class, sample.Detail = record.Timeout, "no_progress: not sent, the server had stalled"
		}
		o.results <- result{sample, record.Stream{Seq: sample.Seq}}
	}
}
