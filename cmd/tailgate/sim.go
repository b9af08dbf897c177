package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/internal/simserver"
)

// simChild is the hidden command of a process that a simulated server starts beside itself.
const simChild = "sim-child"

// simCommand runs the simulated server. It is hidden: the demo and the tests start it as a real process.
func (a *app) simCommand() *cobra.Command {
	var file string
	var port int
	cmd := &cobra.Command{
		Use:    "sim --config FILE --port N",
		Short:  "Run the simulated inference server",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return a.sim(cmd.Context(), file, port) },
	}
	cmd.Flags().StringVar(&file, "config", "sim.json", "the server's knobs, a JSON file")
	cmd.Flags().IntVar(&port, "port", 8000, "port on 127.0.0.1")
	return cmd
}

func (a *app) sim(ctx context.Context, file string, port int) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return usage(err, "")
	}
	cfg, err := simserver.ParseConfig(text)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", file, err), "")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	err = simserver.Serve(ctx, cfg, simserver.Options{
		Addr: fmt.Sprintf("127.0.0.1:%d", port), Getenv: a.getenv, Log: a.err, Spawn: simserver.Respawn(self, simChild),
	})
	if exit, ok := errors.AsType[*simserver.ExitError](err); ok {
		return &exitError{code: exit.Code, err: exit}
	}
	return err
}

func (a *app) simChildCommand() *cobra.Command {
	return &cobra.Command{
		Use: simChild, Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return simserver.RunChild(cmd.Context(), args[0], a.err)
		},
	}
}

// attended returns the context of a command line. A simulated server takes a signal as its configuration says, its children
// take none; everything else stops within a budget.
func (a *app) attended(args []string) (context.Context, func()) {
	switch {
	case len(args) > 0 && args[0] == simChild:
		return context.Background(), func() {}
	case len(args) > 0 && (args[0] == "sim" || args[0] == canaryName):
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		return ctx, stop
	}
	return interruptible(context.Background(), a.err, a.urgent)
}
