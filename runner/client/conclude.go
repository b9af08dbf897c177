package client

import "github.com/tailgate-ci/tailgate/runner/record"

// graceTicks is graceTime in ticks of an instant.
const graceTicks = record.Instant(graceTime)

// conclude turns what an exchange left behind into its sample.
func (x *exchange) conclude() (record.Sample, record.Stream) {
	s, a := &x.s, x.ans
	if x.unsent.class != "" {
		x.settle(tally{})
		return *s, record.Stream{Seq: s.Seq}
	}
	t := a.tally()
	x.timings()
	s.Events, s.PayloadEvents = a.events, a.payloads
	s.BadEvents, s.BadUTF8, s.UnknownEvents, s.TrailingBytes = a.bad, a.badUTF8, a.unknown, a.trailing
	s.NIn, s.NCached, s.NOut, s.NReasoning, s.TokensFrom = t.in, t.cached, t.out, t.reasoning, t.from
	s.Flags, s.Server = a.flags(t), a.times.record()
	if len(a.choices) > 0 {
		s.Finish = a.choices[0].finish
	}
	if s.RequestID == "" {
		s.RequestID = a.id
	}
	s.TextSHA = a.textSHA()
	x.settle(t)
	return *s, a.stream(s.Seq, t.perEvent)
}

// settle decides the outcome, once, and tells whoever waits for it. After the end marker of a stream nothing can change it
// any more, and what depends on the answer need not wait until the connection is clean.
func (x *exchange) settle(t tally) {
	if x.s.Class != "" {
		return
	}
	o := x.unsent
	if o.class == "" {
		o = x.outcome(t)
	}
	x.s.Class, x.s.Detail = o.class, o.detail
	if x.r.Ended != nil {
		x.timings()
		x.r.Ended(x.s.End, o.class == record.OK)
	}
}

func (x *exchange) timings() {
	s, a := &x.s, x.ans
	s.First, s.FirstOut, s.Last, s.End = a.first.at, a.firstOut.at, a.last.at, a.over.at
	if !s.End.Reached() {
		s.End = a.finished.at
	}
}

// outcome decides the class. Order matters: what the answer itself said weighs more than how the connection ended.
func (x *exchange) outcome(t tally) outcome {
	a := x.ans
	switch {
	case x.head.status == 0 && x.wrote != nil:
		return x.writeOutcome()
	case x.head.status == 0:
		return breach{x.unread, x.s.Reused, x.silent}.outcome()
	}
	if o, ok := statusOutcome(&x.head, x.errorBody); !ok {
		return o
	}
	switch {
	case x.wrote != nil:
		return x.writeOutcome()
	case a.faulty, a.broken != "":
		return a.outcome(x.r.allowEmpty)
	case x.unread != nil:
		return breach{x.unread, x.s.Reused, false}.outcome()
	}
	o := a.outcome(x.r.allowEmpty)
	var failed string
	x.s.Assertions, failed = runChecks(x.r.checks, a, t, x.s.Status)
	if o.class == record.OK && failed != "" {
		return outcome{record.Assertion, failed}
	}
	return o
}

// writeOutcome classifies a request that could not be sent whole and got no answer of use.
func (x *exchange) writeOutcome() outcome {
	b := breach{x.wrote, x.s.Reused, x.silent}
	switch o := b.outcome(); {
	case x.watch.ctx.Err() != nil:
		return outcome{record.Cut, "while it was sent"}
	case o.class == record.ConnStale, o.class == record.ClientLimit:
		return o
	case x.overdue():
		_, limit := x.watch.due()
		return outcome{record.Timeout, limit + ", while the request was sent"}
	default:
		return outcome{record.Write, clean(x.wrote.Error(), maxDetail)}
	}
}

// overdue reports whether a limit other than our own short ones passed while the request was being written.
func (x *exchange) overdue() bool {
	w := x.watch
	w.refused = 0
	due, _ := w.due()
	return due <= x.watch.refused
}
