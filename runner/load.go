package runner

import (
	"context"
	"errors"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// Streams reports whether the workload asks for answers token by token, which is the default.
func Streams(w *workload.Workload) bool {
	s := w.Manifest.Params.Stream
	return s == nil || *s
}

// Load measures one round against a server that is already running: nothing is built, started, stopped or proven. Its
// results stand in the run like those of [Session.Run].
func (s *Session) Load(ctx context.Context, url string) error {
	s.run.Status = record.StatusRunning
	if err := s.save("load_started"); err != nil {
		return s.broken(err)
	}
	rw, err := s.plan.Writer.Round(0, record.Head)
	if err != nil {
		return s.broken(err)
	}
	s.slot = 1
	r := newRound(s, record.Round{Arm: record.Head, State: record.RoundRunning}, rw)
	r.selfTest(ctx)
	err = r.connect(url)
	if err == nil {
		r.rd.Phases.Ready = s.plan.Clock.Now()
		err = r.measure(ctx)
	}
	s.run.Rounds = append(s.run.Rounds, r.rd)
	s.run.Finished = s.plan.Clock.Now()
	switch {
	case ctx.Err() != nil:
		s.run.Status = record.StatusCancelled
	case err != nil && !errors.Is(err, errStop):
		return s.broken(err)
	default:
		s.run.Status = record.StatusComplete
	}
	return s.save("load_" + string(s.run.Status))
}
