package runner

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/target"
)

// preflight asks an arm four requests before anything of it is measured, once in a session. What it finds ends the session
// or is noted:
//   - no request answered: the arm does not serve (a wrong dialect shows here, with the one the answer looks like);
//   - an answer that is not what was asked for, or not what base gave: figures would not be comparable;
//   - some requests failed, or no token counts in both arms: the rounds will tell how much that matters.
func (r *round) preflight(ctx context.Context) error {
	info := r.s.run.Arms.Get(r.rd.Arm)
	if info == nil || info.Probe != nil || r.s.run.Kind == record.KindLoad {
		return nil
	}
	r.say("probe", fmt.Sprintf("%d requests", record.ProbeRequests))
	report, err := r.client.Preflight(ctx, r.plan.Workload)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.putDown(record.Incident{ID: record.ProbeUnfit, Text: "the workload cannot be sent: " + err.Error()})
		return errStop
	}
	info.Probe = &report
	if in, ends := judgeProbe(r.rd.Arm, report, r.baseProbe()); ends {
		r.putDown(in)
		return errStop
	} else if in.Text != "" {
		r.s.note("probe", r.rd.Slot, in.Text)
	}
	return nil
}

// baseProbe is what base made of its four requests, nil for base itself and where it was not asked.
func (r *round) baseProbe() *record.ProbeReport {
	if base := r.s.run.Arms.Base; base != nil && r.rd.Arm == record.Head {
		return base.Probe
	}
	return nil
}

// putDown puts on record what ends the session in this round.
func (r *round) putDown(in record.Incident) {
	in.Log = r.ownLog()
	if r.rd.Slot >= 0 {
		slot := r.rd.Slot
		in.Slot = &slot
	}
	r.s.incident(in)
}

// ownLog is the log of a server that tailgate started; empty for another's.
func (r *round) ownLog() string {
	if r.s.fleet != nil && r.s.fleet.foreign {
		return ""
	}
	return r.logPath(1)
}

// judgeProbe says what a report means for an arm, given that of base. With ends true it is an incident; else its text, if
// any, is worth a note.
func judgeProbe(arm record.Arm, p record.ProbeReport, base *record.ProbeReport) (in record.Incident, ends bool) {
	in.Arm = arm
	if p.Failed > 0 {
		in.Text = fmt.Sprintf("%d of %d requests before the first round failed: %s", p.Failed, p.Sent, p.Failure)
		if p.Looks != "" {
			in.Text += "; " + p.Looks
		}
		in.ID = record.ProbeFailed
		if p.Failed == p.Sent {
			return in, true
		}
	}
	if wrong, ok := p.Wrong(); ok && wrong.Name != record.ProbeAnswers {
		in.ID, in.Text = record.ProbeUnfit, fmt.Sprintf("%s answers otherwise than it is asked to (%s): %s", arm, wrong.Name, wrong.Detail)
		if p.Looks != "" {
			in.Text += "; " + p.Looks
		}
		// A service that never counts tokens can be measured; what needs the counts is left out, and said to be.
		same := base == nil || base.TokensFrom == p.TokensFrom
		return in, wrong.Name != record.ProbeUsage || !same
	}
	if base == nil {
		return in, false
	}
	switch {
	case base.TokensFrom != p.TokensFrom:
		in.ID = record.ProbeUnfit
		in.Text = fmt.Sprintf("head counts its tokens by %s, base by %s: their figures are not comparable", orNothing(string(p.TokensFrom)), orNothing(string(base.TokensFrom)))
		return in, true
	case !sameModel(base.Model, p.Model):
		in.ID = record.ProbeUnfit
		in.Text = fmt.Sprintf("head answers as model %q, base as %q: name one model with target.model", p.Model, base.Model)
		return in, true
	}
	return in, false
}

// sameModel compares model ids. Servers that name a model by its file are compared by the file's name, since each arm has a
// folder of its own.
func sameModel(a, b string) bool { return a == "" || b == "" || path.Base(a) == path.Base(b) }

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// checkPorts ends a session whose server closes its connections so fast that this machine runs out of local ports. What
// the warm-up dialled tells; a server that keeps most of its connections is past suspicion.
func (r *round) checkPorts() error {
	dialled, reused := r.client.Connections()
	lasted := time.Duration(r.plan.Clock.Now() - r.rd.Phases.Warmup)
	if !r.rd.Phases.Warmup.Reached() || lasted <= 0 || reused >= dialled {
		return nil
	}
	if err := client.CheckPorts(float64(dialled) / lasted.Seconds()); err != nil {
		r.putDown(record.Incident{ID: record.PortsShort, Text: "the server closes its connections: " + err.Error()})
		return errStop
	}
	return nil
}

// mistaken is how often in a row a starting server must look like one of another dialect before the wait for it ends.
const mistaken = 3

// probe asks a server that says it is up for one real answer. One that answers like another dialect, and keeps doing so,
// will never be ready: better said now than when the time for it is over.
func (r *round) probe(ctx context.Context, url string) error {
	c, err := client.New(r.clientOptions(url))
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.Probe(ctx)
	probe, ok := errors.AsType[*client.ProbeError](err)
	if !ok || probe.Looks == "" {
		r.mistaken = 0
		return err
	}
	if r.mistaken++; r.mistaken < mistaken {
		return err
	}
	return &target.Error{ID: record.ProbeFailed, Text: err.Error()}
}
