package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

var update = flag.Bool("update", false, "write generated pages anew")

// The page of exit codes is the table in the code.
func TestExitCodePage(t *testing.T) {
	var b bytes.Buffer
	fmt.Fprint(&b, "# Exit codes\n\nThe exit code is the verdict. Generated from the table in `gate/exit.go`.\n\n| code | verdict | meaning |\n|--:|---|---|\n")
	for _, row := range gate.ExitCodes() {
		verdict := "–"
		if row.Verdict != "" {
			verdict = "`" + string(row.Verdict) + "`"
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", row.Code, verdict, row.Meaning)
	}
	fmt.Fprint(&b, "\n`tailgate demo` exits 0 when its scenario's verdict came out, whatever that verdict is. `tailgate probe` exits 0 when the request was\n"+
		"ok and 1 when it was not. `tailgate selftest` exits 0 when it ran; with `--check` 1 when a target was missed, 3 when one could not\n"+
		"be measured. `tailgate load` without `--slo` exits 0 when it measured, 1 when no request succeeded; with limits its code is a\n"+
		"verdict: 0 all are shown to hold, 1 one is broken, 3 too few requests to tell, 4 the round does not count. `tailgate calibrate` exits 0\n"+
		"when it wrote a calibration, whatever that says, and 4 when it could not.\n")
	path := filepath.Join("..", "..", "docs", "exit-codes.md")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), b.String()); diff != "" {
		t.Errorf("docs/exit-codes.md is stale (run with -update):\n%s", diff)
	}
}

// The page of the dialects names each one, and its example is a file that can be run.
func TestDialectPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "dialects.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range client.Dialects() {
		if !strings.Contains(string(page), "| `"+name+"`") {
			t.Errorf("docs/dialects.md has no row for %s", name)
		}
		if _, err := parsePolicy([]byte("version: 1\ntarget: {dialect: " + name + "}\n")); err != nil {
			t.Errorf("the file does not take dialect %s: %v", name, err)
		}
	}
	_, after, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ := strings.Cut(after, "```")
	f, err := parsePolicy([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Runnable(); err != nil {
		t.Error(err)
	}
	if api, err := apiOf(f, &workload.Workload{}); err != nil || api.Settings.Pointers.NOut != "/usage/output" {
		t.Errorf("%+v, %v", api, err)
	}
}

var commandLine = regexp.MustCompile(`(?m)^\s*(?:\S+=\S+ +)*(?:go run \./cmd/)?(tailgate [a-z].*?)(?:\s+#.*)?$`)

// printed is what a command wrote, as a page shows it.
var printed = regexp.MustCompile("(?s)```text\n.*?```")

// Every tailgate command in the documentation and in the help must name a subcommand and flags that exist.
func TestDocumentedCommandsExist(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, page := range append(pages, filepath.Join("..", "..", "README.md"), filepath.Join("..", "..", "examples", "llama.cpp", ".tailgate.yaml")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(page)] = strings.ReplaceAll(printed.ReplaceAllString(string(text), ""), "\n#   ", "\n")
	}
	walk((&app{out: io.Discard, err: io.Discard}).root(), func(c *cobra.Command) { texts["help of "+c.Name()] = c.Example })
	seen := 0
	for page, text := range texts {
		for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
			seen++
			if err := parses(m[1]); err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
			}
		}
	}
	if seen < 20 {
		t.Errorf("found %d commands; is the pattern still right?", seen)
	}
}

func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		walk(sub, visit)
	}
}

// parses checks a command line against the command tree, without running it.
func parses(line string) error {
	line, _, _ = strings.Cut(line, " | ")
	line = regexp.MustCompile(`'[^']*'`).ReplaceAllString(line, "quoted")
	args := strings.Fields(line)[1:]
	root := (&app{out: io.Discard, err: io.Discard}).root()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd == root {
		return fmt.Errorf("no such command")
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
