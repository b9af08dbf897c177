// Command tailgate is a performance-regression gate for model-inference services: it builds the base and the head of a
// change, replays one versioned workload against both in interleaved rounds, and says whether head is slower or breaks the
// SLO. This package only wires the rooms of the house together; one file per subcommand.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	if self, err := os.Executable(); err == nil {
		program = self
	}
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr, os.Environ()))
}

// app is what every subcommand may use: its streams and its environment. Nothing below reads the process's own.
type app struct {
	out, err io.Writer
	environ  []string
	// ascii replaces the glyphs of verdicts by words in brackets.
	ascii bool
	// urgent knows how servers are killed at once.
	urgent *urgent
}

// lookup reads a variable of the environment the command was given.
func (a *app) lookup(name string) (string, bool) {
	for _, kv := range a.environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

func (a *app) getenv(name string) string {
	v, _ := a.lookup(name)
	return v
}

// command runs one command line and returns its exit code.
func command(args []string, out, errOut io.Writer, environ []string) int {
	a := &app{out: out, err: errOut, environ: environ, urgent: &urgent{}}
	ctx, done := a.attended(args)
	defer done()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	exit := exitOf(ctx, err)
	if exit.err != nil {
		fmt.Fprintf(errOut, "tailgate: %v\n", exit.err)
	}
	if exit.hint != "" {
		fmt.Fprintf(errOut, "  next: %s\n", exit.hint)
	}
	return exit.code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tailgate",
		Short: "A performance-regression gate for model-inference services",
		Long: `tailgate says whether head is slower than its base, or breaks the SLO, and shows why you may believe it.

  see the whole job on a simulated server, without configuration
    tailgate demo

  compare your branch with the merge base, as .tailgate.yaml says
    tailgate run

  read a stored run again, or judge it by another policy
    tailgate report .tailgate/runs/ID --policy new.yaml

  ask a server one question and see what the client saw
    tailgate probe http://127.0.0.1:8000`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.PersistentFlags().BoolVar(&a.ascii, "ascii", false, "write verdicts as [PASS] [FAIL] [????] [VOID]")
	root.AddCommand(
		a.demoCommand(), a.runCommand(), a.calibrateCommand(), a.reportCommand(), a.loadCommand(), a.probeCommand(), a.workloadCommand(), a.selftestCommand(),
		a.actionCommand(), a.versionCommand(), a.simCommand(),
		a.simChildCommand(), a.canaryCommand(),
	)
	return root
}
