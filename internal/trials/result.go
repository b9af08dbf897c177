package trials

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// Result is one finished session: a line of a results file.
type Result struct {
	// Scenario is the name of what was run; ID the session's id, from which the order of its slots follows.
	Scenario string `json:"scenario"`
	ID       string `json:"id"`
	// Started is RFC 3339; Seconds the length of the whole session, builds included.
	Started string  `json:"started"`
	Seconds float64 `json:"seconds"`
	// CPU is the processor time of the session and all it started, seconds.
	CPU float64 `json:"cpu_s"`
	// Tool is the first 12 hex digits of the tailgate binary's digest; Cores what the machine has; Jobs how many sessions ran at once.
	Tool  string `json:"tool"`
	Cores int    `json:"cores"`
	Jobs  int    `json:"jobs"`
	// Others is the share of the machine's processor time that went to anything but these trials meanwhile, 0 to 1; absent where it
	// could not be read.
	Others *float64 `json:"others,omitempty"`

	Verdict gate.Verdict `json:"verdict"`
	Reason  string       `json:"reason,omitempty"`
	// Causes are the deciding and warning findings, each "id" or "id metric".
	Causes []string `json:"causes,omitempty"`
	// Pairs counts the valid pairs judged, Void the void rounds.
	Pairs int `json:"pairs"`
	Void  int `json:"void"`

	Metrics []Metric `json:"metrics,omitempty"`
	Rounds  []Round  `json:"rounds,omitempty"`
	// Pooled compares all requests of base's valid rounds with all of head's, by metric stem.
	Pooled map[string]Pooled `json:"pooled,omitempty"`
}

// Metric is the gate's finding on one gated metric. Logarithms of ratios, positive when head is worse.
type Metric struct {
	Key     string       `json:"key"`
	Verdict gate.Verdict `json:"verdict"`
	Cause   string       `json:"cause,omitempty"`
	R       record.Value `json:"R"`
	D       record.Value `json:"d"`
	S       record.Value `json:"s"`
	L       record.Value `json:"L"`
	U       record.Value `json:"U"`
	// T is the tolerance; Pairs are the differences pair by pair.
	T     float64   `json:"T"`
	Pairs []float64 `json:"pairs,omitempty"`
}

// Round is what a session measured in one slot.
type Round struct {
	Slot int        `json:"slot"`
	Arm  record.Arm `json:"arm"`
	// Void is the rule that made it void, empty for a valid round.
	Void string `json:"void,omitempty"`
	// Values are the gated metrics over all requests in their units; OK the same percentiles over successful requests, which is what
	// the peers' rules get to see. A value that is missing or infinite is absent.
	Values map[string]float64 `json:"values,omitempty"`
	OK     map[string]float64 `json:"ok,omitempty"`
	N      int                `json:"n"`
	Failed int                `json:"failed,omitempty"`
	// Warm is the length of the warm-up and All that of the round, seconds.
	Warm float64 `json:"warm_s"`
	All  float64 `json:"all_s"`
}

// Valid lists the valid rounds of an arm in order of slots.
func (r Result) Valid(arm record.Arm) []Round {
	var out []Round
	for _, rd := range r.Rounds {
		if rd.Arm == arm && rd.Void == "" {
			out = append(out, rd)
		}
	}
	return out
}

// Append adds one line to the file and syncs it, so that a crash loses no session that had ended. A half line left by a crash
// is ended first.
func Append(path string, r Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644) //nolint:gosec // results are meant to be read
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // synced below
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			line = append([]byte("\n"), line...)
		}
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

// maxLine bounds one session in a results file, bytes.
const maxLine = 1 << 20

// Read reads a results file, gzipped where its name says so. A file that does not exist has no results. Half a line at the end, or
// one that a crash left in the middle, is skipped and counted.
func Read(path string) (results []Result, skipped int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", path, err)
		}
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var r Result
		if err := json.Unmarshal(text, &r); err != nil || r.Scenario == "" || r.Verdict == "" {
			skipped++
			continue
		}
		results = append(results, r)
	}
	if err := lines.Err(); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	return results, skipped, nil
}
