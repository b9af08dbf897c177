package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Assertion is a content check of an answer, run after the answer has ended. Exactly one field is set.
type Assertion struct {
	// NonEmpty is always on; naming it does no harm.
	NonEmpty bool `json:"non_empty,omitempty"`
	// Finish lists the finish reasons that are right.
	Finish []string `json:"finish,omitempty"`
	// MinTokens and MaxTokens bound the output length, both included.
	MinTokens *int `json:"min_tokens,omitempty"`
	MaxTokens *int `json:"max_tokens,omitempty"`
	// Contains must occur in the text; Regexp (RE2) must match somewhere in it.
	Contains string `json:"contains,omitempty"`
	Regexp   string `json:"regexp,omitempty"`
	// JSON demands that the text is one JSON value.
	JSON    bool     `json:"json,omitempty"`
	Pointer *Pointer `json:"pointer,omitempty"`
	// EqualsRecorded compares the text with the turn's recorded reply.
	EqualsRecorded bool `json:"equals_recorded,omitempty"`
	// Status is the HTTP status that is right.
	Status int `json:"status,omitempty"`
}

// Pointer looks at one value of a JSON answer. At least one check is set.
type Pointer struct {
	// Path is a JSON Pointer (RFC 6901); empty is the whole value.
	Path string `json:"path"`
	// Equals is the text of a JSON value.
	Equals string `json:"equals,omitempty"`
	Exists *bool  `json:"exists,omitempty"`
	// Type is object, array, string, number, boolean or null.
	Type string `json:"type,omitempty"`
	// Shape is the length of an array and of the arrays in it.
	Shape []int `json:"shape,omitempty"`
	// Min and Max are decimal strings, both included.
	Min string `json:"min,omitempty"`
	Max string `json:"max,omitempty"`
}

// Egress is something the measured service itself calls, and what answers.
type Egress struct {
	// Name becomes the variable TAILGATE_EGRESS_<NAME>: letters, digits and underscores.
	Name  string      `json:"name"`
	Match EgressMatch `json:"match"`
	// Mode is "mock", "allow" or "deny"; there is no default.
	Mode    string   `json:"mode"`
	Replies []string `json:"replies,omitempty"`
	// Delay is the mock's answer time, ns.
	Delay int64 `json:"delay,omitempty"`
}

// EgressMatch selects calls; an empty field matches all.
type EgressMatch struct {
	Host string `json:"host,omitempty"`
	Path string `json:"path,omitempty"`
}

// check holds the syntax of an assertion, so that a broken one stops the build and not the run.
func (a *Assertion) check() error {
	set := 0
	for _, on := range []bool{
		a.NonEmpty, len(a.Finish) > 0, a.MinTokens != nil, a.MaxTokens != nil, a.Contains != "", a.Regexp != "", a.JSON,
		a.Pointer != nil, a.EqualsRecorded, a.Status != 0,
	} {
		if on {
			set++
		}
	}
	switch {
	case set != 1:
		return fmt.Errorf("an assertion checks one thing, this one %d", set)
	case a.MinTokens != nil && *a.MinTokens < 0, a.MaxTokens != nil && *a.MaxTokens < 0:
		return errors.New("a token count cannot be negative")
	case a.Status != 0 && (a.Status < 100 || a.Status > 599):
		return fmt.Errorf("status %d is no HTTP status", a.Status)
	}
	if _, err := regexp.Compile(a.Regexp); err != nil {
		return fmt.Errorf("regexp: %w", err)
	}
	if a.Pointer != nil {
		return a.Pointer.check()
	}
	return nil
}

func (p *Pointer) check() error {
	if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
		return fmt.Errorf("pointer path %q does not start with /", clip(p.Path, 60))
	}
	for rest := p.Path; ; {
		i := strings.IndexByte(rest, '~')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		if rest == "" || rest[0] != '0' && rest[0] != '1' {
			return fmt.Errorf("pointer path %q: ~ is written ~0, / in a name ~1", clip(p.Path, 60))
		}
	}
	if p.Equals == "" && p.Exists == nil && p.Type == "" && len(p.Shape) == 0 && p.Min == "" && p.Max == "" {
		return errors.New("pointer: nothing is checked")
	}
	if p.Equals != "" && !json.Valid([]byte(p.Equals)) {
		return errors.New("pointer equals: not the text of a JSON value")
	}
	if p.Type != "" && !oneOf(p.Type, "object", "array", "string", "number", "boolean", "null") {
		return fmt.Errorf("pointer type %q is no JSON type", clip(p.Type, 40))
	}
	for _, s := range []string{p.Min, p.Max} {
		if s == "" {
			continue
		}
		if _, err := strconv.ParseFloat(s, 64); err != nil {
			return fmt.Errorf("pointer bound %q is not a number", clip(s, 40))
		}
	}
	return nil
}

var egressName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,39}$`)

// check refuses an egress that nobody decided about.
func (e *Egress) check() error {
	switch {
	case !egressName.MatchString(e.Name):
		return fmt.Errorf("name %q: want letters, digits and underscores", clip(e.Name, 40))
	case !oneOf(e.Mode, "mock", "allow", "deny"):
		return fmt.Errorf("%s: the mode is %q; say mock, allow or deny", e.Name, clip(e.Mode, 40))
	case e.Delay < 0:
		return fmt.Errorf("%s: the delay cannot be negative", e.Name)
	}
	return nil
}
