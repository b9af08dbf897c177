package runner

import (
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestWhatAProbeMeans(t *testing.T) {
	const hint = "the answer looks like dialect ollama"
	fine := record.ProbeReport{Sent: 4, Model: "/build/base/small.gguf", TokensFrom: record.FromUsage, Checks: []record.ProbeCheck{
		{Name: record.ProbeAnswers, OK: true}, {Name: record.ProbeUsage, OK: true}, {Name: record.ProbeCap, NA: "no request has a cap"},
	}}
	failing := func(n int) record.ProbeReport {
		return record.ProbeReport{Sent: 4, Failed: n, Failure: "http_4xx: no such path", Looks: hint, Checks: []record.ProbeCheck{
			{Name: record.ProbeAnswers, Detail: "requests failed"},
		}, TokensFrom: record.FromUsage}
	}
	wrong := func(name string, from record.TokenSource) record.ProbeReport {
		return record.ProbeReport{Sent: 4, TokensFrom: from, Checks: []record.ProbeCheck{{Name: record.ProbeAnswers, OK: true}, {Name: name, Detail: "it is odd"}}}
	}
	changed := func(f func(*record.ProbeReport)) record.ProbeReport {
		p := fine
		f(&p)
		return p
	}
	tests := []struct {
		name string
		arm  record.Arm
		p    record.ProbeReport
		base *record.ProbeReport
		id   string // of the incident; empty when the session goes on
		says string // in the incident or the note; empty for silence
	}{
		{"all is well", record.Base, fine, nil, "", ""},
		{"head as base", record.Head, changed(func(p *record.ProbeReport) { p.Model = "/build/head/small.gguf" }), &fine, "", ""},
		{"no answer", record.Base, failing(4), nil, record.ProbeFailed, hint},
		{"no answer of head", record.Head, failing(4), &fine, record.ProbeFailed, "http_4xx"},
		{"one answer missing", record.Head, failing(1), &fine, "", "1 of 4 requests before the first round failed"},
		{"a cap not obeyed", record.Base, wrong(record.ProbeCap, record.FromUsage), nil, record.ProbeUnfit, "base answers otherwise than it is asked to (cap): it is odd"},
		{"a length not obeyed by head", record.Head, wrong(record.ProbeLength, record.FromUsage), &fine, record.ProbeUnfit, "length"},
		{"no counts at all", record.Base, wrong(record.ProbeUsage, ""), nil, "", "usage"},
		{"no counts in both", record.Head, wrong(record.ProbeUsage, ""), new(wrong(record.ProbeUsage, "")), "", "usage"},
		{"no counts in head", record.Head, wrong(record.ProbeUsage, ""), &fine, record.ProbeUnfit, "usage"},
		{"other counts", record.Head, changed(func(p *record.ProbeReport) { p.TokensFrom = record.FromLogprobs }), &fine, record.ProbeUnfit, "by logprobs, base by usage"},
		{"another model", record.Head, changed(func(p *record.ProbeReport) { p.Model = "large" }), &fine, record.ProbeUnfit, `as model "large"`},
		{"a model without a name", record.Head, changed(func(p *record.ProbeReport) { p.Model = "" }), &fine, "", ""},
		{"head alone", record.Head, changed(func(p *record.ProbeReport) { p.Model = "large" }), nil, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in, ends := judgeProbe(tt.arm, tt.p, tt.base)
			if ends != (tt.id != "") || ends && in.ID != tt.id || in.Arm != tt.arm {
				t.Errorf("incident %+v, ends %t; want %q", in, ends, tt.id)
			}
			if (in.Text == "") != (tt.says == "") || !strings.Contains(in.Text, tt.says) {
				t.Errorf("%q does not say %q", in.Text, tt.says)
			}
		})
	}
}
