package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/gate/report"
	"github.com/tailgate-ci/tailgate/gate/report/export"
	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

func (a *app) reportCommand() *cobra.Command {
	var policy, format, out, exports string
	var verify bool
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Judge and render a stored run again",
		Long: `report reads a run folder, judges it by the policy stored there or by another one, writes judgement.json and report.* and
prints the report. What was measured is never touched. The exit code is the verdict.

With --export it judges nothing and writes the run in the formats of other tools instead, separated by commas:
` + export.About(),
		Example: `  tailgate report .tailgate/runs/20260102-030405-1a2b3c4d
  tailgate report RUN --policy stricter.yaml --out /tmp/judged-again
  tailgate report RUN --format json | jq .verdict
  tailgate report RUN --verify               # recompute every percentile from the samples
  tailgate report RUN --export vllm,parquet --out /tmp/exported`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("export") {
				return a.export(args[0], exports, out)
			}
			s, err := openStored(args[0], policy)
			if err != nil {
				return err
			}
			defer s.folder.Close() //nolint:errcheck // read only
			if verify {
				return a.verify(s.folder)
			}
			if out == "" {
				out = args[0]
			}
			j, err := writeJudgement(args[0], out, s.folder.Run(), s.policy)
			if err != nil {
				return err
			}
			if err := a.render(format, s.folder.Run(), j, args[0]); err != nil {
				return err
			}
			return verdictExit(j.Verdict)
		},
	}
	f := cmd.Flags()
	f.StringVar(&policy, "policy", "", "judge by this .tailgate.yaml instead of the one stored with the run")
	f.StringVar(&format, "format", "text", "what to print: text, markdown or json")
	f.StringVar(&out, "out", "", "write into this folder instead of the run's; exports: instead of .tailgate/exports/ID")
	f.StringVar(&exports, "export", "", "write the run in other formats: "+strings.Join(export.Names(), ", "))
	f.BoolVar(&verify, "verify", false, "recompute counts and percentiles from the samples and say where they differ")
	return cmd
}

// stored is a run folder with the policy to judge it by.
type stored struct {
	folder *record.Folder
	policy gate.Policy
}

func openStored(dir, policy string) (*stored, error) {
	folder, err := record.Open(dir)
	if err != nil {
		return nil, usage(err, "name the folder that holds run.json")
	}
	own := filepath.Join(dir, "policy.yaml")
	if sameFile(policy, own) {
		policy = "" // its secrets are masked: it stands for the original, by the digest that the run has
	}
	path := policy
	if path == "" {
		path = own
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usage(err, "name a policy with --policy")
	}
	f, err := config.Parse(path, text)
	if err != nil {
		return nil, usage(err, "")
	}
	if policy == "" {
		f.For(folder.Run().Declared.Policy.Gate)
	}
	s := &stored{folder, policyOf(f, folder.Run().Declared.Telemetry.GPU)}
	if policy == "" {
		// Inputs of an action may have replaced values of the stored file; the run knows what was declared in the end.
		s.policy.SHA256 = folder.Run().Declared.Policy.SHA256
	}
	if folder.Run().Kind != record.KindCalibrate && f.Verdict.Calibration != noCalibration {
		if s.policy.Calibration, err = storedCalibration(dir, policy, f.Verdict.Calibration); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// storedCalibration reads the calibration that a stored run is judged with: the copy in its folder, which makes judging again
// give the same bytes; for another policy the file that one names, from the policy's own folder.
func storedCalibration(dir, policy, name string) (*record.Calibration, error) {
	path := filepath.Join(dir, record.CalibrationFile)
	if policy != "" {
		path = name
		if !filepath.IsAbs(name) {
			path = filepath.Join(filepath.Dir(policy), name)
		}
	}
	text, err := os.ReadFile(path) //nolint:gosec // a path of the user's own policy, or inside the run folder
	if err != nil {
		return nil, usage(fmt.Errorf("verdict.calibration: %w", err), "put the file there, or judge by a policy without one: --policy")
	}
	c, err := record.ReadCalibration(path, text)
	if err != nil {
		return nil, usage(fmt.Errorf("verdict.calibration: %w", err), "make it again with `tailgate calibrate --from RUN`")
	}
	return c, nil
}

// judge decides on a run and writes line 1.
func judge(run *record.Run, p gate.Policy) gate.Judgement {
	j := gate.Evaluate(run, p)
	j.Line = report.Line(run, j)
	return j
}

// writeJudgement judges the run in dir and writes judgement.json and the report's surfaces into out.
func writeJudgement(dir, out string, run *record.Run, p gate.Policy) (gate.Judgement, error) {
	j := judge(run, p)
	if text, err := os.ReadFile(filepath.Join(dir, "run.json")); err == nil {
		sum := sha256.Sum256(text)
		j.RunSHA256 = hex.EncodeToString(sum[:])
	}
	if err := os.MkdirAll(out, 0o750); err != nil {
		return j, err
	}
	text, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return j, err
	}
	files := map[string]func(io.Writer) error{
		"judgement.json": func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err },
		"report.md":      func(w io.Writer) error { return report.Markdown(w, run, j, report.Options{}) },
		"report.txt":     func(w io.Writer) error { return report.Text(w, run, j, report.Options{}) },
		"report.json":    func(w io.Writer) error { return report.JSON(w, run, j, report.Options{}) },
	}
	var errs []error
	for name, render := range files {
		var b bytes.Buffer
		if err := render(&b); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, os.WriteFile(filepath.Join(out, name), b.Bytes(), 0o600))
	}
	return j, errors.Join(errs...)
}

func (a *app) render(format string, run *record.Run, j gate.Judgement, dir string) error {
	switch format {
	case "text":
		return report.Text(a.out, run, j, a.reportOptions(dir))
	case "markdown", "md":
		return report.Markdown(a.out, run, j, a.reportOptions(dir))
	case "json":
		return report.JSON(a.out, run, j, a.reportOptions(dir))
	}
	return usage(fmt.Errorf("--format %s: want text, markdown or json", format), "")
}

// verify recomputes the rounds from their samples.
func (a *app) verify(f *record.Folder) error {
	differences, err := record.Verify(f)
	if err != nil {
		return err
	}
	for _, d := range differences {
		fmt.Fprintln(a.out, d)
	}
	if len(differences) > 0 {
		return &exitError{
			code: gate.Exit(gate.Invalid), err: fmt.Errorf("%s between round.json and the samples", plural(len(differences), "difference")),
			hint: "do not trust this run: a file was changed or lost after it was measured",
		}
	}
	fmt.Fprintf(a.out, "%s verified: counts and percentiles follow from the samples\n", plural(len(f.Run().Rounds), "round"))
	return nil
}

// keepWorkload puts the workload beside the run, so that the folder can be understood on its own; of a large one the
// manifest alone, which has the digest and the origin.
func keepWorkload(dir string, w *workload.Workload) error {
	to := filepath.Join(dir, "workload")
	if err := workload.Write(to, w); err != nil {
		return err
	}
	entries, err := os.ReadDir(to)
	if err != nil {
		return err
	}
	var size int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	if size <= keepLimit {
		return nil
	}
	for _, e := range entries {
		if e.Name() != "manifest.json" {
			err = errors.Join(err, os.Remove(filepath.Join(to, e.Name())))
		}
	}
	return err
}

// keepLimit is the largest workload that is copied into a run folder, bytes.
const keepLimit = 16 << 20
