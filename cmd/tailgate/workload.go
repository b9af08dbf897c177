package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

func (a *app) workloadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workload",
		Short: "Build, check and describe workloads",
		Long: `A workload is a folder: a versioned set of requests with their arrivals, conversations and output lengths, and a digest over
all of it. One digest means the same bytes at the same offsets in every round.`,
	}
	cmd.AddCommand(a.workloadBuild(), a.workloadCheck(), a.workloadShow())
	return cmd
}

func (a *app) workloadBuild() *cobra.Command {
	var o workload.Options
	var from, out string
	var names []string
	for _, i := range workload.Importers() {
		names = append(names, fmt.Sprintf("  %-10s %s", i.Name, i.About))
	}
	cmd := &cobra.Command{
		Use:   "build TRACE --from FORMAT --out DIR",
		Short: "Make a workload of a trace",
		Long: `build reads a trace and writes a workload folder. Every row that is left out is counted with a reason, and the result is
compared with its source: where it differs too much, the build is refused unless the difference is accepted by name.

Formats:
` + strings.Join(names, "\n"),
		Example: `  tailgate workload build conversation.jsonl --from mooncake --sample 0.25 --dequantise uniform --name chat --out workloads/chat
  tailgate workload build trace.csv --from azure-csv --window-length 10m --out workloads/azure`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if o.Name == "" {
				o.Name = lastElement(out)
			}
			w, err := workload.ImportFile(from, args[0], o)
			if err != nil {
				return usage(err, buildHint(err))
			}
			if err := workload.Write(out, w); err != nil {
				return usage(err, "")
			}
			return printFacts(a.out, w.Describe())
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "format of the trace (required)")
	f.StringVar(&out, "out", "", "folder to write (required)")
	f.StringVar(&o.Name, "name", "", "the workload's name (default: the folder's)")
	f.IntVar(&o.Version, "version", 1, "the workload's version; raise it when the content changes")
	f.Uint64Var(&o.Seed, "seed", 1, "the only seed")
	f.StringVar(&o.Description, "description", "", "one sentence for people")
	f.StringVar(&o.Licence, "licence", "", "licence of the trace")
	f.StringVar(&o.Attribution, "attribution", "", "whom to name with the trace")
	f.StringVar((*string)(&o.Output), "output", "force", "output length: force, cap or free")
	f.IntVar(&o.MaxBad, "max-bad", 0, "bad rows to leave out before the build stops")
	f.BoolVar(&o.StrictOrder, "strict-order", false, "refuse rows out of order of time instead of sorting them")
	f.DurationVar(&o.From, "window-from", 0, "start of the stretch to take")
	f.DurationVar(&o.Length, "window-length", 0, "length of the stretch to take (default: to the end)")
	f.StringVar(&o.Sample, "sample", "", "share of conversations to keep, such as 0.25")
	f.StringVar(&o.SampleBy, "sample-by", "conversation", "conversation keeps prefixes and bursts; requests breaks them")
	f.IntVar(&o.MaxInput, "max-input", 0, "leave out prompts longer than this, tokens")
	f.IntVar(&o.MaxOutput, "max-output", 0, "shorten answers longer than this, tokens")
	f.IntVar(&o.MaxTurns, "max-turns", 0, "keep so many turns")
	f.StringVar(&o.Dequantise, "dequantise", "", "uniform: spread arrivals inside the trace's ticks")
	f.StringVar(&o.Stretch, "stretch", "", "divide offsets by this factor, such as 2")
	f.StringVar(&o.Poisson, "poisson", "", "replace arrivals by a Poisson process of so many requests per second")
	f.StringArrayVar(&o.AcceptFidelity, "accept-fidelity", nil, "accept that this measure differs from the source; repeatable, or all")
	_ = cmd.MarkFlagRequired("from")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

func buildHint(err error) string {
	if _, ok := errors.AsType[*workload.FidelityError](err); ok {
		return "choose other options, or accept it with --accept-fidelity NAME; the report will say so"
	}
	return ""
}

func lastElement(path string) string {
	path = strings.TrimRight(path, "/")
	return path[strings.LastIndexByte(path, '/')+1:]
}

func (a *app) workloadCheck() *cobra.Command {
	return &cobra.Command{
		Use:     "check DIR",
		Short:   "Verify a workload: format, references, counts, digest",
		Example: "  tailgate workload check workloads/azure-conv-mini",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			facts, err := workload.Check(args[0])
			if err != nil {
				return usage(err, openHint(err))
			}
			_, err = fmt.Fprintf(a.out, "%s version %d is sound: %d turns in %d conversations, %s\n",
				facts.Name, facts.Version, facts.Counts.Turns, facts.Counts.Conversations, facts.Digest)
			return err
		},
	}
}

func openHint(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "name the folder that holds manifest.json"
	}
	return "build the workload anew, with a raised version"
}

func (a *app) workloadShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show WORKLOAD",
		Short:   "Describe a workload: sizes, lengths, arrivals, fidelity",
		Example: "  tailgate workload show workloads/mooncake-conv-mini --json | jq .digest",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			w, err := openWorkload(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(a.out)
				enc.SetIndent("", "  ")
				return enc.Encode(w.Describe())
			}
			return printFacts(a.out, w.Describe())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printFacts writes a workload's facts for people.
func printFacts(out io.Writer, f workload.Facts) error {
	fmt.Fprintf(out, "%s version %d\n%s\n\n", f.Name, f.Version, f.Digest)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(tw, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	if f.Source.Importer != "" {
		row("source", "%s, %s", f.Source.Importer, sourceFiles(f.Source))
	}
	if f.Source.Licence != "" {
		row("licence", "%s", f.Source.Licence)
	}
	row("turns", "%d in %d conversations, %d groups (largest %d)", f.Counts.Turns, f.Counts.Conversations, f.Groups, f.LargestGroup)
	for reason, n := range f.Counts.Excluded {
		row("left out", "%d (%s)", n, reason)
	}
	row("input tokens", "%s", quantiles(f.InTokens))
	row("output tokens", "%s", quantiles(f.OutTokens))
	row("length", "%s at %s/s; index of dispersion %s (1 s), %s (10 s)", f.Span.Round(time.Millisecond), number(f.Rate), number(f.IoD1), number(f.IoD10))
	row("prefix share", "%s", number(f.PrefixShare))
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(f.Fidelity) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nhow it differs from its source:")
	tw = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, d := range f.Fidelity {
		fmt.Fprintf(tw, "  %s\t%s\t-> %s\t%s\t%s\n", d.Measure, number(d.Source), number(d.Replay), d.Direction, d.Reason)
	}
	return tw.Flush()
}

func sourceFiles(s workload.Source) string {
	var names []string
	for _, f := range s.Files {
		names = append(names, fmt.Sprintf("%s (sha256 %.12s)", f.Name, f.SHA256))
	}
	return strings.Join(names, ", ")
}

func quantiles(q record.Quantiles) string {
	return fmt.Sprintf("p50 %d, p90 %d, p95 %d, p99 %d, max %d", q.P50, q.P90, q.P95, q.P99, q.Max)
}

func number(v record.Value) string {
	if x, ok := v.Get(); ok {
		return fmt.Sprintf("%.4g", x)
	}
	return "n/a (" + v.Reason() + ")"
}
