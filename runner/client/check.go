package client

import "github.com/tailgate-ci/tailgate/runner/record"

// check is one content assertion, run after the answer has ended.
type check struct {
	name string
	// run returns "" when the answer is right, else what is wrong with it.
	run func(a *answer, t tally, status int) string
}

// runChecks runs all checks and reports the first that failed.
func runChecks(checks []check, a *answer, t tally, status int) (results []record.AssertionResult, failed string) {
	for _, c := range checks {
		wrong := clean(c.run(a, t, status), maxDetail)
		results = append(results, record.AssertionResult{Name: c.name, OK: wrong == "", Detail: wrong})
		if wrong != "" && failed == "" {
			failed = c.name + ": " + wrong
		}
	}
	return results, failed
}
