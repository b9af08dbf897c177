package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/telemetry"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

func (a *app) loadCommand() *cobra.Command {
	var fl loadFlags
	cmd := &cobra.Command{
		Use:   "load URL",
		Short: "Replay a workload against a running server and print the metrics",
		Long: `load measures one server that is already running: four requests to see that it is asked in the right way, warm-up until output
and latency are level, one measured interval, the figures. Nothing is compared. The run folder is kept like any other.

The workload is a folder, or one that comes with tailgate: ` + listed(builtinWorkloads()) + `. Requests are sent by its schedule
whatever the server does; --concurrency makes a closed loop instead, which hides overload. The warm-up cannot be left out: a round
that was not steady does not count. Shorten it with --warmup-window.

Exit 0: measured, and every --slo limit is shown to hold; 1: a limit is broken, or no request succeeded; 2: usage, or the server
is not asked in the right way; 3: too few requests to tell; 4: the round does not count.`,
		Example: `  tailgate load http://127.0.0.1:8000 --workload azure-conv-mini --warmup-window 2s
  tailgate load http://127.0.0.1:8000 --workload workloads/chat --slo ttft_p99=800ms,error_rate=1%
  tailgate load http://127.0.0.1:8000 --workload workloads/chat --concurrency 32 --measure 5m
  tailgate load https://api.example.com/v1/chat/completions --workload W --header 'Authorization: Bearer ...' --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.load(cmd.Context(), args[0], fl, append([]string{"load", args[0]}, flagsOf(cmd)...))
		},
	}
	fl.register(cmd.Flags())
	return cmd
}

// loading is one load from its flags to its report.
type loading struct {
	app *app
	url string
	fl  loadFlags
	// text is the policy as it is stored with the run; file what it says.
	text     []byte
	file     *config.File
	policy   gate.Policy
	workload *workload.Workload
	run      *record.Run
	clock    record.Clock
	api      runner.API
	probe    record.ProbeReport
}

func (a *app) load(ctx context.Context, url string, fl loadFlags, args []string) error {
	l := &loading{app: a, url: url, fl: fl, clock: record.NewClock()}
	if err := l.plan(args); err != nil {
		return err
	}
	if err := l.ask(ctx); err != nil {
		return err
	}
	dir := fl.out
	if dir == "" {
		dir = filepath.Join(".tailgate", "runs", l.run.ID)
	}
	writer, err := record.Create(dir, l.run)
	if err != nil {
		return usage(err, "choose another folder with --out")
	}
	defer writer.Close() //nolint:errcheck // every file was synced when it was written
	if err := l.keep(dir); err != nil {
		return err
	}
	err = l.measure(ctx, writer)
	switch {
	case ctx.Err() != nil:
		return &exitError{
			code: cancelCode(ctx), err: fmt.Errorf("cancelled; what was measured is in %s", dir),
			hint: "a cancelled load is never judged; `tailgate report " + dir + "` says how far it came",
		}
	case err != nil:
		return &exitError{code: invalidExit, err: err, hint: "what was measured is in " + dir}
	}
	return l.show(dir)
}

// usualMeasure is the measured interval of a load that sets none, where the workload lasts so long.
const usualMeasure = time.Minute

// plan turns the flags into a run; nothing is sent or written yet.
func (l *loading) plan(args []string) error {
	var err error
	if l.workload, err = openWorkload(l.fl.workload); err != nil {
		return err
	}
	if l.fl.measure == 0 {
		l.fl.measure = max(time.Second, min(usualMeasure, l.workload.Span().Truncate(time.Second)))
	}
	if err := l.fl.check(); err != nil {
		return err
	}
	if l.text, err = l.fl.policy(); err != nil {
		return usage(err, "")
	}
	if l.file, err = parsePolicy(l.text); err != nil {
		return err
	}
	l.file.Target.Dialect, l.file.Target.Model = l.fl.dialect, l.fl.model
	header, err := parseHeaders(l.fl.headers)
	if err != nil {
		return usage(err, "")
	}
	l.policy = policyOf(l.file, "optional")
	id := newID()
	declared := declare(l.file, l.policy, id, "optional")
	if _, err := runner.Traffic(l.workload, declared); err != nil {
		return usage(err, "shorten --measure, or build a longer workload")
	}
	declared.Order, declared.Looks = []record.Arm{record.Head}, nil
	declared.Policy.Path = "policy.yaml"
	l.api = runner.API{
		Dialect: l.fl.dialect, Model: l.fl.model, Header: header, Settings: l.fl.settings, Example: exampleOf(l.workload),
	}
	l.run = &record.Run{
		Schema: record.Schema, ID: id, Kind: record.KindLoad, Status: record.StatusPlanned, Epoch: l.clock.Epoch(), Tailgate: tool(),
		Command: l.app.masked(args), Declared: declared, Workload: l.workload.Info(runner.Stretch(l.workload, declared)), Fidelity: l.workload.Fidelity(),
		Arms: record.Arms{Head: &record.ArmInfo{URL: maskURL(l.url)}},
	}
	return nil
}

// keep puts beside the run what it takes to understand and to judge it again.
func (l *loading) keep(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), l.text, 0o600); err != nil {
		return err
	}
	text, err := json.MarshalIndent(l.probe, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "probe.json"), append(text, '\n'), 0o600); err != nil {
		return err
	}
	return keepWorkload(dir, l.workload)
}

// measure runs the one round.
func (l *loading) measure(ctx context.Context, writer *record.Writer) error {
	sampler, err := telemetry.Start(ctx, telemetry.Options{
		Mode: l.run.Declared.Telemetry.GPU, Interval: time.Second, Sensor: l.app.sensor(""), Version: tool().Version,
		Env: proc.Environ(l.app.lookup, l.app.environ, proc.Sensor, nil, nil), Clock: l.clock, Dir: filepath.Join(writer.Dir(), "telemetry"),
	})
	if err != nil {
		return err
	}
	defer sampler.Close() //nolint:errcheck // sensors are killed if they do not leave
	l.run.Environment.GPUs, l.run.Environment.Caps, l.run.Environment.GPUReason = sampler.GPUs()
	l.run.Environment.Host = sampler.Host()
	view := l.view()
	defer view.close()
	plan := &runner.Plan{
		Run: l.run, Writer: writer, Clock: l.clock, Workload: l.workload, Telemetry: sampler, Progress: view.step, API: l.api,
	}
	stop := l.app.vouch(ctx, plan)
	err = runner.NewSession(plan).Load(ctx, l.url)
	if stopErr := stop(); stopErr != nil {
		fmt.Fprintf(l.app.err, "tailgate: %v\n", stopErr)
	}
	return err
}

// show judges the run, prints it and ends with the exit code.
func (l *loading) show(dir string) error {
	j, err := writeJudgement(dir, dir, l.run, l.policy)
	if err != nil {
		// A full disk leaves a readable run; its figures are still printed.
		fmt.Fprintf(l.app.err, "tailgate: the report could not be written: %v\n", err)
	}
	format := "text"
	if l.fl.asJSON {
		format = "json"
	} else {
		fmt.Fprintln(l.app.err)
	}
	if err := l.app.render(format, l.run, j, dir); err != nil {
		return err
	}
	if j.Verdict == "" && l.run.Rounds[0].Counts.Classes[record.OK] == 0 {
		return &exitError{code: noneSucceeded}
	}
	return verdictExit(j.Verdict)
}

// noneSucceeded is the exit code of a load without limits of which every request failed.
const noneSucceeded = 1
