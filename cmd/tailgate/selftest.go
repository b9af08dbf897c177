package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/runner/selftest"
)

type selftestFlags struct {
	streams, connections int
	eventsPerS, rps      float64
	seconds              float64
	asJSON               bool
}

func (a *app) selftestCommand() *cobra.Command {
	var fl selftestFlags
	cmd := &cobra.Command{
		Use:     "selftest",
		Short:   "Measure the load engine on this machine",
		Long:    `selftest starts a server of known truth as a process of its own and measures what the client and the pacer add to a latency.`,
		Example: `  tailgate selftest --streams 100 --events-per-s 100 --seconds 10 --json`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.selftest(cmd.Context(), fl) },
	}
	f := cmd.Flags()
	f.IntVar(&fl.streams, "streams", 0, "streams open at once")
	f.Float64Var(&fl.eventsPerS, "events-per-s", 100, "events per second of each stream")
	f.Float64Var(&fl.rps, "rps", 0, "requests per second")
	f.IntVar(&fl.connections, "connections", 0, "connections")
	f.Float64Var(&fl.seconds, "seconds", 5, "length")
	f.BoolVar(&fl.asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) selftest(ctx context.Context, fl selftestFlags) error {
	s, err := a.startTruthServer(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	r, err := selftest.Run(ctx, selftest.Options{
		URL: s.URL, Truth: s.truth, Streams: fl.streams, EventsPerS: fl.eventsPerS, RPS: fl.rps, Connections: fl.connections,
		Seconds: time.Duration(fl.seconds * 1e9), Warmup: time.Second, ServerPID: s.PID,
	})
	if err != nil {
		return err
	}
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return err
	}
	fmt.Fprintln(a.err)
	return nil
}
