package record

import "encoding/json"

// MarshalJSON writes the stream as it lies on disk: its gaps rounded to whole microseconds. Noise below that would take
// events.jsonl.gz from 2 to 4 bytes an event. Each event's offset from the first is rounded, not each gap, so that errors
// do not add up, and writing what was read changes nothing.
func (s Stream) MarshalJSON() ([]byte, error) {
	type plain Stream
	w := plain(s)
	w.T = make([]int64, len(s.T))
	var at, before int64
	for i, gap := range s.T {
		at += gap
		w.T[i] = onGrid(at) - before
		before = onGrid(at)
	}
	return json.Marshal(w)
}
