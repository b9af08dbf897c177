// Command mutants breaks rules on purpose, one at a time, and shows for each which test notices: a suite that stays green
// while a rule is broken proves nothing. The tree itself is not touched; the go command reads the broken file in place of its
// own. Run it as scripts/mutate.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// run tries the mutations whose names hold one of the words; all when there is none.
func run(ctx context.Context, out io.Writer, words []string) error {
	dir, err := os.MkdirTemp("", "tailgate-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary folder harms nobody
	tried, survived := 0, 0
	for _, m := range mutations {
		if !m.picked(words) {
			continue
		}
		tried++
		said, err := m.try(ctx, dir)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			survived++
			said = "NOT CAUGHT: " + err.Error()
		}
		fmt.Fprintf(out, "%-58s %s\n", m.name, said)
	}
	switch {
	case tried == 0:
		return errors.New("no mutation has such a name")
	case survived > 0:
		return fmt.Errorf("%d of %d mutations were not caught", survived, tried)
	}
	fmt.Fprintf(out, "%d mutations, each caught\n", tried)
	return nil
}

func (m mutation) picked(words []string) bool {
	for _, w := range words {
		if strings.Contains(m.name, w) {
			return true
		}
	}
	return len(words) == 0
}

// try runs the named test on the tree as it is, which must pass, and with the mutation, which must fail by that test and not
// because the program no longer builds. It returns the test that caught it.
func (m mutation) try(ctx context.Context, dir string) (string, error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("it does not apply: %q stands %d times in %s", m.old, n, m.file)
	}
	if out, passed := m.test(ctx); !passed {
		return "", fmt.Errorf("%s fails without it:\n%s", m.by, out)
	}
	overlay, err := m.overlay(dir, strings.Replace(string(text), m.old, m.new, 1))
	if err != nil {
		return "", err
	}
	out, passed := m.test(ctx, "-overlay", overlay)
	switch {
	case passed:
		return "", fmt.Errorf("%s passes", m.by)
	case !strings.Contains(out, "--- FAIL: "+m.by):
		return "", fmt.Errorf("%s did not come to its end:\n%s", m.by, out)
	}
	return m.by, nil
}

// overlay writes the broken file and tells the go command to read it in place of the true one.
func (m mutation) overlay(dir, broken string) (string, error) {
	place, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	copied := filepath.Join(dir, "broken.go")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {place: copied}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	err = os.WriteFile(copied, []byte(broken), 0o600) //nolint:gosec // the table names the file, the copy lies in our own folder
	return overlay, errors.Join(err, os.WriteFile(overlay, replace, 0o600))
}

// test runs the one test that is to notice.
func (m mutation) test(ctx context.Context, flags ...string) (out string, passed bool) {
	args := append([]string{"test", "-run", "^" + m.by + "$"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+m.in)...)
	text, err := cmd.CombinedOutput()
	return string(text), err == nil && !strings.Contains(string(text), "no tests to run")
}
