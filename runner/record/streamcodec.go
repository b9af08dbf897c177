package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// wireStream is a stream as it lies on disk. A server's gaps scatter around one pace; the pace stands once, in gap_ns, and
// each event has only its deviation, in d. That, and stamps of a microsecond, take events.jsonl.gz from 4 bytes an event to
// under 2.5, in plain numbers.
type wireStream struct {
	Seq int `json:"seq"`
	// Gap is the median gap between events, ns, a whole number of microseconds.
	Gap int64 `json:"gap_ns"`
	// D holds, per payload event, the microseconds by which its gap exceeds Gap; the first is 0.
	D []int64 `json:"d"`
	// T is the older form: nanoseconds since the event before.
	T []int64 `json:"t"`
	N []int   `json:"n"`
	R []int   `json:"r"`
}

// streamEncoder writes streams as lines of JSON into a buffer of its own, so that an event costs no allocation. It is not
// safe for concurrent use.
type streamEncoder struct {
	line   []byte
	sorted []int64
}

// encode gives the line of a stream, with its end. It is valid until the next call. Each event's offset from the first is
// rounded, not each gap, so that errors do not add up, and writing what was read changes nothing.
func (e *streamEncoder) encode(s Stream) []byte {
	e.sorted = e.sorted[:0]
	var at, before int64
	for i, gap := range s.T {
		at += gap
		if i > 0 {
			e.sorted = append(e.sorted, (onGrid(at)-before)/streamStep)
		}
		before = onGrid(at)
	}
	slices.Sort(e.sorted)
	var pace int64
	if n := len(e.sorted); n > 0 {
		pace = e.sorted[n/2]
	}
	b := e.line[:0]
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, int64(s.Seq), 10)
	b = append(b, `,"gap_ns":`...)
	b = strconv.AppendInt(b, pace*streamStep, 10)
	b = append(b, `,"d":[`...)
	at, before = 0, 0
	for i, gap := range s.T {
		at += gap
		if i == 0 {
			b = append(b, '0')
		} else {
			b = strconv.AppendInt(append(b, ','), (onGrid(at)-before)/streamStep-pace, 10)
		}
		before = onGrid(at)
	}
	b = appendCounts(append(b, ']'), `,"n":[`, s.N)
	b = appendCounts(b, `,"r":[`, s.R)
	b = append(b, '}', '\n')
	e.line = b
	return b
}

func appendCounts(b []byte, open string, counts []int) []byte {
	if len(counts) == 0 {
		return b
	}
	b = append(b, open...)
	for i, n := range counts {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, ']')
}

// MarshalJSON writes the stream as it lies on disk: its stamps rounded to whole microseconds.
func (s Stream) MarshalJSON() ([]byte, error) {
	var e streamEncoder
	line := e.encode(s)
	return line[:len(line)-1], nil
}

// UnmarshalJSON reads what MarshalJSON writes, and the older form with nanoseconds in t. It fails when both forms are there
// and on a pace that no stream has.
func (s *Stream) UnmarshalJSON(b []byte) error {
	var w wireStream
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*s = Stream{Seq: w.Seq, T: w.T, N: w.N, R: w.R}
	if len(w.D) == 0 {
		return nil
	}
	if len(w.T) > 0 || w.Gap < 0 || w.Gap > maxOffset {
		return fmt.Errorf("stream %d: deviations in d, %d stamps in t, a gap of %d ns", w.Seq, len(w.T), w.Gap)
	}
	s.T = make([]int64, len(w.D))
	for i, d := range w.D {
		if d < -maxOffset/streamStep || d > maxOffset/streamStep {
			return fmt.Errorf("stream %d: event %d deviates by %d µs", w.Seq, i, d)
		}
		if i > 0 {
			s.T[i] = w.Gap + d*streamStep
		}
	}
	return nil
}
