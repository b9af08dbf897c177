package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain text", "plain text"},
		{"  two\r\n lines\t tab ", "two lines tab"},
		{"\x1b[31mred\x1b[0m", "[31mred[0m"},
		{"a\u202eb\u2066c\u200bd\u200de\ufefff", "abcdef"},
		{"\U000e0041tag\ufe0f\u3164", "tag"},
		{"bad\xff\xfeutf8", "bad��utf8"},
		{"\x00\x02\x03", ""},
		{"日本語", "日本語"},
	} {
		if got := clean(c.in, 80); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
	for n, want := range map[int]string{5: "abcd…", 6: "abcdef", 80: "abcdef"} {
		if got := clean("abcdef", n); got != want {
			t.Errorf("cap %d: %q, want %q", n, got, want)
		}
	}
}

func TestMarkdownEscapes(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"a|b*c_d~e", `a\|b\*c\_d\~e`},
		{"[x](y) ![i](z)", `\[x\](y) \!\[i\](z)`},
		{"<b>&amp;", `\<b\>\&amp;`},
		{"`code` $x$ \\", "\\`code\\` \\$x\\$ \\\\"},
		{"@octocat o/r#1 GH-12", "@\u200doctocat o/r\\#\u200d1 GH-\u200d12"},
		{"https://x.test www.x.test", "https:\u200d//x.test www\u200d.x.test"},
		{"4be91c7a5d0f", "4be91c\u200d7a5d0f"},
		{"::a0 b:", ":\u200d:\u200da0 b:"},
		{":+1: 10: 20", ":\u200d+1: 10: 20"},
	} {
		if got := markdown(c.in); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestFenceIsLongerThanAnyRun(t *testing.T) {
	for want, lines := range map[string][]string{"```": {"a", "``"}, "````": {"```"}, "``````": {"x `````y", "``"}} {
		if got := fence(lines); got != want {
			t.Errorf("%q: %s, want %s", lines, got, want)
		}
	}
}

// active are the things a forge makes of text. None may remain in what was foreign.
var active = regexp.MustCompile(`@[A-Za-z0-9]|#[0-9]|(?i:gh)-[0-9]|://|(?i:www)\.|[0-9A-Fa-f]{7}|:[a-z+]`)

// escaped removes every backslash escape; markup left behind would be live.
var escaped = regexp.MustCompile(`\\[\\` + "`" + `|*_~\[\]<>&#$!]`)

func FuzzEscaping(f *testing.F) {
	for _, s := range poisons {
		f.Add(s)
	}
	f.Fuzz(checkEscapes)
}

func checkEscapes(t *testing.T, s string) {
	t.Helper()
	text := clean(s, nameCap)
	if n := utf8.RuneCountInString(text); n > nameCap || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x1b\x02\x03\u200d\u202e") {
		t.Fatalf("cleaned text is not clean: %q", text)
	}
	if clean(text, nameCap) != text {
		t.Fatalf("cleaning twice changes %q", text)
	}
	md := markdown(text)
	bare := escaped.ReplaceAllString(md, "")
	if strings.ContainsAny(bare, "`|*_~[]<>&#$!\\") {
		t.Fatalf("live markup in %q", md)
	}
	if found := active.FindString(escaped.ReplaceAllStringFunc(md, func(pair string) string { return pair[1:] })); found != "" {
		t.Fatalf("a forge would link %q in %q", found, md)
	}
}

func FuzzReport(f *testing.F) {
	for _, s := range poisons {
		f.Add(s)
	}
	f.Fuzz(hostile)
}

// poisons are the seeds of both fuzz targets.
var poisons = []string{
	"a", "**x**", "\\`", "`@octocat`", "<img src=x onerror=y>", "![x](https://x.test/a.png)", "</details>", "| a | b |\n|---|", "-->",
	"\x1b]8;;https://x.test\x07link\x1b]8;;\x07", "#12 @user GH-1 owner/repo#2 4be91c7a5d0f4f6f", "&lt;b&gt;", "\u202e\u200b", "```\n# head", "\xff",
	"\x02evil\x03", "a\\", "::a0", "1. x\n- y\n> z",
}

// hostile puts a text everywhere a run can hold text, and looks for what must not come through.
func hostile(t *testing.T, s string) {
	t.Helper()
	c := poisoned(s)
	var md, txt, ascii, js bytes.Buffer
	for _, err := range []error{
		Markdown(&md, c.run, c.j, comment), Text(&txt, c.run, c.j, Options{}), Text(&ascii, c.run, c.j, Options{ASCII: true}), JSON(&js, c.run, c.j, Options{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := utf8.RuneCountInString(Line(c.run, c.j)); n > lineCap {
		t.Errorf("line 1 has %d characters", n)
	}
	if strings.ContainsAny(txt.String()+md.String(), "\x1b\x00\x02\x03\r\u202e\u200b\u2066") {
		t.Error("a control character came through")
	}
	checkMarkdown(t, md.String())
	for n, l := range strings.Split(txt.String(), "\n")[1:] {
		if columns(l) > minWidth {
			t.Errorf("line %d has %d columns: %q", n+2, columns(l), l)
		}
	}
}

// poisoned is a failed build whose every foreign field is the same text.
func poisoned(s string) scenario {
	c := failScenario()
	run, j := c.run, c.j
	run.ID, run.Workload.Name, run.Workload.Digest, run.Workload.Licence, run.Workload.Source = s, s, s, s, s
	run.Tailgate.Version, run.Declared.Load.Kind, run.Declared.Policy.Path = s, s, s
	for _, a := range []*record.ArmInfo{run.Arms.Base, run.Arms.Head} {
		a.Ref, a.Commit, a.Strategy, a.Subject, a.Start, a.Args, a.Build.SHA256, a.Build.Image = s, s, s, s, s, []string{s}, s, s
	}
	run.Environment = record.Environment{Host: record.Host{Name: s, CPU: s, Kernel: s, Governor: s}, GPUs: []record.GPU{{Name: s, UUID: s, Driver: s}}}
	run.Fidelity = append(run.Fidelity, record.Fidelity{Measure: s, Limit: s, Direction: record.Direction(s), Reason: s, Source: record.NA(s)})
	run.Notes = []record.Note{{ID: s, Text: s}}
	run.Incidents = []record.Incident{{ID: s, Arm: record.Head, Text: s, Log: s, Tail: []string{s, s}}, {ID: record.BuildFailed, Arm: record.Head, Text: s, Tail: strings.Split(s, "\n")}}
	r := &run.Rounds[0]
	r.Flags, r.State, r.FailedIDs = []string{s}, record.RoundState(s), []string{s}
	r.Metrics[s] = record.Metric{Value: record.Of(1), Unit: s}
	r.Metrics["ttft_p99"] = record.Metric{Value: record.NA(s), Unit: "ms"}
	r.Machine = record.State{GPUs: []record.GPUState{{ReasonsNA: s, ProcsNA: s, TempC: record.Spread{Median: record.NA(s)}}}}
	j.Validity = []record.Void{{Slot: 1, Rule: s, Evidence: s}}
	j.Findings = []gate.Finding{{ID: s, Severity: gate.Deciding, Text: s}, {ID: s, Severity: gate.Warning, Text: s}}
	j.NotGated = []gate.NotGated{{Key: s, Reason: s}}
	j.Metrics[0].Cause, j.Metrics[0].HeadMedian, j.Drift.Change = s, record.NA(s), record.NA(s)
	j.Metrics[0].Verdict, j.Errors.Verdict = gate.Inconclusive, gate.Fail
	j.RunSHA256, j.PolicySHA256 = s, s
	return scenario{"poisoned", run, j}
}

// checkMarkdown holds the shape of a comment: one live tag of ours per fold, folds and fences balanced, the marker last.
func checkMarkdown(t *testing.T, text string) {
	t.Helper()
	fence := ""
	open, details := false, 0
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		switch {
		case open:
			open = l != fence
			continue
		case strings.HasPrefix(l, "```"):
			fence, open = strings.TrimSuffix(l, "text"), true
			continue
		case l == "</details>":
			details--
			continue
		case strings.HasPrefix(l, "<details><summary>"):
			details++
			continue
		case strings.HasPrefix(l, "<!-- tailgate "):
			continue
		}
		bare := live(l)
		bare = strings.NewReplacer("<= ", "", ">= ", "").Replace(bare)
		if strings.ContainsAny(bare, "<`[]&#$") && !tableBounds.MatchString(bare) {
			t.Errorf("live markup in line %q", l)
		}
	}
	if open || details != 0 {
		t.Errorf("fence open %t, %d folds open", open, details)
	}
	if last := text[strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n")+1:]; !strings.HasPrefix(last, "<!-- tailgate key=bench ") {
		t.Errorf("the marker is not last: %q", last)
	}
}

// live is a line without code spans and without escaped characters.
func live(l string) string {
	var b strings.Builder
	for i := 0; i < len(l); i++ {
		switch {
		case l[i] == '\\' && i+1 < len(l):
			i++
		case l[i] == '`':
			end := strings.IndexByte(l[i+1:], '`')
			if end < 0 {
				return b.String() + l[i:]
			}
			i += end + 1
		default:
			b.WriteByte(l[i])
		}
	}
	return b.String()
}

// tableBounds is the change cell of ours, "[-1.3, +4.0]", and the head "[low, high]".
var tableBounds = regexp.MustCompile(`^[^<` + "`" + `&#$]*\[[-+a-z0-9.,]+, [-+a-z0-9.,]+\][^<` + "`" + `\[\]&#$]*$`)

func TestHostileTextStaysText(t *testing.T) {
	for _, s := range []string{
		"</details><script>alert(1)</script>", "![x](https://x.test/p.png) @octocat #1", "a|b\n| c | d |", "`` ` ```` x", "\x1b[2J\x1b]0;t\x07",
		strings.Repeat("W", 5000), strings.Repeat("好", 300), "", "-->", "**FAIL**", strings.Repeat("`", 300), strings.Repeat("a b ", 400),
	} {
		hostile(t, s)
	}
}
