package actions

import (
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// Outcome is what the run step tells the steps after it. The zero value says that nothing was measured.
type Outcome struct {
	// Reason is why there is no verdict, or the judgement's own reason.
	Reason string
	// Dir is the run folder; empty when none was made.
	Dir string
	// Run is nil when nothing was resolved; Judgement nil when nothing was judged.
	Run       *record.Run
	Judgement *gate.Judgement
}

// Outcome sets every output of the run step, those without a value to nothing: a step that reads one never sees the output of
// another run. Each output is tried; the error joins what could not be set.
func (c *Commands) Outcome(o Outcome) error {
	values := [][2]string{{"reason", o.Reason}, {"output-dir", o.Dir}}
	var verdict, line, base, head, digest, report, index string
	failed := []string{}
	if j := o.Judgement; j != nil {
		verdict, line = string(j.Verdict), inert(oneLine(j.Line, 200))
		values[0][1] = j.Reason
		for _, m := range j.Metrics {
			if m.Verdict == gate.Fail {
				failed = append(failed, m.Key)
			}
		}
		report = filepath.Join(o.Dir, "report.md")
	}
	if o.Run != nil {
		digest = o.Run.Workload.Digest
		if arm := o.Run.Arms.Base; arm != nil {
			base = arm.Commit
		}
		if arm := o.Run.Arms.Head; arm != nil {
			head = arm.Commit
		}
	}
	if o.Dir != "" {
		index = filepath.Join(o.Dir, "run.json")
	}
	metrics, err := json.Marshal(failed)
	values = append(values, [][2]string{
		{"verdict", verdict},
		{"verdict-line", line},
		{"failed-metrics", string(metrics)},
		{"base-sha", base},
		{"head-sha", head},
		{"workload-digest", digest},
		{"result-json", index},
		{"report-md", report},
	}...)
	for _, v := range values {
		err = errors.Join(err, c.Set(v[0], v[1]))
	}
	return err
}
