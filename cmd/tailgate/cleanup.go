package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/internal/actions"
	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/internal/state"
)

// cleanupCommand is what a job calls last, whatever became of its run.
func (a *app) cleanupCommand() *cobra.Command {
	var path string
	var strict bool
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "End and remove what a run of this job left behind",
		Long: `cleanup reads the state file of a run: one that still goes on is interrupted first and gets 7 s; then servers, temporary
folders and worktrees that the file names are taken away, and nothing else. It can be called again. It exits 0 and warns about what is
left, or 4 with --strict. Without --state it looks at every run below RUNNER_TEMP.`,
		Example: `  tailgate action cleanup
  tailgate action cleanup --state ~/.cache/tailgate/ID/state.json --strict`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.cleanup(cmd.Context(), path, strict) },
	}
	cmd.Flags().StringVar(&path, "state", "", "the state file of one run (default: those of all runs below RUNNER_TEMP)")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit 4 when something is left")
	return cmd
}

// cleanup never fails a job whose verdict stands, unless it is told to.
func (a *app) cleanup(ctx context.Context, path string, strict bool) error {
	paths := []string{path}
	if path == "" {
		if a.getenv("RUNNER_TEMP") == "" {
			// The cache holds the runs of all of the user's terminals, too.
			return usage(errors.New("RUNNER_TEMP is not set: which run is meant?"), "name its state file with --state")
		}
		paths = stateFiles(a.treesBelow())
	}
	log := actions.NewLog(a.err)
	commands := actions.NewCommands(a.getenv, a.out)
	left := false
	for _, path := range paths {
		s, ok := a.cleanRun(ctx, path)
		if !ok {
			continue
		}
		fmt.Fprintf(log, "cleanup: %s\n", s)
		if len(s.left) > 0 || s.skipped != "" {
			left = true
			_ = commands.Warning("tailgate cleanup: " + s.String()) // it stands in the log as well
		}
	}
	if err := log.Close(); err != nil {
		return err
	}
	if left && strict {
		return &exitError{code: gate.Exit(gate.Invalid)}
	}
	return nil
}

// cleanRun asks a run that lives to end, and cleans up after it.
func (a *app) cleanRun(ctx context.Context, path string) (settlement, bool) {
	if err := interruptOwner(ctx, path); err != nil {
		return settlement{path: path, skipped: err.Error()}, true
	}
	s, ok := settle(ctx, path, a)
	if !ok {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return s, false // it has cleaned up itself
		}
		s.skipped = "its run goes on in spite of SIGINT, or somebody else cleans up after it"
		return s, true
	}
	return s, true
}

// interruptOwner sends SIGINT to the tailgate that owns a state file and waits until it is gone, at most as long as a
// cancelled run may take.
func interruptOwner(ctx context.Context, path string) error {
	held, err := state.Take(path)
	if err != nil {
		return nil // whoever cleans up says what is wrong with the file
	}
	held.Release()
	table := proc.Table{}
	if held.Fate(table) != state.Lives || held.Owner.PID == os.Getpid() {
		return nil
	}
	owner := held.Owner.ID()
	if err := table.Signal(owner, syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("its run goes on and cannot be interrupted: %w", err)
	}
	limit := time.NewTimer(interruptBudget)
	defer limit.Stop()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for table.Alive(owner) {
		select {
		case <-ctx.Done():
			return nil
		case <-limit.C:
			return nil
		case <-tick.C:
		}
	}
	return nil
}
