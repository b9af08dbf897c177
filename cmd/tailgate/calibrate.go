package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/baseline/build"
	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/gate/report"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// mostCalibrationPairs is the largest number of pairs that a session has an order for.
const mostCalibrationPairs = 12

func (a *app) calibrateCommand() *cobra.Command {
	var base, file, out, from string
	var pairs int
	var over overrides
	var timeout time.Duration
	var lock lockWish
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure one build against itself: the noise of this machine, and the tolerances it supports",
		Long: `calibrate builds one revision and measures it against itself, in the order and by the rules of a comparison but without
stopping early. What differs is noise. It writes calibration.json into the run folder and prints how much rounds differ and which
tolerances that supports. It exits 0 when there is a calibration, 4 when there is none; docs/calibrate.md says how to read it.`,
		Example: `  tailgate calibrate                         # HEAD against itself, nine pairs
  tailgate calibrate --base v1.4.0 --pairs 12
  tailgate calibrate --from .tailgate/runs/ID   # once more from what was measured`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from != "" {
				if err := lonely(cmd, "from", "json"); err != nil {
					return err
				}
				return a.calibrateFrom(from, asJSON)
			}
			if pairs < gate.FewestCalibrationPairs || pairs > mostCalibrationPairs {
				return usage(fmt.Errorf("--pairs %d is out of range", pairs), fmt.Sprintf("write %d to %d", gate.FewestCalibrationPairs, mostCalibrationPairs))
			}
			if err := errors.Join(soundTimeout(timeout), lock.check()); err != nil {
				return err
			}
			repo, err := repository(cmd.Context(), ".")
			if err != nil {
				return err
			}
			c := &comparison{
				app: a, repo: repo, out: out, args: append([]string{"calibrate"}, flagsOf(cmd)...), progress: a.err, calibrate: pairs, timeout: timeout,
				policy: policySource{path: file}, over: over, lock: lock,
				refs: build.ResolveOptions{Base: base, Head: base, Strategy: build.Ref},
			}
			o, err := c.compare(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(a.err)
			return a.calibrated(o.dir, o.run, o.judgement, policyOf(c.file, c.gpu), asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&base, "base", "HEAD", "the ref to measure against itself")
	f.IntVar(&pairs, "pairs", gate.DefaultCalibrationPairs, "pairs to measure, 4 to 12; verdict.calibration takes no fewer than 9")
	f.StringVar(&file, "config", ".tailgate.yaml", "the configuration, relative to the repository")
	f.StringVar(&over.gate, "gate", "", "what comparisons will be for, pr or release, instead of the file's: tolerances are supported in its number of pairs")
	f.DurationVar(&timeout, "timeout", 0, "begin no pair that would not be over by then (default: no limit)")
	lock.flags(f)
	f.StringVar(&out, "out", "", "run folder to create (default: .tailgate/runs/ID)")
	f.StringVar(&from, "from", "", "measure nothing: make calibration.json again from this run folder")
	f.BoolVar(&asJSON, "json", false, "print the calibration as JSON")
	return cmd
}

// lonely refuses flags that mean nothing beside the first of those allowed.
func lonely(cmd *cobra.Command, allowed ...string) error {
	for _, set := range flagsOf(cmd) {
		fits := false
		for _, name := range allowed {
			fits = fits || len(set) > len(name)+2 && set[2:len(name)+3] == name+"="
		}
		if !fits {
			return usage(fmt.Errorf("%s means nothing beside --%s, which measures nothing", set, allowed[0]), "leave one of them out")
		}
	}
	return nil
}

// calibrateFrom makes a calibration of a run that was measured before, whether it came to its end or not.
func (a *app) calibrateFrom(dir string, asJSON bool) error {
	s, err := openStored(dir, "")
	if err != nil {
		return err
	}
	defer s.folder.Close() //nolint:errcheck // read only
	run := s.folder.Run()
	if run.Kind != record.KindCalibrate {
		return usage(fmt.Errorf("%s is a run of kind %s: its arms are not one build", dir, run.Kind), "name the folder of a run that `tailgate calibrate` made")
	}
	return a.calibrated(dir, run, judge(run, s.policy), s.policy, asJSON)
}

// calibrated sums up a session of base against itself, puts calibration.json beside it and prints it.
func (a *app) calibrated(dir string, run *record.Run, j gate.Judgement, p gate.Policy, asJSON bool) error {
	c, err := gate.Calibrate(run, p)
	if err != nil {
		if !asJSON {
			if err := report.Text(a.out, run, j, a.reportOptions(dir)); err != nil {
				return err
			}
		}
		return &exitError{code: invalidExit, err: fmt.Errorf("no calibration: %w", err), hint: "mend what the report names and calibrate again; the rounds are kept in " + dir}
	}
	path := filepath.Join(dir, record.CalibrationFile)
	if err := record.WriteCalibration(path, c); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "written: %s\n", path)
	if !asJSON {
		return report.Calibration(a.out, run, c, a.reportOptions(dir))
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s\n", text)
	return nil
}
