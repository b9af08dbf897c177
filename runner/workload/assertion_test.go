package workload

import (
	"strings"
	"testing"
)

func TestAssertionSyntax(t *testing.T) {
	one, minus, yes := 1, -1, true
	for name, c := range map[string]struct {
		a    Assertion
		want string
	}{
		"non-empty":      {Assertion{NonEmpty: true}, ""},
		"finish":         {Assertion{Finish: []string{"stop", "length"}}, ""},
		"min":            {Assertion{MinTokens: &one}, ""},
		"regexp":         {Assertion{Regexp: `^[a-z]+$`}, ""},
		"pointer":        {Assertion{Pointer: &Pointer{Path: "/a~1b/0", Exists: &yes}}, ""},
		"bounds":         {Assertion{Pointer: &Pointer{Path: "/x", Min: "-0.5", Max: "1e3"}}, ""},
		"equals":         {Assertion{Pointer: &Pointer{Equals: `{"a":1.5}`}}, ""},
		"nothing":        {Assertion{}, "checks one thing, this one 0"},
		"two at once":    {Assertion{JSON: true, Status: 200}, "checks one thing, this one 2"},
		"broken regexp":  {Assertion{Regexp: "("}, "regexp:"},
		"lookahead":      {Assertion{Regexp: "(?=a)"}, "regexp:"},
		"negative":       {Assertion{MaxTokens: &minus}, "cannot be negative"},
		"status":         {Assertion{Status: 42}, "no HTTP status"},
		"pointer path":   {Assertion{Pointer: &Pointer{Path: "a", Exists: &yes}}, "does not start with /"},
		"pointer escape": {Assertion{Pointer: &Pointer{Path: "/a~2", Exists: &yes}}, "~ is written ~0"},
		"pointer tilde":  {Assertion{Pointer: &Pointer{Path: "/a~", Exists: &yes}}, "~ is written ~0"},
		"pointer idle":   {Assertion{Pointer: &Pointer{Path: "/a"}}, "nothing is checked"},
		"pointer equals": {Assertion{Pointer: &Pointer{Equals: "{"}}, "not the text of a JSON value"},
		"pointer type":   {Assertion{Pointer: &Pointer{Type: "int"}}, "is no JSON type"},
		"pointer bound":  {Assertion{Pointer: &Pointer{Min: "low"}}, "is not a number"},
	} {
		err := c.a.check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Broken syntax stops the build, wherever it stands; so does an egress that nobody decided about.
func TestBrokenRulesStopTheBuild(t *testing.T) {
	turn := Turn{ID: "a", Conv: "a", N: 1, Prompt: &Text{Inline: "x"}, Out: Output{Tokens: 1}}
	broken := turn
	broken.Assertions = []Assertion{{Contains: "x"}, {Regexp: "("}}
	for name, c := range map[string]struct {
		m    Manifest
		turn Turn
		want string
	}{
		"turn":     {Manifest{}, broken, "turns.jsonl:1: assertions[1]: regexp"},
		"manifest": {Manifest{Assertions: []Assertion{{}}}, turn, "manifest.json: assertions[0]"},
		"egress":   {Manifest{Egress: []Egress{{Name: "search"}}}, turn, `egress[0]: search: the mode is ""; say mock, allow or deny`},
		"name":     {Manifest{Egress: []Egress{{Name: "a b", Mode: "mock"}}}, turn, "want letters, digits"},
		"params":   {Manifest{Params: Params{Temperature: "warm"}}, turn, "params:"},
		"plan":     {Manifest{}, Turn{ID: "a", Conv: "a", N: 1, Prompt: &Text{Inline: "x"}}, "neither the turn nor the manifest"},
	} {
		c.m.Name = "n"
		_, err := New(c.m, []Turn{c.turn}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A turn's own values win over the manifest's, field by field.
func TestDefaults(t *testing.T) {
	seed, stream := int64(7), false
	turn := Turn{ID: "a", Conv: "a", N: 1, Prompt: &Text{Inline: "x"}, Out: Output{Tokens: 3}, Params: Params{TopP: "0.5"}}
	w, err := New(Manifest{
		Name: "n", Params: Params{Temperature: "0.7", TopP: "1", Seed: &seed, Stream: &stream},
		Output: OutputPolicy{Mode: Cap, DefaultTokens: 9}, Assertions: []Assertion{{JSON: true}},
	}, []Turn{turn}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Plan(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := p.Measured[0].Turn
	if got.Params.Temperature != "0.7" || got.Params.TopP != "0.5" || *got.Params.Seed != 7 || *got.Params.Stream {
		t.Errorf("params %+v", got.Params)
	}
	if got.Out != (Output{Cap, 3}) || len(got.Assertions) != 1 || got.Group != "a" {
		t.Errorf("turn %+v", got)
	}
	if w.Turns[0].Out.Mode != "" {
		t.Error("defaults leaked into the stored turn")
	}
}
