package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/tailgate-ci/tailgate/runner/record"
)

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

// onText makes a check of the text of the first choice.
func onText(name string, run func(text []byte) string) check {
	return check{name, func(a *answer, _ tally, _ int) string {
		if len(a.choices) == 0 {
			return run(nil)
		}
		return run(a.choices[0].text)
	}}
}

func finishCheck(right []string) check {
	return check{"finish", func(a *answer, _ tally, _ int) string {
		for i := range a.choices {
			if !slices.Contains(right, a.choices[i].finish) {
				return fmt.Sprintf("finish reason %q of choice %d is none of %q", a.choices[i].finish, a.choices[i].index, right)
			}
		}
		return ""
	}}
}

// tokensCheck fails when the count is unknown: what cannot be checked is not right.
func tokensCheck(name string, limit int, ok func(n, limit int) bool) check {
	return check{name, func(_ *answer, t tally, _ int) string {
		if t.out == nil {
			return "the server did not say how many tokens it generated"
		}
		if !ok(*t.out, limit) {
			return fmt.Sprintf("%d tokens, limit %d", *t.out, limit)
		}
		return ""
	}}
}

func statusCheck(right int) check {
	return check{"status", func(_ *answer, _ tally, status int) string {
		if status != right {
			return fmt.Sprintf("status %d, want %d", status, right)
		}
		return ""
	}}
}

func containsCheck(part string) check {
	return onText("contains", func(text []byte) string {
		if !bytes.Contains(text, []byte(part)) {
			return fmt.Sprintf("%q does not occur", part)
		}
		return ""
	})
}

func equalsCheck(recorded string) check {
	return onText("equals_recorded", func(text []byte) string {
		if string(text) != recorded {
			return "the text differs from the recorded reply"
		}
		return ""
	})
}

func regexpCheck(pattern string) (check, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return check{}, err
	}
	return onText("regexp", func(text []byte) string {
		if !re.Match(text) {
			return fmt.Sprintf("%q does not match", pattern)
		}
		return ""
	}), nil
}

func jsonCheck() check {
	return onText("json", func(text []byte) string {
		if !json.Valid(text) {
			return "the text is not one JSON value"
		}
		return ""
	})
}
