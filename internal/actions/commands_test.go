package actions

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/gate"
)

// newCommands speaks to files of its own; out are the annotations.
func newCommands(t *testing.T) (c *Commands, outputs, summary string, out *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	outputs, summary, out = filepath.Join(dir, "output"), filepath.Join(dir, "summary"), &bytes.Buffer{}
	env := map[string]string{"GITHUB_OUTPUT": outputs, "GITHUB_STEP_SUMMARY": summary}
	return NewCommands(func(name string) string { return env[name] }, out), outputs, summary, out
}

// readOutputs reads an output file by the runner's rules: NAME=VALUE, or NAME<<DELIMITER and lines up to the delimiter. A later
// value replaces an earlier one.
func readOutputs(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return map[string]string{}
	}
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text)), "\n")
	for i := 0; i < len(lines); i++ {
		if lines[i] == "" {
			continue
		}
		equals, heredoc := strings.Index(lines[i], "="), strings.Index(lines[i], "<<")
		if equals >= 0 && (heredoc < 0 || equals < heredoc) {
			values[lines[i][:equals]] = lines[i][equals+1:]
			continue
		}
		if heredoc < 0 {
			t.Fatalf("line %d is no output: %q", i+1, lines[i])
		}
		name, end := lines[i][:heredoc], lines[i][heredoc+2:]
		var value []string
		for i++; i < len(lines) && lines[i] != end; i++ {
			value = append(value, lines[i])
		}
		if i == len(lines) {
			t.Fatalf("output %s has no end", name)
		}
		values[name] = strings.Join(value, "\n")
	}
	return values
}

func TestSetWritesWhatTheRunnerReads(t *testing.T) {
	c, path, _, _ := newCommands(t)
	want := map[string]string{
		"verdict": "fail", "line": "❌ FAIL — TTFT p50 +33 % = slower << a lot", "empty": "", "delimiter-ish": "EOF", "spaces": "  a  ",
		"long": strings.Repeat("x", valueLimit),
	}
	for name, value := range want {
		if err := c.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, readOutputs(t, path)); diff != "" {
		t.Errorf("the runner reads (-want +got):\n%s", diff)
	}
}

func TestSetRefusesWhatCouldLeaveItsFrame(t *testing.T) {
	c, path, _, _ := newCommands(t)
	for _, value := range []string{
		"a\n" + delimiter + "\nverdict=pass", "a\nverdict=pass", "a\rverdict=pass", delimiter, "a\x00b", "a\u0085b", "\x1b[31mred", strings.Repeat("x", valueLimit+1),
	} {
		if err := c.Set("verdict-line", value); err == nil {
			t.Errorf("%q was written", value[:min(len(value), 60)])
		}
	}
	if got := readOutputs(t, path); len(got) != 0 {
		t.Errorf("the runner reads %q", got)
	}
}

func FuzzSet(f *testing.F) {
	for _, seed := range []string{"pass", "a\n" + delimiter + "\nverdict=pass", "=", "<<", "\r", delimiter} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		c, path, _, _ := newCommands(t)
		err := c.Set("line", value)
		got := readOutputs(t, path)
		if err == nil && (len(got) != 1 || got["line"] != value) || err != nil && len(got) != 0 {
			t.Errorf("value %q, error %v: the runner reads %q", value, err, got)
		}
	})
}

// The library panics where a file cannot be written; callers get an error.
func TestPanicsBecomeErrors(t *testing.T) {
	c := NewCommands(func(string) string { return "/nowhere/at/all" }, brokenWriter{})
	for name, do := range map[string]func() error{
		"Set": func() error { return c.Set("a", "b") }, "Summary": func() error { return c.Summary("x") },
		"Error": func() error { return c.Error("x") }, "Warning": func() error { return c.Warning("x") }, "Notice": func() error { return c.Notice("x") },
	} {
		if err := do(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestAnnotationIsOneCommand(t *testing.T) {
	c, _, _, out := newCommands(t)
	if err := c.Error("config: 100 %\nnext: ::set-output name=verdict::pass\r\n::error::x\x1b"); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "::error::config: 100 %25%0Anext: ::set-output name=verdict::pass%0A::error::x\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
	out.Reset()
	if err := c.Warning(strings.Repeat("é", 10_000)); err != nil {
		t.Fatal(err)
	}
	if n := len([]rune(out.String())); n > 2100 || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("an annotation of %d characters", n)
	}
}

func TestSummaryFitsBesideWhatIsThere(t *testing.T) {
	c, _, path, _ := newCommands(t)
	before := strings.Repeat("x", summaryLimit-2000)
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	report := "**FAIL**\n\n<details><summary>Rounds</summary>\n\n" + strings.Repeat("row\n", 1000) + "\n</details>\n"
	if err := c.Summary(report); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) > summaryLimit || !strings.HasPrefix(string(got), before+"**FAIL**") || !strings.Contains(string(got), "Left out to fit: Rounds.") {
		t.Errorf("the summary has %d bytes and ends …%q", len(got), got[len(before):])
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", summaryLimit)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Summary(report); err == nil {
		t.Error("a full summary took more")
	}
}

func TestOutcomeSetsEveryOutput(t *testing.T) {
	c, path, _, _ := newCommands(t)
	j := aJudgement()
	j.Line = "❌ FAIL — model ##[error]x\n\x1b[31m slower"
	if err := c.Outcome(Outcome{Dir: "/tmp/run", Run: aRun(), Judgement: &j}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"verdict": "fail", "reason": "metric_worse", "verdict-line": "❌ FAIL — model # #[error]x [31m slower", "failed-metrics": `["ttft_p50"]`,
		"base-sha": baseCommit, "head-sha": headCommit, "workload-digest": aRun().Workload.Digest, "output-dir": "/tmp/run",
		"result-json": "/tmp/run/run.json", "report-md": "/tmp/run/report.md",
	}
	if diff := cmp.Diff(want, readOutputs(t, path)); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if err := c.Outcome(Outcome{Reason: RefusedFork}); err != nil {
		t.Fatal(err)
	}
	for name, value := range readOutputs(t, path) {
		if expect := map[string]string{"reason": RefusedFork, "failed-metrics": "[]"}[name]; value != expect {
			t.Errorf("%s is %q after a refusal, want %q", name, value, expect)
		}
	}
	pass := gate.Judgement{Verdict: gate.Pass, Line: strings.Repeat("é", 400)}
	if err := c.Outcome(Outcome{Judgement: &pass}); err != nil {
		t.Error(fmt.Errorf("a long line is cut, not refused: %w", err))
	}
}
