package gate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// PolicyError says why a metric that a policy names cannot be gated, and what to do instead.
type PolicyError struct {
	// Key is the metric; Text one sentence.
	Key, Text string
	// few is true when only requests are missing.
	few bool
}

// Error is the sentence behind the key of the policy file.
func (e *PolicyError) Error() string { return "tolerance." + e.Key + ": " + e.Text }

// Gateable sorts out, before the first round, which metrics can be gated with that many requests a round, and whether
// answers are streamed. A metric of the default list that cannot is shown instead, with the reason; one that the policy
// names is an error ([PolicyError], joined), unless it says force. For services that do not stream, the default list gets
// end-to-end percentiles in place of what they lack.
func Gateable(p Policy, requests int, streams bool) (gated Policy, notGated []NotGated, err error) {
	gated, notGated, problems := sift(p, requests, streams)
	var errs []error
	for _, problem := range problems {
		errs = append(errs, problem)
	}
	return gated, notGated, errors.Join(errs...)
}

// sift does the work of [Gateable]. Metrics that the policy names stay in it whatever is wrong with them.
func sift(p Policy, requests int, streams bool) (gated Policy, notGated []NotGated, problems []*PolicyError) {
	kept := maps.Clone(p.Tolerance)
	replaced := false
	for _, key := range slices.Sorted(maps.Keys(p.Tolerance)) {
		tol := p.Tolerance[key]
		m, problem := problemOf(key, tol, requests, streams)
		switch {
		case problem == nil:
		case tol.Named:
			problems = append(problems, problem)
		default:
			delete(kept, key)
			notGated = append(notGated, NotGated{Key: key, Reason: problem.Text})
			replaced = replaced || m.Stream && !streams
		}
	}
	if replaced {
		for key, tol := range defaultsFor("e2e_p50", "e2e_p95", "e2e_p99") {
			if _, there := kept[key]; there || requests < needs(key) {
				continue
			}
			kept[key] = tol
		}
	}
	p.Tolerance = kept
	return p, notGated, problems
}

func needs(key string) int {
	m, _ := MetricOf(key)
	return m.Needs()
}

// problemOf says why a metric cannot be gated; nil when it can.
func problemOf(key string, tol Tolerance, requests int, streams bool) (Metric, *PolicyError) {
	m, known := MetricOf(key)
	switch {
	case !known:
		return m, &PolicyError{Key: key, Text: "no such metric"}
	case key == ErrorRate:
		return m, &PolicyError{Key: key, Text: "failed requests are always compared, by a rule of their own; set slo.error_rate for a limit"}
	case m.Stream && !streams:
		return m, &PolicyError{Key: key, Text: "the answers of this workload are not streamed, so there is no " + m.Name + "; gate e2e_p50, e2e_p95 or e2e_p99"}
	case requests < m.Needs() && !tol.Force:
		text := fmt.Sprintf("%s requests a round, p%d needs %s", count(requests), m.Percentile, count(m.Needs()))
		if tol.Named {
			text += "; measure longer, gate a lower percentile, or say `force: true`"
		}
		return m, &PolicyError{Key: key, Text: text, few: true}
	case requests < m.Smallest():
		return m, &PolicyError{Key: key, Text: fmt.Sprintf("%s requests a round, p%d is no number below %s, forced or not", count(requests), m.Percentile, count(m.Smallest())), few: true}
	}
	return m, nil
}
