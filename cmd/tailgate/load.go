package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/telemetry"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// loadFlags are what `tailgate load` takes from the command line.
type loadFlags struct {
	workload, dialect, model, out string
	measure, window, warmupCap    time.Duration
	trendWindows                  int
	headers                       []string
	asJSON                        bool
}

func (a *app) loadCommand() *cobra.Command {
	var fl loadFlags
	cmd := &cobra.Command{
		Use:   "load URL",
		Short: "Replay a workload against a running server and print the metrics",
		Long: `load measures one server that is already running: warm-up by the steady-state rule, one measured interval, no comparison and
no verdict. The run folder is kept like any other.`,
		Example: `  tailgate load http://127.0.0.1:8000 --workload workloads/mooncake-conv-mini --measure 1m
  tailgate load http://127.0.0.1:8000 --workload W --header 'Authorization: Bearer ...' --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.load(cmd.Context(), args[0], fl, append([]string{"load", args[0]}, flagsOf(cmd)...))
		},
	}
	f := cmd.Flags()
	f.StringVar(&fl.workload, "workload", "", "the workload's folder (required)")
	f.StringVar(&fl.dialect, "dialect", "openai-chat", "the API the server speaks")
	f.StringVar(&fl.model, "model", "", "model name to send (default: the server's first)")
	f.StringVar(&fl.out, "out", "", "run folder to create (default: .tailgate/runs/ID)")
	f.DurationVar(&fl.measure, "measure", time.Minute, "length of the measured interval")
	f.DurationVar(&fl.window, "warmup-window", 10*time.Second, "length of a warm-up window")
	f.DurationVar(&fl.warmupCap, "warmup-cap", 10*time.Minute, "longest warm-up")
	f.IntVar(&fl.trendWindows, "warmup-trend-windows", 10, "windows over which the warm-up must show no trend, at least 5")
	f.StringArrayVar(&fl.headers, "header", nil, "header to send, 'Name: value'; repeatable")
	f.BoolVar(&fl.asJSON, "json", false, "print the round as JSON")
	_ = cmd.MarkFlagRequired("workload")
	return cmd
}

func (a *app) load(ctx context.Context, url string, fl loadFlags, args []string) error {
	w, err := workload.Open(fl.workload)
	if err != nil {
		return usage(err, "check it with `tailgate workload check "+fl.workload+"`")
	}
	header, err := parseHeaders(fl.headers)
	if err != nil {
		return usage(err, "")
	}
	run, clock, err := a.plannedLoad(url, fl, w, args)
	if err != nil {
		return err
	}
	dir := fl.out
	if dir == "" {
		dir = filepath.Join(".tailgate", "runs", run.ID)
	}
	writer, err := record.Create(dir, run)
	if err != nil {
		return usage(err, "choose another folder with --out")
	}
	defer writer.Close() //nolint:errcheck // every file was synced when it was written
	if err := keepWorkload(dir, w); err != nil {
		return err
	}
	sampler, err := telemetry.Start(ctx, telemetry.Options{
		Mode: run.Declared.Telemetry.GPU, Interval: time.Second, Sensor: a.sensor(""), Version: tool().Version,
		Env: proc.Environ(a.lookup, a.environ, proc.Sensor, nil, nil), Clock: clock, Dir: filepath.Join(dir, "telemetry"),
	})
	if err != nil {
		return err
	}
	defer sampler.Close() //nolint:errcheck // sensors are killed if they do not leave
	run.Environment.GPUs, run.Environment.Caps, run.Environment.GPUReason = sampler.GPUs()
	run.Environment.Host = sampler.Host()
	view := newView(a.err, run, a)
	plan := &runner.Plan{
		Run: run, Writer: writer, Clock: clock, Workload: w, Telemetry: sampler, Progress: view.step,
		API: runner.API{Dialect: fl.dialect, Model: fl.model, Header: header},
	}
	stop := a.vouch(ctx, plan)
	err = runner.NewSession(plan).Load(ctx, url)
	if stopErr := stop(); stopErr != nil {
		fmt.Fprintf(a.err, "tailgate: %v\n", stopErr)
	}
	view.close()
	if ctx.Err() != nil {
		return &exitError{code: cancelCode(ctx), err: fmt.Errorf("cancelled; what was measured is in %s", dir)}
	}
	if err != nil {
		return err
	}
	return a.printLoad(run, dir, fl.asJSON)
}

// plannedLoad is the run of one arm: the defaults of the file, with the flags over them.
func (a *app) plannedLoad(url string, fl loadFlags, w *workload.Workload, args []string) (*record.Run, record.Clock, error) {
	f := config.Default()
	f.Target.Dialect, f.Target.Model = fl.dialect, fl.model
	f.Load.Measure = config.Duration(fl.measure)
	f.Warmup.Window, f.Warmup.Cap, f.Warmup.TrendWindows = config.Duration(fl.window), config.Duration(fl.warmupCap), fl.trendWindows
	if fl.trendWindows < f.Warmup.Windows || fl.window < 100*time.Millisecond || fl.measure < time.Second {
		return nil, record.Clock{}, usage(fmt.Errorf("warm-up and measured interval are too short"), "at least --warmup-window 100ms, --warmup-trend-windows 5, --measure 1s")
	}
	if _, err := w.Plan(fl.measure, fl.window); err != nil {
		return nil, record.Clock{}, usage(err, "shorten --measure, or build a longer workload")
	}
	clock, id := record.NewClock(), newID()
	declared := declare(f, policyOf(f, "optional"), id, "optional")
	declared.Order, declared.Looks = []record.Arm{record.Head}, nil
	return &record.Run{
		Schema: record.Schema, ID: id, Kind: record.KindLoad, Status: record.StatusPlanned, Epoch: clock.Epoch(), Tailgate: tool(),
		Command: a.masked(args), Declared: declared, Workload: w.Info(fl.measure), Fidelity: w.Fidelity(),
		Arms: record.Arms{Head: &record.ArmInfo{URL: maskURL(url)}},
	}, clock, nil
}

func parseHeaders(lines []string) (http.Header, error) {
	h := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("--header %q: want 'Name: value'", line)
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h, nil
}

// printLoad prints the metrics of the one round.
func (a *app) printLoad(run *record.Run, dir string, asJSON bool) error {
	if len(run.Rounds) == 0 || run.Rounds[0].State != record.RoundComplete {
		why := "the warm-up never settled; see rounds in run.json"
		for _, in := range run.Incidents {
			why = in.Text
		}
		return &exitError{code: invalidExit, err: fmt.Errorf("nothing was measured: %s", why), hint: "the run folder is " + dir}
	}
	rd := run.Rounds[0]
	if asJSON {
		enc := json.NewEncoder(a.out)
		enc.SetIndent("", "  ")
		return enc.Encode(rd)
	}
	tw := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "metric\tp50\tp90\tp95\tp99\t\n")
	for _, stem := range []string{"ttft", "itl", "tpot", "e2e"} {
		fmt.Fprintf(tw, "%s\t", strings.ToUpper(stem))
		for _, q := range []string{"p50", "p90", "p95", "p99"} {
			fmt.Fprintf(tw, "%s\t", value(rd.Metrics[stem+"_"+q]))
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "\n%d requests, %d failed; output %s, requests %s\n", rd.Counts.Scheduled, rd.Counts.Failures(),
		value(rd.Metrics["output_tps"]), value(rd.Metrics["request_tps"]))
	fmt.Fprintf(a.out, "warm-up %d windows (%s); pacer lag p99 %s\nrun folder %s\n", rd.Steady.Windows, rd.Steady.End,
		value(record.Metric{Value: rd.Client.PacerLagP99, Unit: "ms"}), dir)
	return nil
}

func value(m record.Metric) string {
	x, ok := m.Get()
	switch {
	case !ok:
		return "n/a (" + m.Reason() + ")"
	case m.IsFailed():
		return "failed"
	}
	return fmt.Sprintf("%.4g %s", x, m.Unit)
}
