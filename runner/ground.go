package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/target"
)

// listEvery is how often a device is asked for its list of processes while a server's end is proven.
const listEvery = time.Second

// survey notes what the machine was before the session: its processes, and what the watched devices held.
func (s *Session) survey() error {
	ground, err := target.Survey(s.plan.memory())
	s.ground = ground
	return err
}

// memory reads the watched devices; nil when none is.
func (p *Plan) memory() func() []target.Memory {
	if !p.observing() {
		return nil
	}
	var mu sync.Mutex
	asked := time.Now()
	return func() []target.Memory {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(asked) >= listEvery {
			asked = time.Now()
			p.Telemetry.Edge("proof")
		}
		var all []target.Memory
		for _, m := range p.Telemetry.Memory() {
			all = append(all, target.Memory{UUID: m.Dev, T: m.T, Used: m.UsedB, Total: m.TotalB, PIDs: m.PIDs, Listed: m.Listed})
		}
		return all
	}
}

// stopLogPath is where the output of the stop command goes, in the run folder: beside the server's log.
func (r *round) stopLogPath() string {
	log := r.logPath(1)
	if r.log != "" { // of a server that outlives a round, in a folder it shares with others
		return strings.TrimSuffix(log, ".log") + "-stop.log"
	}
	return filepath.Join(filepath.Dir(log), "stop.log")
}

// parted puts on record how the server went away: its remarks, and a line with both waits. A stop that was to be clean and was
// not is an incident, unless the stop was cut short by a cancellation.
func (r *round) parted(ctx context.Context, server *target.Server) error {
	for _, n := range server.Notes() {
		r.s.note(n.ID, r.rd.Slot, n.Text)
	}
	report := r.rd.Stop
	if force := report.Force(); force != "" {
		text := force
		if len(report.Escaped) > 0 {
			text += "; had left the session: " + strings.Join(report.Escaped, ", ")
		}
		r.s.note("stop_forced", r.rd.Slot, text)
	} else if report.Slow {
		r.s.note("stop_slow", r.rd.Slot, "the server left by itself, but "+orSlow(report))
	}
	if text := partingText(report); text != "" {
		r.say("stop", text)
	}
	if !r.plan.Arms[r.rd.Arm].CleanStop || ctx.Err() != nil || report.Forced == 0 && !report.Slow {
		return nil //nolint:nilerr // a cancelled stop is short of time, not unclean
	}
	in := record.Incident{
		ID: record.StopNotClean, Arm: r.rd.Arm, Exit: report.Exit, Log: r.logPath(1),
		Text: fmt.Sprintf("the server did not stop cleanly, as target.stop.required asks: %s", orSlow(report)),
	}
	if r.rd.Slot >= 0 {
		slot := r.rd.Slot
		in.Slot = &slot
	}
	r.s.incident(in)
	return errStop
}

// orSlow says what was not clean.
func orSlow(report record.StopReport) string {
	if force := report.Force(); force != "" {
		return force
	}
	return fmt.Sprintf("it took %.1f s, half its grace or more", report.Seconds)
}

// partingText is what a log says of a stop; empty when nothing had to be waited for.
func partingText(report record.StopReport) string {
	var parts []string
	if force := report.Force(); force != "" {
		parts = append(parts, force)
	}
	memory, watched := report.MemoryWait.Finite()
	if report.PortWait > 0 || watched && memory > 0 {
		parts = append(parts, fmt.Sprintf("waited %.1f s for the port", report.PortWait))
		if watched {
			parts = append(parts, fmt.Sprintf("%.1f s for GPU memory", memory))
		}
	}
	return strings.Join(parts, ", ")
}
