package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/target"
)

// errLate ends a session whose next pair would not be over at its deadline.
var errLate = errors.New("the session's time is over")

// errStop ends a session early on the strength of an incident that is already on record.
var errStop = errors.New("the session cannot go on")

// Session measures the rounds of one plan.
type Session struct {
	plan *Plan
	run  *record.Run
	// do measures one round; tests put their own here.
	do func(context.Context, record.Round) error
	// slot is the next free slot number; rerun counts the extra pairs spent.
	slot  int
	pair  int
	rerun int
	// longest is the longest that both rounds of a pair took together; 0 before the first.
	longest record.Instant
	// joined is how many warm-up windows count as one in every round; 0 until the first warm-up has chosen.
	joined int
	// served tells of each arm whether a server of it was ever ready.
	served map[record.Arm]bool
	// ground is what the machine was before the first server.
	ground *target.Ground
	// confirmed says that what is watched was held against the first server, where that was needed.
	confirmed bool
	// peak is the largest number of requests in flight while the arms were conditioned; 0 when they were not.
	peak int
	// fleet holds the servers that stay up; nil where each round has its own.
	fleet *fleet
	// flying counts, by arm, the requests in flight of its latest offering.
	flying map[record.Arm]*atomic.Int64
}

// NewSession prepares a session; nothing runs yet.
func NewSession(p *Plan) *Session {
	s := &Session{plan: p, run: p.Run, served: map[record.Arm]bool{}, flying: map[record.Arm]*atomic.Int64{}}
	s.do, s.fleet = s.measureRound, newFleet(s)
	return s
}

// Run measures until the judge says stop, the last look is done, or something ends the session. What ended it stands in
// the run's status and incidents; the returned error is only for what could not be put on record (a full disk, a bug).
// A cancelled context gives status cancelled and no error. A session with a deadline begins no pair that would not be over by
// then if it took a fifth longer than the longest so far; its status is then deadline, and every pair that was measured is
// kept.
func (s *Session) Run(ctx context.Context) error {
	s.run.Status = record.StatusRunning
	if err := errors.Join(checkSpace(s.plan.Writer.Dir(), s.run), s.survey(), s.save("session_started")); err != nil {
		return s.broken(err)
	}
	err := s.measure(ctx)
	if errors.Is(err, errStop) && ctx.Err() == nil {
		err = s.hearBase(ctx)
	}
	if downErr := s.fleet.down(ctx); downErr != nil && (err == nil || !errors.Is(downErr, errStop)) {
		err = downErr
	}
	switch {
	case ctx.Err() != nil:
		s.run.Status = record.StatusCancelled
	case errors.Is(err, errLate):
		s.run.Status = record.StatusDeadline
	case err == nil || errors.Is(err, errStop):
		s.run.Status = record.StatusComplete
	default:
		return s.broken(err)
	}
	s.run.Finished = s.plan.Clock.Now()
	if err := s.save("session_" + string(s.run.Status)); err != nil {
		return s.broken(err)
	}
	return nil
}

func (s *Session) measure(ctx context.Context) error {
	if err := s.condition(ctx); err != nil {
		return err
	}
	order := s.run.Declared.Order
	for k := 0; 2*k+1 < len(order); k++ {
		if err := s.turn(ctx, k); err != nil {
			return err
		}
		if err := s.measurePair(ctx, order[2*k], order[2*k+1]); err != nil {
			return err
		}
		if next := s.plan.Rules.Next(s.run); next.Stop {
			s.plan.say(Progress{Slot: s.slot - 1, Phase: "look", Text: next.Reason})
			return nil
		}
	}
	return nil
}

// hearBase starts base where head was found not to serve and base has not had its turn: what base cannot do either is no
// fault of head's.
func (s *Session) hearBase(ctx context.Context) error {
	blamed := slices.ContainsFunc(s.run.Incidents, func(in record.Incident) bool {
		return in.Arm == record.Head && slices.Contains([]string{record.StartFailed, record.StartTimeout, record.ProbeFailed, record.ProbeUnfit, record.StopNotClean}, in.ID)
	})
	if !blamed || s.served[record.Base] {
		return errStop
	}
	rw, err := s.plan.Writer.Conditioning(record.Base)
	if err != nil {
		return err
	}
	if err := newRound(s, record.Round{Slot: -1, Arm: record.Base, State: record.RoundRunning}, rw).serveOnly(ctx); err != nil {
		return err
	}
	return errStop
}

// measurePair runs two adjacent rounds, and runs them again on new slots while one of them is void and the budget lasts.
func (s *Session) measurePair(ctx context.Context, first, second record.Arm) error {
	var rerunOf [2]*int
	for {
		if err := s.inTime(); err != nil {
			return err
		}
		was := s.fleet
		slots, good, err := s.tryPair(ctx, [2]record.Arm{first, second}, rerunOf)
		if err != nil {
			return err
		}
		if good {
			return nil
		}
		if was != s.fleet {
			// Nothing of the pair was spoiled: it is run in another way.
			rerunOf = slots
			continue
		}
		if next := s.plan.Rules.Next(s.run); next.Stop {
			s.plan.say(Progress{Slot: s.slot - 1, Phase: "look", Text: next.Reason})
			return errStop
		}
		if s.rerun >= s.run.Declared.MaxVoid {
			s.plan.say(Progress{Slot: s.slot - 1, Phase: "void", Text: fmt.Sprintf("the budget of %d extra pairs is spent", s.run.Declared.MaxVoid)})
			return errStop
		}
		s.rerun++
		rerunOf = slots
	}
}

// inTime refuses another pair that would end after the deadline.
func (s *Session) inTime() error {
	if s.plan.Deadline == 0 {
		return nil
	}
	now := s.plan.Clock.Now()
	takes := s.longest + s.fleet.ahead()
	if left := s.plan.Deadline - now; left <= 0 || takes+takes/5 > left {
		s.plan.say(Progress{Slot: s.slot - 1, Phase: "look", Text: fmt.Sprintf("out of time: %s are left, a pair takes %s",
			time.Duration(max(0, left)).Round(time.Second), time.Duration(takes).Round(time.Second))})
		return errLate
	}
	return nil
}

// tryPair measures one pair; the second round is not run when the first is void.
func (s *Session) tryPair(ctx context.Context, arms [2]record.Arm, rerunOf [2]*int) (slots [2]*int, good bool, err error) {
	pair := s.pair
	s.pair++
	began := s.plan.Clock.Now()
	for i, arm := range arms {
		slot := s.slot
		s.slot++
		slots[i] = &slot
		rd := record.Round{Slot: slot, Arm: arm, Pair: pair, RerunOf: rerunOf[i], State: record.RoundRunning}
		if err := s.do(ctx, rd); err != nil {
			return slots, false, err
		}
		if s.unusable(slot) {
			return slots, false, nil
		}
	}
	s.longest = max(s.longest, s.plan.Clock.Now()-began)
	return slots, true, nil
}

// unusable reports whether a slot's round is void or was cut short, and says so.
func (s *Session) unusable(slot int) bool {
	for _, v := range s.plan.Rules.Void(s.run) {
		if v.Slot == slot {
			s.plan.say(Progress{Slot: slot, Phase: "void", Text: v.Rule + ": " + v.Evidence})
			return true
		}
	}
	i := slices.IndexFunc(s.run.Rounds, func(r record.Round) bool { return r.Slot == slot })
	return i < 0 || s.run.Rounds[i].State != record.RoundComplete
}

// condition starts each arm once, base first, and offers the load without recording anything that is judged: page and
// compile caches fill alike, and a build that does not start is found before a pair is spent.
func (s *Session) condition(ctx context.Context) error {
	c := s.run.Declared.Conditioning
	for _, step := range []struct {
		arm  record.Arm
		long int64
	}{{record.Base, int64(c.Base)}, {record.Head, int64(c.Head)}} {
		if step.long == 0 {
			continue
		}
		rw, err := s.plan.Writer.Conditioning(step.arm)
		if err != nil {
			return err
		}
		r := newRound(s, record.Round{Slot: -1, Arm: step.arm, State: record.RoundRunning}, rw)
		if err := r.condition(ctx, record.Instant(step.long)); err != nil {
			return err
		}
		s.peak = max(s.peak, r.flights.peak())
	}
	return nil
}

func (s *Session) measureRound(ctx context.Context, rd record.Round) error {
	rw, err := s.plan.Writer.Round(rd.Slot, rd.Arm)
	if err != nil {
		return err
	}
	r := newRound(s, rd, rw)
	err = r.measure(ctx)
	s.run.Rounds = append(s.run.Rounds, r.rd)
	if saveErr := s.save("round_" + string(r.rd.State)); err == nil {
		err = saveErr
	}
	if rs := r.rd.Reset; err == nil && rs != nil && rs.Outcome == record.ResetUnavailable {
		err = s.fallBack(ctx, r.rd)
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// join keeps for all rounds what the session's first warm-up chose, and says so where it is not the plain rule.
func (s *Session) join(slot int, r record.SteadyReport) {
	if s.joined > 0 || r.End == "cut" && r.Joined == 1 {
		return
	}
	s.joined = r.Joined
	v, _ := r.Noise.Finite()
	switch {
	case r.Unattainable:
		s.note("unattainable", slot, fmt.Sprintf("warm-up windows vary by %.1f %%, too much for a band of %.3g %%: lengthen warmup.window", 100*v, 100*s.run.Declared.Warmup.Band))
	case r.Joined > 1:
		s.note("windows_joined", slot, fmt.Sprintf("warm-up windows vary by %.1f %%: %d of them count as one, in every round", 100*v, r.Joined))
	}
}

// incident puts a fact on record that ends a try, a round or the session.
func (s *Session) incident(in record.Incident) {
	in.T = s.plan.Clock.Now()
	s.run.Incidents = append(s.run.Incidents, in)
	s.journal(record.Event{Name: in.ID, Slot: in.Slot, Arm: in.Arm, Text: in.Text})
	p := Progress{Slot: -1, Arm: in.Arm, Phase: "incident", Text: in.ID + ": " + in.Text}
	if in.Slot != nil {
		p.Slot = *in.Slot
	}
	s.plan.say(p)
}

// failed turns an error of the target into an incident; other errors are returned as they are.
func (s *Session) failed(err error, arm record.Arm, slot, try int, log string) error {
	te, ok := errors.AsType[*target.Error](err)
	if !ok {
		return err
	}
	in := record.Incident{ID: te.ID, Arm: arm, Try: try, Exit: te.Exit, Text: te.Text, Log: log, Tail: te.Tail}
	if slot >= 0 {
		in.Slot = &slot
	}
	s.incident(in)
	return nil
}

// note puts a remark on record that no rule judges.
func (s *Session) note(id string, slot int, text string) {
	n := record.Note{ID: id, Text: text}
	if slot >= 0 {
		n.Slot = &slot
	}
	s.run.Notes = append(s.run.Notes, n)
}

func (s *Session) journal(e record.Event) {
	e.T = s.plan.Clock.Now()
	// A journal that cannot be written shows again, and is reported, when run.json is saved.
	_ = s.plan.Writer.Journal(e)
}

func (s *Session) save(event string) error {
	s.journal(record.Event{Name: event})
	return s.plan.Writer.Save(s.run)
}

// broken records why a session ended that could not write, and tries to leave a readable run.json.
func (s *Session) broken(err error) error {
	id, text := record.WriteFailed, "the run folder could not be written; check the disk and its permissions"
	switch {
	case errors.Is(err, record.ErrDiskFull):
		id, text = record.DiskFull, "the disk that holds the run folder is full; free space or choose another place with --out"
	case !isFileError(err):
		id, text = record.InternalFault, "tailgate itself failed; please report this with the run folder"
	}
	s.run.Status = record.StatusBroken
	s.run.Finished = s.plan.Clock.Now()
	s.incident(record.Incident{ID: id, Text: fmt.Sprintf("%s (%v)", text, err)})
	return errors.Join(err, s.plan.Writer.Save(s.run))
}

func isFileError(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}
