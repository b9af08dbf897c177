package proc

import (
	"cmp"
	"context"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stepEvery is how often a stop looks again, and repeats SIGKILL once it has come to that.
	stepEvery = 50 * time.Millisecond
	// killLimit bounds [Group.Kill]: the user has pressed Ctrl-C twice.
	killLimit = 200 * time.Millisecond
	// cancelPersist is how long a cancelled stop repeats SIGKILL before it lists what is left.
	cancelPersist = time.Second
)

// Ladder says how insistently a group is ended. Its zero value is the default.
type Ladder struct {
	// Signal asks a process to end. 0 is SIGTERM.
	Signal syscall.Signal
	// Grace is the time from asking to SIGKILL. 0 is 20 s; negative means SIGKILL at once, without asking.
	Grace time.Duration
	// CancelGrace bounds what is left of Grace once the context ends. 0 is 4 s.
	CancelGrace time.Duration
	// Persist is how long SIGKILL is repeated before a process counts as unkillable. 0 is 60 s; at most 1 s once the
	// context has ended.
	Persist time.Duration
	// Ask stands in for the first signal to the direct child, nil for none. It must not block. The signal then goes out at
	// half the grace, to every process of ours that is left.
	Ask func()
	// Last is called once before SIGKILL, if anything of ours is left and the context has not ended; nil for nothing. It may
	// block, and must return when its context ends.
	Last func(context.Context)
}

func (l Ladder) withDefaults() Ladder {
	l.Signal = cmp.Or(l.Signal, syscall.SIGTERM)
	l.Grace = cmp.Or(l.Grace, 20*time.Second)
	l.CancelGrace = cmp.Or(l.CancelGrace, 4*time.Second)
	l.Persist = cmp.Or(l.Persist, time.Minute)
	l.Grace = max(l.Grace, 0) // negative: due at once
	return l
}

// Survivor is a process of ours that could not be ended.
type Survivor struct {
	Process
	// Command is masked, cleaned and at most 200 bytes.
	Command string
}

// Report is how a group went away.
type Report struct {
	Took time.Duration
	// Signals lists the signals sent, in order of first use, e.g. SIGTERM, SIGKILL.
	Signals []string
	// Forced counts the processes that needed SIGKILL; Leader is true when the direct child is one of them.
	Forced int
	Leader bool
	// Escaped lists the commands of processes that had left the child's session, sorted, masked and cleaned.
	Escaped []string
	// Left lists what still lives; empty when all is gone.
	Left []Survivor
}

// Stop is [Group.End] without cancellation: ask with the signal, force after the grace.
func (g *Group) Stop(signal syscall.Signal, grace time.Duration) Report {
	return g.End(context.Background(), Ladder{Signal: signal, Grace: grace})
}

// End ends the child and all its descendants, and returns when none lives or the ladder's top is reached.
//
// It asks the direct child first, as a supervisor would; at half the grace, or when the direct child is gone, it asks
// every other process of ours, each once; at the grace it sends SIGKILL to the group and to each of ours, again and
// again, since a process may fork meanwhile. When ctx ends, everything is asked at once and the grace shrinks to
// CancelGrace. Ending a group that is gone is quick and reports nothing sent.
func (g *Group) End(ctx context.Context, l Ladder) Report {
	s := &stop{
		group: g, ladder: l.withDefaults(), began: time.Now(),
		asked: map[ID]bool{}, forced: map[ID]bool{}, escaped: map[ID]string{},
	}
	s.run(ctx)
	s.report.Took = time.Since(s.began)
	s.report.Forced, s.report.Leader = len(s.forced), s.forced[g.leader]
	for _, command := range s.escaped {
		s.report.Escaped = append(s.report.Escaped, command)
	}
	slices.Sort(s.report.Escaped)
	return s.report
}

// Kill sends SIGKILL to everything of ours and returns within 0.3 s. It may be called while another goroutine is in
// [Group.End].
func (g *Group) Kill() {
	g.End(context.Background(), Ladder{Grace: -1, Persist: killLimit})
}

// stop is one descent of the ladder.
type stop struct {
	group   *Group
	ladder  Ladder
	began   time.Time
	all     bool // everything is to be asked, not only the direct child
	asked   map[ID]bool
	forced  map[ID]bool
	escaped map[ID]string
	report  Report
}

func (s *stop) run(ctx context.Context) {
	tick := time.NewTicker(stepEvery)
	defer tick.Stop()
	cancelled, exited := ctx.Done(), s.group.exited
	if s.ladder.Ask != nil {
		s.ladder.Ask()
	}
	for {
		if ctx.Err() != nil && cancelled != nil {
			cancelled = nil
			s.hurry()
		}
		living := s.group.look(true)
		s.note(living)
		if len(living) == 0 && s.group.gone() {
			return
		}
		elapsed := time.Since(s.began)
		switch {
		case elapsed >= s.ladder.Grace+s.ladder.Persist:
			s.leave(living)
			return
		case elapsed >= s.ladder.Grace && s.plead(ctx):
			continue
		case elapsed >= s.ladder.Grace:
			s.force(living)
		default:
			s.all = s.all || elapsed >= s.ladder.Grace/2 || s.ladder.Ask == nil && s.group.gone()
			s.ask(living)
		}
		select {
		case <-cancelled:
		case <-exited:
			exited = nil
		case <-tick.C:
		}
	}
}

// hurry shortens what is left of the ladder after a cancellation.
func (s *stop) hurry() {
	s.all = true
	s.ladder.Grace = min(s.ladder.Grace, time.Since(s.began)+s.ladder.CancelGrace)
	s.ladder.Persist = min(s.ladder.Persist, cancelPersist)
}

// plead makes the last call before force, and reports whether there was one. The time it took is no part of the grace.
func (s *stop) plead(ctx context.Context) bool {
	last := s.ladder.Last
	if s.ladder.Last = nil; last == nil || ctx.Err() != nil {
		return false
	}
	last(ctx)
	s.ladder.Grace = time.Since(s.began)
	return true
}

// ask sends the polite signal once to each process that is due for it. A second one would mean "at once" to many servers.
func (s *stop) ask(living []Process) {
	for _, p := range living {
		if s.asked[p.ID] || !s.all && (p.ID != s.group.leader || s.ladder.Ask != nil) {
			continue
		}
		s.asked[p.ID] = true
		if s.group.signal(p.ID, s.ladder.Signal) == nil {
			s.sent(s.ladder.Signal)
		}
	}
}

func (s *stop) force(living []Process) {
	for _, p := range living {
		s.forced[p.ID] = true
	}
	if slices.ContainsFunc(living, func(p Process) bool { return p.PGID == s.group.leader.PID }) {
		if killGroup(s.group.leader) == nil {
			s.sent(unix.SIGKILL)
		}
	}
	for _, p := range living {
		if s.group.signal(p.ID, unix.SIGKILL) == nil {
			s.sent(unix.SIGKILL)
		}
	}
}

func (s *stop) sent(sig syscall.Signal) {
	if name := unix.SignalName(sig); !slices.Contains(s.report.Signals, name) {
		s.report.Signals = append(s.report.Signals, name)
	}
}

// note remembers the commands of those that left the session, while they still have one.
func (s *stop) note(living []Process) {
	for _, p := range living {
		if _, known := s.escaped[p.ID]; !known && p.SID != s.group.leader.PID {
			s.escaped[p.ID] = s.group.table.Command(p.PID, s.group.mask)
		}
	}
}

func (s *stop) leave(living []Process) {
	for _, p := range living {
		command := s.group.table.Command(p.PID, s.group.mask)
		if command == "" {
			command = Clean("["+p.Comm+"]", commandLimit)
		}
		s.report.Left = append(s.report.Left, Survivor{Process: p, Command: command})
	}
}
