package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// sensor keeps one sensor process alive for a session: it starts it, believes it within limits, kills it when it hangs and
// starts it again while the budget lasts. It implements [Source].
type sensor struct {
	name    string
	version string
	launch  launch
	clock   record.Clock
	mono    func() int64
	log     io.Writer
	store   *store

	// edges are tokens to be sent; rounds counts restarts since the round began.
	edges chan string
	round atomic.Int32

	session int
	skip    []string
	// offset turns the sensor's stamps into instants; unstamped is set for good when they are not of our clock.
	offset    int64
	judged    bool
	unstamped bool
	tally     tally
}

// Name is the sensor's file name.
func (s *sensor) Name() string { return s.name }

// Run keeps the sensor until ctx ends or the sensor is lost. It returns after the process has ended, except when that one
// cannot be killed.
func (s *sensor) Run(ctx context.Context) {
	for {
		l := &life{sensor: s, watch: watchdog{last: s.mono()}}
		end := l.live(ctx)
		if ctx.Err() != nil {
			return
		}
		if end.final || !s.mayRestart(&end) {
			s.store.trouble(s.clock.Now(), end.text, true)
			return
		}
		s.store.trouble(s.clock.Now(), end.text+"; started again", false)
	}
}

// ending is how one life of the process went: the text for people, whether a new one is pointless, and the symbol at
// which it died of a missing or broken driver function.
type ending struct {
	text   string
	final  bool
	symbol string
}

// mayRestart takes one restart from the budgets, or says in the text that they are spent.
func (s *sensor) mayRestart(end *ending) bool {
	if s.session >= restartsPerSession || s.round.Load() >= restartsPerRound {
		end.text += "; not started again, restarts are spent"
		return false
	}
	s.session++
	s.round.Add(1)
	if end.symbol != "" {
		s.skip = append(s.skip, end.symbol)
	}
	return true
}

// args are the sensor's arguments: the driver symbols it must not touch.
func (s *sensor) args() []string {
	var args []string
	for _, symbol := range s.skip {
		args = append(args, "--skip", symbol)
	}
	return args
}

// stamp turns a line's own time into an instant, once it is known to be on our clock.
func (s *sensor) stamp(l Line, arrived int64) (at record.Instant, onArrival bool) {
	if l.T != nil && !s.judged {
		s.judged = true
		apart := time.Duration(*l.T - arrived).Abs()
		s.unstamped = apart > time.Second
	}
	future := l.T != nil && *l.T > arrived+int64(time.Second)
	if l.T == nil || s.unstamped || future {
		return record.Instant(arrived - s.offset), true
	}
	return record.Instant(*l.T - s.offset), false
}

// handle takes in one parsed line. A returned ending means that the sensor must go, for good.
func (s *sensor) handle(l Line, arrived int64) *ending {
	at, onArrival := s.stamp(l, arrived)
	known := true
	switch l.Type {
	case "hello":
		return s.hello(l)
	case "device":
		known = s.store.announce(l)
	case "caps":
		known = s.store.capable(l.Dev, l.Caps)
	case "sample", "counters", "procs":
		known = s.store.add(Reading{
			T: at, Source: s.name, Type: l.Type, OnArrival: onArrival, Dev: l.Dev, Edge: l.Edge, Signals: l.Signals,
			Procs: l.Procs, NS: l.NS, Reliable: l.Reliable,
		})
	case "error":
		s.store.trouble(at, strings.TrimSpace(l.Op+" "+l.Code+" "+l.Text), false)
	}
	if !known {
		s.tally.ignored++
	}
	return nil
}

// hello refuses a sensor that can measure nothing or is not of this release.
func (s *sensor) hello(l Line) *ending {
	if u := l.Unavailable; u != nil {
		text := u.Text
		if u.Fix != "" {
			text += ": " + u.Fix
		}
		return &ending{text: fmt.Sprintf("%s (%s)", text, u.Reason), final: true}
	}
	if s.version != "" && l.Version != s.version {
		return &ending{final: true, text: fmt.Sprintf(
			"sensor_version: %s is version %q, tailgate is %q; install both from one release", s.name, l.Version, s.version)}
	}
	return nil
}

// reject counts a line that could not be used and says when it was one too many.
func (s *sensor) reject(err error) *ending {
	switch {
	case errors.Is(err, errVersion):
		return &ending{text: "sensor_version: " + err.Error(), final: true}
	case errors.Is(err, errUnknownType):
		s.tally.ignored++
	default:
		s.tally.bad++
	}
	if s.tally.faulty() {
		return &ending{final: true, text: fmt.Sprintf(
			"error: %s sent %d bad lines of %d, the last: %v", s.name, s.tally.bad, s.tally.lines, err)}
	}
	return nil
}
