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

// hurry is the grace of a stop that a supervisor with little patience asked for.
const hurry = time.Second

// ErrHurry as the cause of a cancelled context says that whoever cancelled kills soon: a stop then forces after a second.
var ErrHurry = errors.New("little time to stop")

// Stop ends the server and everything it started, and proves that nothing of it lives, that its port is free and that the
// watched devices are back at their level. When ctx ends, or has ended, the ladder is shortened so that all is gone within 5 s.
// A process that SIGKILL cannot end is record.RunnerDirty, a port that stays taken record.PortNotFreed, a device that stays
// full record.MemoryNotFreed; the report is filled in either case. Stopping twice returns the first answer.
func (s *Server) Stop(ctx context.Context) (record.StopReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return s.report, s.stopErr
	}
	s.stopped = true
	defer func() { s.endLedger(s.stopErr == nil) }()
	shared := s.mapped()
	end := s.end(ctx)
	s.report = record.StopReport{
		Seconds: end.Took.Seconds(), Signals: end.Signals, Forced: end.Forced, Leader: end.Leader, Slow: end.Took >= s.spec.Grace/2,
	}
	for _, command := range end.Escaped {
		s.report.Escaped = append(s.report.Escaped, s.spec.Mask(command))
	}
	if len(end.Left) > 0 {
		s.stopErr = s.fault(record.RunnerDirty, "%s", s.dirty(end.Left))
		return s.report, s.stopErr
	}
	s.report.Exit = new(s.group.Wait().Code)
	s.tellShared(shared)
	s.stopErr = s.prove(ctx)
	_ = os.RemoveAll(s.tmp) // what a server left in its TMPDIR, perhaps without permission to delete, blocks no round
	return s.report, s.stopErr
}

// end descends the ladder, by signal or by the user's command.
func (s *Server) end(ctx context.Context) proc.Report {
	ladder := proc.Ladder{Signal: s.spec.Signal, Grace: s.spec.Grace, CancelGrace: s.cancelGrace(ctx)}
	if s.spec.StopCommand == "" {
		return s.group.End(ctx, ladder)
	}
	began := time.Now()
	o := &order{s: s, ctx: ctx, first: make(chan struct{})}
	ladder.Ask, ladder.Last = o.give, func(context.Context) { o.repeat() }
	report := s.group.End(ctx, ladder)
	if len(report.Left) == 0 {
		o.settle(began)
		report.Took = time.Since(began)
	}
	return report
}

// cancelGrace is what a cancelled stop has left.
func (s *Server) cancelGrace(ctx context.Context) time.Duration {
	if errors.Is(context.Cause(ctx), ErrHurry) {
		return min(s.spec.CancelGrace, hurry)
	}
	return s.spec.CancelGrace
}

// prove shows that the port is free and that the devices are back at their level, and puts both waits into the report.
func (s *Server) prove(ctx context.Context) error {
	ended, ours := s.spec.Clock.Now(), s.everyone()
	p := proof{port: s.portFree, portLimit: s.spec.PortWait, memoryLimit: s.spec.MemoryTimeout}
	if len(s.spec.Ground.memory()) > 0 {
		floor := s.spec.Ground.level
		if s.spec.Beside {
			floor = s.level
		}
		p.memory = func() freedom { return s.spec.Ground.freed(floor, ended, ours) }
	}
	found := p.wait(ctx)
	s.report.PortWait, s.report.MemoryWait = found.port.Seconds(), found.memory
	if found.unproven != "" {
		s.note("memory_not_proven", "that the server's GPU memory is free was not proven: %s", found.unproven)
	}
	switch {
	case found.portHeld:
		return s.notFreed()
	case found.memoryHeld != "":
		waited, _ := found.memory.Finite()
		return s.fault(record.MemoryNotFreed, "%s, %.3g s after the server's end; end what holds it or restart the runner, or raise target.stop.memory_timeout",
			found.memoryHeld, waited)
	default:
		return nil
	}
}

// dirty is the text for processes that cannot be ended: who, in which state, and what they hold of the GPU.
func (s *Server) dirty(left []proc.Survivor) string {
	var names []string
	var pids []int
	for _, p := range left {
		names = append(names, fmt.Sprintf("pid %d (%s, state %c)", p.PID, p.Command, p.State))
		pids = append(pids, p.PID)
	}
	text := "SIGKILL does not end " + strings.Join(names, ", ")
	if held := s.spec.Ground.occupied(pids); held != "" {
		text += "; " + held
	}
	return text + "; the runner needs a restart"
}

// portFree reports whether the port can be bound and nobody listens on it. TIME_WAIT is no obstacle: the next server may bind
// in spite of it.
func (s *Server) portFree() bool {
	listeners, err := reachable(s.port)
	return err == nil && len(listeners) == 0 && bind(s.port, [4]byte{127, 0, 0, 1}, true) == nil
}

// notFreed names what keeps the port.
func (s *Server) notFreed() error {
	listeners, err := reachable(s.port)
	if err == nil && len(listeners) == 0 {
		err = bind(s.port, [4]byte{127, 0, 0, 1}, true)
	}
	holder := fmt.Sprint(err)
	if len(listeners) > 0 {
		holder = "held by " + proc.Table{}.Holder(listeners[0])
	}
	return s.fault(record.PortNotFreed, "port %d is not free although the server is gone: %s", s.port, holder)
}
