package export

import (
	"io"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// hgrm writes, per round and latency, a percentile log of the successes. A latency that a round does not have has no file.
func hgrm(r *run, create Create) error {
	for _, rd := range r.rounds {
		list, err := r.measured(rd)
		if err != nil {
			return err
		}
		for _, latency := range []struct {
			name string
			of   func(*values, *request)
		}{
			{"ttft", func(v *values, q *request) { v.add(q.TTFT) }},
			{"e2e", func(v *values, q *request) { v.add(q.E2E) }},
			{"tpot", func(v *values, q *request) { v.add(q.TPOT) }},
			{"itl", func(v *values, q *request) { *v = append(*v, q.ITL...) }},
			{"icl", func(v *values, q *request) { v.list(q.ICL) }},
		} {
			var v values
			for i := range list {
				latency.of(&v, &list[i])
			}
			if len(v) == 0 {
				continue
			}
			err := into(create, "hgrm/"+roundName(rd)+"-"+latency.name+".hgrm", func(w io.Writer) error { return record.PercentileLog(w, v) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}
