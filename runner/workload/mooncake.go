package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// mooncakeImporter reads the traces of kvcache-ai/Mooncake: JSON Lines, times in ms, one hash id per block of 512 tokens.
func mooncakeImporter() Importer {
	return Importer{
		Name: "mooncake", Version: 1, About: "Mooncake traces: JSON Lines with timestamp, input_length, output_length, hash_ids",
		blockSize: mooncakeBlock, scope: ScopeGlobal, reuse: true, read: readMooncake,
	}
}

const mooncakeBlock = 512

type mooncakeRow struct {
	Timestamp *json.Number  `json:"timestamp"`
	Input     *int          `json:"input_length"`
	Output    *int          `json:"output_length"`
	HashIDs   []BlockID     `json:"hash_ids"`
	Session   string        `json:"session_id"`
	Delay     *json.Number  `json:"delay"`
	Text      string        `json:"text_input"`
	Messages  []TurnMessage `json:"messages"`
}

func readMooncake(r io.Reader, s *sink) error {
	// A conversation's group is that of its first row, so that sampling keeps it whole.
	groups := map[string]string{}
	err := lines(r, func(line int, text []byte) error {
		var m mooncakeRow
		err := strict(text, &m)
		if err == nil {
			var x row
			group, later := groups[m.Session]
			if x, err = m.row(later); err == nil {
				x.line = line
				if later {
					x.group = group
				} else if m.Session != "" {
					groups[m.Session] = x.group
				}
				s.add(x)
				return nil
			}
		}
		return s.reject(line, err)
	})
	if e, ok := errors.AsType[*Error](err); ok && e.File == "" {
		return at(s.file, e.Line, e)
	}
	return err
}

// row checks one line. later is true for a turn that is not the first of its session.
func (m *mooncakeRow) row(later bool) (row, error) {
	r := row{ids: m.HashIDs, text: m.Text, messages: m.Messages, conv: m.Session, timed: m.Timestamp != nil}
	var err error
	switch {
	case !r.timed && (!later || m.Delay == nil):
		return row{}, fieldError("timestamp", "missing")
	case m.Input == nil || *m.Input < 1 || *m.Input > 1<<28:
		return row{}, fieldError("input_length", "want 1 to %d tokens", 1<<28)
	case m.Output == nil || *m.Output < 1 || *m.Output > 1<<28:
		return row{}, fieldError("output_length", "want 1 to %d tokens", 1<<28)
	case len(m.HashIDs) == 0:
		return row{}, fieldError("hash_ids", "missing")
	case m.Session != "" && (m.Text != "" || len(m.Messages) > 0):
		return row{}, fieldError("session_id", "a session with text is not read by this version")
	case m.Text != "" && len(m.Messages) > 0:
		return row{}, fieldError("messages", "the row has text_input too")
	}
	r.in, r.out = *m.Input, *m.Output
	if err := checkBlockCount(len(m.HashIDs), r.in, mooncakeBlock); err != nil {
		return row{}, err
	}
	if r.timed {
		if r.at, err = milliseconds(*m.Timestamp); err != nil {
			return row{}, fieldError("timestamp", "%v", err)
		}
	}
	if m.Delay != nil {
		if r.delay, err = milliseconds(*m.Delay); err != nil {
			return row{}, fieldError("delay", "%v", err)
		}
	}
	// Block 0 is one common block for every row of the real traces, so that a group is named by its first two.
	r.group = m.HashIDs[0].String()
	if len(m.HashIDs) > 1 {
		r.group += "/" + m.HashIDs[1].String()
	}
	return r, nil
}

// milliseconds reads a time in ms. Whole and fractional ones occur in the wild; anything finer than 1 ns is rounded.
func milliseconds(n json.Number) (time.Duration, error) {
	if whole, err := n.Int64(); err == nil {
		if whole < 0 || whole > maxSpan.Milliseconds() {
			return 0, fmt.Errorf("%s ms is out of range", clip(n.String(), 40))
		}
		return time.Duration(whole) * time.Millisecond, nil
	}
	x, err := n.Float64()
	if err != nil || x < 0 || x > float64(maxSpan.Milliseconds()) {
		return 0, fmt.Errorf("%s ms is out of range", clip(n.String(), 40))
	}
	return time.Duration(math.Round(x * 1e6)), nil
}
