package workload

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Workload is a set of requests, complete and checked. It is not changed after it was made, and is safe for concurrent use.
// The zero value is not a workload; see [Open], [Import], [Generate] and [New].
type Workload struct {
	Manifest Manifest
	// Turns are sorted by (start of the conversation, conversation, turn, id).
	Turns []Turn
	// Texts holds texts.jsonl by id; nil when there is none.
	Texts map[string]string

	index *index
}

// New makes a workload of turns in memory. It takes over and sorts turns, and fills in what can be derived: format, counts,
// span (when 0) and digest. The error is an [Error] that names the field; its line is the turn's place after sorting.
func New(m Manifest, turns []Turn, texts map[string]string) (*Workload, error) {
	m.Format = Format
	if m.Version == 0 {
		m.Version = 1
	}
	if m.Seed == "" {
		m.Seed = "0"
	}
	if m.Output.Mode == "" {
		m.Output.Mode = Force
	}
	if m.Arrivals.Kind == "" {
		m.Arrivals.Kind = "none"
	}
	sortTurns(turns)
	w := &Workload{Manifest: m, Turns: turns, Texts: texts}
	if m.Arrivals.SpanNS == 0 {
		for i := range turns {
			w.Manifest.Arrivals.SpanNS = max(w.Manifest.Arrivals.SpanNS, int64(turns[i].At)+1)
		}
	}
	w.Manifest.Counts = w.count()
	if err := w.check(); err != nil {
		return nil, err
	}
	w.index = newIndex(w)
	w.Manifest.Digest = w.Digest()
	return w, nil
}

// Span is the workload's length.
func (w *Workload) Span() time.Duration { return time.Duration(w.Manifest.Arrivals.SpanNS) }

// Fidelity says how the replay differs from its source, as computed when the workload was built.
func (w *Workload) Fidelity() []record.Fidelity { return slices.Clone(w.Manifest.Fidelity) }

// count sums up the turns. Exclusions are history that turns do not tell; they are kept as they are.
func (w *Workload) count() Counts {
	c := Counts{Turns: len(w.Turns), Excluded: w.Manifest.Counts.Excluded}
	conversations := map[string]bool{}
	for i := range w.Turns {
		t := &w.Turns[i]
		conversations[t.Conv] = true
		c.InTokens += int64(t.InTokens)
		c.OutTokens += int64(w.resolve(*t).Out.Tokens)
	}
	c.Conversations = len(conversations)
	return c
}

// sortTurns puts turns in the order of the format.
func sortTurns(turns []Turn) {
	starts := conversationStarts(turns)
	slices.SortStableFunc(turns, func(a, b Turn) int { return compareTurns(starts, &a, &b) })
}

func compareTurns(starts map[string]time.Duration, a, b *Turn) int {
	return cmp.Or(
		cmp.Compare(starts[a.Conv], starts[b.Conv]),
		cmp.Compare(a.Conv, b.Conv),
		cmp.Compare(a.N, b.N),
		cmp.Compare(a.ID, b.ID),
	)
}

// conversationStarts gives the offset of each conversation's earliest turn without predecessors.
func conversationStarts(turns []Turn) map[string]time.Duration {
	starts := make(map[string]time.Duration, len(turns))
	for i := range turns {
		t := &turns[i]
		if len(t.After) > 0 {
			continue
		}
		if s, ok := starts[t.Conv]; !ok || t.At < s {
			starts[t.Conv] = t.At
		}
	}
	return starts
}

// parseSeed reads a manifest's seed.
func parseSeed(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }
