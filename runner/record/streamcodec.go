package record

import (
	"encoding/json"
	"fmt"
)

// wireStream is a line of events.jsonl.gz. The times are microseconds there, which is the resolution kept and the larger
// half of the file's size.
type wireStream struct {
	Seq int     `json:"seq"`
	T   []int64 `json:"t_us"`
	N   []int   `json:"n,omitempty"`
	R   []int   `json:"r,omitempty"`
}

// MarshalJSON writes the stream as it lies on disk: gaps in whole microseconds, "t_us". Each event's offset from the first
// is rounded, so that errors do not add up.
func (s Stream) MarshalJSON() ([]byte, error) {
	w := wireStream{Seq: s.Seq, T: make([]int64, len(s.T)), N: s.N, R: s.R}
	var at, before int64
	for i, gap := range s.T {
		at += gap
		w.T[i] = (onGrid(at) - before) / streamStep
		before = onGrid(at)
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Stream) UnmarshalJSON(b []byte) error {
	var w wireStream
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	*s = Stream{Seq: w.Seq, T: w.T, N: w.N, R: w.R}
	for i, us := range w.T {
		if us < 0 || us > maxOffset/streamStep {
			return fmt.Errorf("stream %d: event %d lies %d µs after the one before", w.Seq, i, us)
		}
		s.T[i] = us * streamStep
	}
	return nil
}

// maxOffset is the longest time from the first event that a stream may tell of: a day, ns.
const maxOffset = int64(24 * 3600 * 1e9)
