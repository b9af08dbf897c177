package record

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

func checkSchema(schema int) error {
	switch {
	case schema > Schema:
		return fmt.Errorf("schema %d is newer than the %d this tailgate reads; use the version that wrote it", schema, Schema)
	case schema < 1:
		return fmt.Errorf("schema %d: not a run", schema)
	default:
		return nil
	}
}

// checkRun holds a run that was read against what its fields mean.
func checkRun(run *Run) error {
	switch {
	case !regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`).MatchString(run.ID):
		return fmt.Errorf("id %.80q: letters, digits and dashes, 1 to 64 of them", run.ID)
	case !slices.Contains([]Kind{KindRevisions, KindSwitch, KindCalibrate, KindLoad, KindURL}, run.Kind):
		return fmt.Errorf("kind %.80q is unknown", run.Kind)
	case !slices.Contains([]Status{StatusPlanned, StatusRunning, StatusComplete, StatusCancelled, StatusDeadline, StatusBroken}, run.Status):
		return fmt.Errorf("status %.80q is unknown", run.Status)
	case len(run.Rounds) > maxRounds || len(run.Declared.Order) > maxRounds:
		return fmt.Errorf("more than %d rounds", maxRounds)
	}
	for i, arm := range run.Declared.Order {
		if !known(arm) {
			return fmt.Errorf("declared.order[%d]: arm %.80q is unknown", i, arm)
		}
	}
	seen := map[int]bool{}
	for i := range run.Rounds {
		rd := &run.Rounds[i]
		if seen[rd.Slot] {
			return fmt.Errorf("slot %d is there twice", rd.Slot)
		}
		seen[rd.Slot] = true
		if err := checkRound(rd); err != nil {
			return fmt.Errorf("slot %d: %w", rd.Slot, err)
		}
	}
	return nil
}

func known(arm Arm) bool { return arm == Base || arm == Head }

// checkRound holds one round against what its fields mean. An unknown outcome class is refused: nobody could say whether
// it is a failure.
func checkRound(rd *Round) error {
	switch {
	case rd.Slot < 0 || rd.Slot > 1_000_000:
		return errors.New("no such slot")
	case !known(rd.Arm):
		return fmt.Errorf("arm %.80q is unknown", rd.Arm)
	case !slices.Contains([]RoundState{RoundRunning, RoundComplete, RoundPartial}, rd.State):
		return fmt.Errorf("state %.80q is unknown", rd.State)
	case rd.Phases.M0 < 0 || rd.Phases.M0 > latestInstant || rd.Phases.M1 > rd.Phases.M0+longestInterval:
		return errors.New("the measured interval lies outside any run")
	case rd.Phases.M1 < rd.Phases.M0 && rd.Phases.M1.Reached():
		return errors.New("the measured interval ends before it begins")
	}
	if err := errors.Join(checkCounts(rd.Counts), checkStanding(rd)); err != nil {
		return err
	}
	for key, m := range rd.Metrics {
		if x, ok := m.Get(); ok && x < 0 || m.N < 0 || m.N > maxCount {
			return fmt.Errorf("metric %.80q: %v of %d samples", key, x, m.N)
		}
	}
	for key, values := range rd.Blocks {
		if len(values) != blockCount {
			return fmt.Errorf("blocks %.80q: %d values, want %d", key, len(values), blockCount)
		}
	}
	for key, n := range rd.Beyond {
		if n < 0 || n > maxCount {
			return fmt.Errorf("beyond %.80q: %d", key, n)
		}
	}
	return nil
}

// checkStanding holds what a round says of a server that stays up against what it can be.
func checkStanding(rd *Round) error {
	if r := rd.Reset; r != nil && (r.Tries < 0 || r.Tries > maxCount || r.Status < 0 || r.Status > 999) {
		return fmt.Errorf("a cache reset of %d calls with status %d", r.Tries, r.Status)
	}
	if s := rd.Slice; s != nil && (s.Life < 0 || s.Life > maxCount || s.IdleOpen < 0 || s.IdleOpen > maxCount) {
		return fmt.Errorf("start %d of the servers, with %d requests open on the idle one", s.Life, s.IdleOpen)
	}
	return nil
}

// checkCounts takes known classes only. Whether the counts add up is for the judge, which voids a round where they do not.
func checkCounts(c Counts) error {
	if c.Scheduled < 0 || c.Scheduled > maxCount {
		return fmt.Errorf("%d requests scheduled", c.Scheduled)
	}
	for class, n := range c.Classes {
		if !slices.Contains(Outcomes(), class) {
			return fmt.Errorf("outcome class %.80q is unknown", class)
		}
		if n < 0 || n > maxCount {
			return fmt.Errorf("%d requests of class %s", n, class)
		}
	}
	return nil
}

// checkSample holds one line of samples.jsonl against what its fields mean.
func checkSample(s *Sample) error {
	switch {
	case s.V > SampleVersion:
		return fmt.Errorf("sample version %d is newer than the %d this tailgate reads", s.V, SampleVersion)
	case s.V < 1:
		return fmt.Errorf("sample version %d: not a sample", s.V)
	case s.Seq < 0 || s.Turn < 0:
		return fmt.Errorf("request %d, turn %d: negative", s.Seq, s.Turn)
	case !slices.Contains(Outcomes(), s.Class):
		return fmt.Errorf("outcome class %.80q is unknown", s.Class)
	case !slices.Contains([]Phase{PhaseWarmup, PhaseMeasure, PhaseTail}, s.Phase):
		return fmt.Errorf("phase %.80q is unknown", s.Phase)
	case len(s.Flags) > 64 || len(s.Assertions) > 1024:
		return fmt.Errorf("%d flags, %d assertions", len(s.Flags), len(s.Assertions))
	}
	for _, at := range []Instant{s.Sched, s.Pick, s.Slot, s.Conn, s.Wrote, s.Header, s.First, s.FirstOut, s.Last, s.End} {
		if at < 0 || at > latestInstant {
			return fmt.Errorf("an instant of %d ns lies outside any run", at)
		}
	}
	for _, n := range []*int{&s.InPlanned, &s.OutPlanned, s.NIn, s.NCached, s.NOut, s.NReasoning, &s.Events, &s.PayloadEvents, &s.Reads} {
		if n != nil && (*n < 0 || *n > maxCount) {
			return fmt.Errorf("a count of %d", *n)
		}
	}
	for _, ns := range []*int64{s.Server.Queue, s.Server.Prompt, s.Server.Decode, s.Server.Load} {
		if ns != nil && (*ns < 0 || *ns > maxOffset) {
			return fmt.Errorf("a server time of %d ns", *ns)
		}
	}
	return checkTexts(s)
}

func checkTexts(s *Sample) error {
	texts := []string{s.ID, s.Conv, s.Detail, s.RequestID, string(s.TokensFrom), s.Finish, s.BodySHA, s.TextSHA}
	texts = append(texts, s.Flags...)
	for _, a := range s.Assertions {
		texts = append(texts, a.Name, a.Detail)
	}
	for _, text := range texts {
		if len(text) > maxText {
			return fmt.Errorf("a text of %d bytes, at most %d are read", len(text), maxText)
		}
	}
	return nil
}

// checkStream holds one line of events.jsonl.gz against what its fields mean.
func checkStream(st *Stream) error {
	n := len(st.T)
	if st.Seq < 0 || st.N != nil && len(st.N) != n || st.R != nil && len(st.R) != n {
		return fmt.Errorf("stream %d: %d stamps, %d token counts, %d read numbers", st.Seq, n, len(st.N), len(st.R))
	}
	if n > 0 && st.T[0] != 0 {
		return fmt.Errorf("stream %d: its first event lies %d ns after itself", st.Seq, st.T[0])
	}
	var at int64
	for i, gap := range st.T {
		if gap < 0 || gap > maxOffset || at+gap > maxOffset {
			return fmt.Errorf("stream %d: event %d lies %d ns after the one before", st.Seq, i, gap)
		}
		at += gap
	}
	for _, counts := range [][]int{st.N, st.R} {
		for i, k := range counts {
			if k < 0 || k > maxCount {
				return fmt.Errorf("stream %d: a count of %d at event %d", st.Seq, k, i)
			}
		}
	}
	return nil
}

// checkEvent holds one line of journal.jsonl against what its fields mean. Names are not listed: a journal may tell of what a
// later version does.
func checkEvent(e *Event) error {
	switch {
	case e.T < 0 || e.T > latestInstant:
		return fmt.Errorf("an instant of %d ns lies outside any run", e.T)
	case e.Name == "" || len(e.Name) > maxText || len(e.Text) > maxText:
		return fmt.Errorf("an event with a name of %d bytes and a text of %d", len(e.Name), len(e.Text))
	case e.Arm != "" && !known(e.Arm):
		return fmt.Errorf("arm %.80q is unknown", e.Arm)
	default:
		return nil
	}
}

// checkWindow holds one line of windows.jsonl against what its fields mean.
func checkWindow(w *Window) error {
	if w.T < 0 || w.T > latestInstant || w.Length <= 0 || w.Scheduled < 0 || w.Sent < 0 || w.OK < 0 || w.InFlightMax < 0 || w.InFlightMean < 0 {
		return fmt.Errorf("a window at %d ns with counts or a length no window has", w.T)
	}
	for class, n := range w.Failed {
		if !slices.Contains(Outcomes(), class) || n < 0 {
			return fmt.Errorf("%d requests of class %.80q", n, class)
		}
	}
	for _, h := range []*Histogram{&w.TTFT, &w.ITL, &w.E2E, &w.PacerLag} {
		if h.N < 0 || h.Dropped < 0 || len(h.HDR) > maxHDR {
			return errors.New("a histogram larger than any we write")
		}
	}
	return nil
}
