package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/selftest"
	"github.com/tailgate-ci/tailgate/runner/telemetry"
)

// selftestFlags are what `tailgate selftest` takes from the command line.
type selftestFlags struct {
	url                            string
	streams, connections, requests int
	eventsPerS, rps, seconds       float64
	asJSON, check                  bool
}

func (a *app) selftestCommand() *cobra.Command {
	var fl selftestFlags
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Measure the load engine itself on this machine",
		Long: `selftest starts a server that stamps each event just before it writes it, as a process of its own, and measures what the
client and the pacer add to a latency, how late they release, how much they can take, and what that costs. Without flags it
runs the standard set, about a minute; leave the machine alone meanwhile. Exit 0: it ran; with --check also 1: a target that
was asked of this machine was missed, 3: one could not be measured.`,
		Example: `  tailgate selftest
  tailgate selftest --streams 100 --events-per-s 100 --seconds 60 --json
  tailgate selftest --rps 5000 --seconds 30
  tailgate selftest --connections 32 --requests 1000000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := fl.rows(cmd.Flags().Changed)
			if err != nil {
				return usage(err, "see the examples of `tailgate selftest --help`")
			}
			return a.selftest(cmd.Context(), fl, rows)
		},
	}
	f := cmd.Flags()
	f.IntVar(&fl.streams, "streams", 0, "measure with so many streams open at once")
	f.Float64Var(&fl.eventsPerS, "events-per-s", 100, "events per second of each stream; 0: as fast as the server writes")
	f.Float64Var(&fl.rps, "rps", 0, "measure with an open loop of so many small requests per second")
	f.IntVar(&fl.connections, "connections", 0, "measure with a closed loop of small requests on so many connections")
	f.IntVar(&fl.requests, "requests", 0, "end the closed loop after so many requests (default: by --seconds)")
	f.Float64Var(&fl.seconds, "seconds", 0, "length of each measurement (default 10; in the standard set 3 to 6)")
	f.StringVar(&fl.url, "url", "", "measure against a server that is already running, instead of the truth server")
	f.BoolVar(&fl.asJSON, "json", false, "print one JSON object")
	f.BoolVar(&fl.check, "check", false, "exit 1 when a target asked of this machine is missed")
	return cmd
}

// defaultLength is that of a measurement asked for by flags.
const defaultLength = 10 * time.Second

// rows are the measurements that the flags ask for.
func (fl selftestFlags) rows(set func(string) bool) ([]selftest.Row, error) {
	switch {
	case fl.streams < 0 || fl.connections < 0 || fl.requests < 0 || fl.eventsPerS < 0 || fl.rps < 0 || fl.seconds < 0:
		return nil, errors.New("counts, rates and seconds must not be negative")
	case set("events-per-s") && fl.streams == 0:
		return nil, errors.New("--events-per-s needs --streams")
	case set("requests") && fl.connections == 0:
		return nil, errors.New("--requests needs --connections")
	case set("seconds") && fl.seconds < 0.5:
		return nil, fmt.Errorf("--seconds %g: at least 0.5", fl.seconds)
	}
	length := time.Duration(fl.seconds * float64(time.Second))
	asked := length
	if asked == 0 {
		asked = defaultLength
	}
	var rows []selftest.Row
	if fl.streams > 0 && fl.eventsPerS == 0 {
		rows = append(rows, selftest.CeilingRow(fl.streams, asked))
	} else if fl.streams > 0 {
		rows = append(rows, selftest.StreamsRow("streams", fl.streams, fl.eventsPerS, asked))
	}
	if fl.rps > 0 {
		rows = append(rows, selftest.RateRow("rate", fl.rps, asked))
	}
	if fl.connections > 0 {
		row := selftest.ConnectionsRow(fl.connections, asked)
		if row.Options.Requests = fl.requests; fl.requests > 0 && length == 0 {
			row.Options.Length = time.Hour
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		return rows, nil
	}
	return selftest.Standard(length), nil
}

func (a *app) selftest(ctx context.Context, fl selftestFlags, rows []selftest.Row) error {
	standard := fl.streams == 0 && fl.rps == 0 && fl.connections == 0
	report := selftest.NewReport()
	if host := telemetry.Facts(); host.CPU != "" {
		report.CPU, report.Governor = host.CPU, host.Governor
	}
	base, stop, err := a.selftestServer(ctx, fl.url)
	if err != nil {
		return usage(err, "")
	}
	defer stop()
	for i, row := range rows {
		a.say("%d/%d  %s", i+1, len(rows), row.Text)
		if err := runRow(ctx, report, row, base); err != nil {
			return err
		}
	}
	if standard {
		a.say("the server alone")
		alone := base
		alone.Length = time.Second
		report.ServerAlone = selftest.MeasureAlone(ctx, alone)
		report.AddCommand(a.measureCommand(ctx))
	}
	if ctx.Err() != nil {
		return &exitError{code: cancelCode(ctx), err: errors.New("cancelled")}
	}
	report.Finish()
	if err := a.printSelftest(report, fl.asJSON); err != nil {
		return err
	}
	return checked(report, fl.check)
}

// say shows on standard error what is going on.
func (a *app) say(format string, args ...any) { fmt.Fprintf(a.err, "selftest  "+format+"\n", args...) }

// selftestServer is the server to measure against: ours, unless the user names one.
func (a *app) selftestServer(ctx context.Context, url string) (o selftest.Options, stop func(), err error) {
	if url != "" {
		s := &truthServer{URL: url}
		if _, err := s.truth(ctx, "none"); err == nil {
			return selftest.Options{URL: url, Truth: s.truth}, func() {}, nil
		}
		return selftest.Options{URL: url}, func() {}, nil
	}
	s, err := a.startTruthServer(ctx)
	if err != nil {
		return o, nil, err
	}
	return selftest.Options{URL: s.URL, Truth: s.truth, ServerPID: s.PID}, func() { _ = s.stop() }, nil // it dies with us in any case
}

// runRow measures one row, or notes why it cannot be measured here.
func runRow(ctx context.Context, report *selftest.Report, row selftest.Row, base selftest.Options) error {
	ceiling, err := client.Descriptors()
	if err != nil {
		return err
	}
	if need := max(row.Options.Streams, row.Options.Connections); need > ceiling {
		report.Skip(row, fmt.Sprintf("it needs %d connections, this process may open %d: raise the limit of open files (ulimit -n)", need, ceiling))
		return nil
	}
	o := row.Options
	o.URL, o.Truth, o.ServerPID = base.URL, base.Truth, base.ServerPID
	got, err := selftest.Run(ctx, o)
	switch {
	case ctx.Err() != nil:
		return &exitError{code: cancelCode(ctx), err: errors.New("cancelled")}
	case err != nil:
		return usage(err, "")
	}
	report.Add(row, got)
	return nil
}

func (a *app) printSelftest(report *selftest.Report, asJSON bool) error {
	if !asJSON {
		return report.WriteText(a.out)
	}
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	return enc.Encode(report)
}

// checked turns missed targets into an exit code, if that was asked for.
func checked(report *selftest.Report, check bool) error {
	missed, unknown := report.Missed()
	switch {
	case !check:
		return nil
	case len(missed) > 0:
		return &exitError{code: gate.Exit(gate.Fail), err: fmt.Errorf("%d targets missed, the first is %s of %s", len(missed), missed[0].Name, missed[0].Text)}
	case len(unknown) > 0:
		return &exitError{code: gate.Exit(gate.Inconclusive), err: fmt.Errorf("%d targets could not be measured, the first is %s of %s: %s",
			len(unknown), unknown[0].Name, unknown[0].Text, unknown[0].Reason)}
	default:
		return nil
	}
}

// measureCommand says how long this program takes to start and to end, the median of nine times, ms, and its size, MB.
func (a *app) measureCommand(ctx context.Context) (startUp, binary record.Value) {
	self, err := os.Executable()
	if err != nil {
		return record.NA(err.Error()), record.NA(err.Error())
	}
	var took []float64
	for range 9 {
		began := time.Now()
		cmd := exec.CommandContext(ctx, self, "version")
		cmd.Env = a.environ
		if err := cmd.Run(); err != nil {
			return record.NA(err.Error()), record.NA(err.Error())
		}
		took = append(took, time.Since(began).Seconds()*1e3)
	}
	slices.Sort(took)
	info, err := os.Stat(self)
	if err != nil {
		return record.Of(took[4]), record.NA(err.Error())
	}
	return record.Of(took[4]), record.Of(float64(info.Size()) / 1e6)
}
