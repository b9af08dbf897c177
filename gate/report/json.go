package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// document is report.json: the judgement, and what was measured beside it. Rounds are the run's; the judgement's counts
// of rounds stand under tally.
type document struct {
	gate.Judgement
	Tally       map[record.Arm]gate.RoundTally `json:"tally"`
	Run         runHead                        `json:"run"`
	Workload    record.WorkloadInfo            `json:"workload"`
	Arms        record.Arms                    `json:"arms"`
	Environment record.Environment             `json:"environment"`
	Fidelity    []record.Fidelity              `json:"fidelity"`
	Rounds      []record.Round                 `json:"rounds"`
	Incidents   []record.Incident              `json:"incidents"`
	Notes       []record.Note                  `json:"notes"`
}

// runHead names the run.
type runHead struct {
	ID       string        `json:"id"`
	Kind     record.Kind   `json:"kind"`
	Status   record.Status `json:"status"`
	Tailgate record.Tool   `json:"tailgate"`
}

// JSON writes report.json, indented, ending in a line feed. Missing numbers are null with a reason. The error is w's, or
// that of a number which JSON cannot hold.
func JSON(w io.Writer, run *record.Run, j gate.Judgement, _ Options) error {
	if j.Line == "" {
		j.Line = Line(run, j)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document{
		Judgement: j, Tally: j.Rounds, Run: runHead{run.ID, run.Kind, run.Status, run.Tailgate}, Workload: run.Workload, Arms: run.Arms,
		Environment: run.Environment, Fidelity: run.Fidelity, Rounds: run.Rounds, Incidents: run.Incidents, Notes: run.Notes,
	}); err != nil {
		return fmt.Errorf("report.json: %w", err)
	}
	return nil
}
