package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// freeEvery is the pause between two tries at the port.
	freeEvery = 100 * time.Millisecond
	// cancelPortWait is what a cancelled stop still waits for the port.
	cancelPortWait = 500 * time.Millisecond
	// hurry is the grace of a stop that a supervisor with little patience asked for.
	hurry = time.Second
)

// ErrHurry as the cause of a cancelled context says that whoever cancelled kills soon: a stop then forces after a second.
var ErrHurry = errors.New("little time to stop")

// Stop ends the server and everything it started, and proves that nothing of it lives and that its port is free. When ctx
// ends, or has ended, the ladder is shortened so that all is gone within 5 s. A process that SIGKILL cannot end is
// record.RunnerDirty, a port that stays taken record.PortNotFreed; the report is filled in either case. Stopping twice
// returns the first answer.
func (s *Server) Stop(ctx context.Context) (record.StopReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return s.report, s.stopErr
	}
	s.stopped = true
	defer func() { s.endLedger(s.stopErr == nil) }()
	ladder := proc.Ladder{Signal: s.spec.Signal, Grace: s.spec.Grace, CancelGrace: s.spec.CancelGrace}
	if errors.Is(context.Cause(ctx), ErrHurry) {
		ladder.CancelGrace = min(ladder.CancelGrace, hurry)
	}
	end := s.group.End(ctx, ladder)
	s.report = record.StopReport{Seconds: end.Took.Seconds(), Signals: end.Signals, Forced: end.Forced}
	for _, command := range end.Escaped {
		s.report.Escaped = append(s.report.Escaped, s.spec.Mask(command))
	}
	if code, text := s.Exit(); text != "" {
		s.report.Exit = &code
	}
	if len(end.Left) > 0 {
		s.stopErr = s.fault(record.RunnerDirty, "%s", dirty(end.Left))
		return s.report, s.stopErr
	}
	wait, err := s.awaitPort(ctx)
	s.report.PortWait, s.stopErr = wait.Seconds(), err
	_ = os.RemoveAll(s.tmp) // what a server left in its TMPDIR, perhaps without permission to delete, blocks no round
	return s.report, s.stopErr
}

// dirty is the text for processes that cannot be ended.
func dirty(left []proc.Survivor) string {
	var names []string
	for _, p := range left {
		names = append(names, fmt.Sprintf("pid %d (%s, state %c)", p.PID, p.Command, p.State))
	}
	return "SIGKILL does not end " + strings.Join(names, ", ") + "; the runner needs a restart"
}

// awaitPort waits until the port can be bound and nobody listens on it, and returns how long that took. TIME_WAIT is no
// obstacle: the next server may bind in spite of it.
func (s *Server) awaitPort(ctx context.Context) (time.Duration, error) {
	began, limit := time.Now(), s.spec.PortWait
	tick := time.NewTicker(freeEvery)
	defer tick.Stop()
	done := ctx.Done()
	for first := true; ; first = false {
		listeners, err := reachable(s.port)
		if err == nil && len(listeners) == 0 {
			err = bind(s.port, [4]byte{127, 0, 0, 1}, true)
		}
		waited := time.Since(began)
		if err == nil && len(listeners) == 0 {
			if first {
				return 0, nil
			}
			return waited, nil
		}
		if ctx.Err() != nil && done != nil {
			done, limit = nil, min(limit, waited+cancelPortWait)
		}
		if waited >= limit {
			return waited, s.notFreed(listeners, err)
		}
		select {
		case <-done:
		case <-tick.C:
		}
	}
}

func (s *Server) notFreed(listeners []proc.Listener, err error) error {
	holder := fmt.Sprint(err)
	if len(listeners) > 0 {
		holder = "held by " + proc.Table{}.Holder(listeners[0])
	}
	return s.fault(record.PortNotFreed, "port %d is not free although the server is gone: %s", s.port, holder)
}
