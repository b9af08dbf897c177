package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/baseline/build"
	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/internal/state"
	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// comparison is one session from two refs to a judgement.
type comparison struct {
	app *app
	// repo is the root of the repository; policy how the team decides; both are known before anything starts.
	repo   string
	policy policySource
	// norepo says that repo is no repository, which only running servers do without.
	norepo error
	lock   lockWish
	// refs as the user named them.
	refs build.ResolveOptions
	// over is what a CI job or the command line puts over the file.
	over overrides
	// timeout is how long the session may take from its start; 0 for as long as it needs.
	timeout time.Duration
	// calibrate is the number of pairs of base against itself; 0 compares base with head.
	calibrate int
	// out is the run folder; empty for .tailgate/runs/ID below home, which is the repository unless set.
	out, home string
	// scratch holds the repository and goes with it; empty for none.
	scratch string
	// args are the command line, for the record.
	args []string
	// runner names the CI runner, empty at a terminal.
	runner record.Runner
	// progress receives the steps.
	progress io.Writer
	// seen asks a server how many requests it has received; nil where servers do not tell.
	seen func(ctx context.Context, url string) (int64, error)

	id        string
	file      *config.File
	gpu       string
	judge     gate.Policy
	prior     []byte
	revisions build.Revisions
	workload  *workload.Workload
	api       runner.API
	run       *record.Run
	writer    *record.Writer
	clock     record.Clock
	trees     string
	book      *state.Book
	arms      map[record.Arm]arm
	devices   runner.Devices
}

// outcome is what a comparison leaves behind.
type outcome struct {
	dir       string
	run       *record.Run
	judgement gate.Judgement
}

// compare does the whole job. Errors of usage come before a run folder exists; afterwards everything that goes wrong is
// on record there, and judged.
func (c *comparison) compare(ctx context.Context) (*outcome, error) {
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	if err := c.open(); err != nil {
		return nil, err
	}
	defer c.writer.Close() //nolint:errcheck // every file was synced when it was written
	fmt.Fprintf(c.progress, "run %s: %s\n", c.id, c.what())
	c.sweep(ctx)
	err := c.measure(ctx)
	if ctx.Err() != nil {
		return nil, c.cancelled(ctx)
	}
	removeErr := c.removeTrees()
	if removeErr != nil {
		c.note("worktree_left", removeErr.Error())
	}
	if err != nil && c.run.Status != record.StatusBroken {
		return nil, errors.Join(err, removeErr)
	}
	j, judgeErr := writeJudgement(c.writer.Dir(), c.writer.Dir(), c.run, c.judge)
	if judgeErr != nil {
		// A full disk leaves a readable run; its verdict is still said on the terminal.
		fmt.Fprintf(c.app.err, "tailgate: the report could not be written: %v\n", judgeErr)
	}
	return &outcome{dir: c.writer.Dir(), run: c.run, judgement: j}, nil
}

// resolve turns refs, policy and workload into facts; nothing is written yet.
func (c *comparison) resolve(ctx context.Context) error {
	var err error
	if c.file, err = c.policy.read(ctx, c.repo); err != nil {
		return cmp.Or(c.norepo, err)
	}
	if err := c.file.Runnable(); err != nil {
		return usage(err, "")
	}
	if err := c.over.policy(c.file); err != nil {
		return err
	}
	if c.gpu = gpuMode(c.file); c.elsewhere() != "" {
		c.gpu = cmp.Or(c.file.Telemetry.GPU, "optional")
	}
	c.judge = policyOf(c.file, c.gpu)
	if c.calibrate > 0 {
		c.judge.Min, c.judge.Max = c.calibrate, c.calibrate
	} else if c.judge.Calibration, c.prior, err = c.policy.calibration(ctx, c.repo, c.file); err != nil {
		return err
	}
	if err := c.standing(); err != nil {
		return err
	}
	notes, err := c.label(ctx)
	if err != nil {
		return err
	}
	if c.workload, err = c.policy.workload(ctx, c.repo, c.file); err != nil {
		return err
	}
	if c.api, err = apiOf(c.file, c.workload); err != nil {
		return err
	}
	if err := c.over.check(c.workload.Digest()); err != nil {
		return err
	}
	if err := c.fits(); err != nil {
		return err
	}
	c.arms = map[record.Arm]arm{}
	for _, name := range []record.Arm{record.Base, record.Head} {
		// Where a session sends to is the policy's to say, not the commit's that is measured.
		f := c.file
		if !c.running() {
			if f, err = c.policy.target(ctx, c.repo, c.file, c.commit(name)); err != nil {
				return err
			}
			if f.Target.URL.Present() {
				return usage(fmt.Errorf("target.url: commit %.12s names running servers, the policy does not", c.commit(name)), "write it in the file that the policy is read from")
			}
		}
		as := name
		if c.calibrate > 0 {
			as = record.Base
		}
		if err := c.oneWordOnGPUs(f, name); err != nil {
			return err
		}
		c.arms[name] = armOf(c.over.target(f), as)
		if err := build.CheckOutputs(f.Target.Outputs); err != nil {
			return usage(err, fmt.Sprintf("correct target.outputs of commit %.12s: write paths and globs below the worktree", c.commit(name)))
		}
	}
	if base, head := c.arms[record.Base], c.arms[record.Head]; c.calibrate == 0 && c.file.Arms.Present() && base.sameAs(head) {
		return usage(errors.New("arms.base and arms.head are the same: nothing to compare"), "give one of them args or env that the other lacks")
	}
	c.id = newID()
	c.clock = record.NewClock()
	c.run = c.planned(notes)
	return nil
}

// fits checks that a round of this workload can carry the policy, that this machine can carry the load, and that the workload
// can be sent in the target's dialect. How many requests a closed loop sends is up to the server; the judge counts them again
// when they are measured.
func (c *comparison) fits() error {
	declared := declare(c.file, c.judge, "", c.gpu)
	plan, err := runner.Traffic(c.workload, declared)
	if err != nil {
		return usage(err, "shorten load.measure, or build a longer workload")
	}
	if err := runner.Check(c.workload, declared); err != nil {
		return usage(err, "")
	}
	// The server has an address only once it runs; the dialect needs none.
	if err := runner.Fits(c.workload, declared, c.api, "http://127.0.0.1"); err != nil {
		return usage(err, "choose a workload made for that dialect, or set target.dialect to the API the server speaks: "+strings.Join(client.Dialects(), ", "))
	}
	if _, _, err := gate.Gateable(c.judge, len(plan.Measured), c.streams()); err != nil {
		return usage(err, "")
	}
	return nil
}

func (c *comparison) streams() bool { return runner.Streams(c.workload) }

func (c *comparison) commit(name record.Arm) string {
	if name == record.Base {
		return c.revisions.Base.Commit
	}
	return c.revisions.Head.Commit
}

// planned is the run before anything was built.
func (c *comparison) planned(notes []string) *record.Run {
	kind := record.KindRevisions
	switch {
	case c.calibrate > 0:
		kind = record.KindCalibrate
	case c.running():
		kind = record.KindURL
	case c.file.Arms.Present():
		kind = record.KindSwitch
	}
	declared := declare(c.file, c.judge, c.id, c.gpu)
	run := &record.Run{
		Schema: record.Schema, ID: c.id, Kind: kind, Status: record.StatusPlanned, Epoch: c.clock.Epoch(), Tailgate: tool(),
		Command: c.app.masked(c.args), Declared: declared,
		Workload:    c.workload.Info(runner.Stretch(c.workload, declared)),
		Environment: record.Environment{Runner: c.runner},
		Fidelity:    append(sharedPlace(declared), c.workload.Fidelity()...),
	}
	run.Declared.Policy.Commit, run.Declared.Policy.Path, run.Declared.Policy.First = c.policy.commit, c.policy.path, c.policy.first
	run.Declared.Policy.Gate = c.over.gate
	for name, rev := range map[record.Arm]build.Revision{record.Base: c.revisions.Base, record.Head: c.revisions.Head} {
		info := &record.ArmInfo{
			Ref: rev.Ref, Commit: rev.Commit, Strategy: rev.Strategy, Ahead: rev.Ahead, Uncommitted: rev.Uncommitted, Subject: rev.Subject,
			Env: c.arms[name].envNames(),
		}
		info.Start, info.Args = c.app.shownCommand(c.arms[name], c.id)
		if c.running() {
			info.URL = maskURL(c.urlOf(name))
		}
		if name == record.Base {
			run.Arms.Base = info
		} else {
			run.Arms.Head = info
		}
	}
	for _, text := range notes {
		run.Notes = append(run.Notes, record.Note{ID: "revisions", Text: text})
	}
	if kind == record.KindSwitch {
		noteSwitches(run, c.arms[record.Base], c.arms[record.Head])
	}
	return run
}

// open creates the run folder; from here on everything is on record.
func (c *comparison) open() error {
	dir := c.out
	if dir == "" {
		dir = filepath.Join(cmp.Or(c.home, c.repo), ".tailgate", "runs", c.id)
	}
	policy, err := storedPolicy(c.policy.path, c.policy.text)
	if err != nil {
		return err
	}
	w, err := record.Create(dir, c.run)
	if err != nil {
		return usage(err, "choose another folder with --out")
	}
	c.writer = w
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), policy, 0o600); err != nil {
		return err
	}
	if c.prior != nil {
		if err := os.WriteFile(filepath.Join(dir, record.CalibrationFile), c.prior, 0o600); err != nil {
			return err
		}
	}
	return keepWorkload(dir, c.workload)
}

// measure builds both arms and runs the session. Its error means that the run could not be completed or put on record.
func (c *comparison) measure(ctx context.Context) error {
	// The machine is looked at first: what is missing there need not cost two builds.
	sampler, ok, err := c.survey(ctx)
	if sampler != nil {
		defer sampler.Close() //nolint:errcheck // sensors are killed if they do not leave
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil || !ok:
		return c.close(err)
	}
	if !c.running() {
		ok, err := c.buildArms(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil || !ok:
			return c.close(err)
		}
	}
	release, ok, err := c.lockHost(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil || !ok:
		return c.close(err)
	}
	defer release()
	view := newView(c.progress, c.run, c.app)
	defer view.close()
	plan := &runner.Plan{
		Run: c.run, Writer: c.writer, Clock: c.clock, Workload: c.workload, Arms: c.targets(),
		API: c.api, Devices: c.devices,
		Telemetry: sampler, Rules: rules(c.judge), Progress: view.step,
	}
	plan.Seen = c.seen
	if c.timeout > 0 {
		// The clock began with the command.
		plan.Deadline = record.Instant(c.timeout)
	}
	stop := c.app.vouch(ctx, plan)
	err = runner.NewSession(plan).Run(ctx)
	if stopErr := stop(); stopErr != nil {
		c.note("witness_left", stopErr.Error())
	}
	c.noteCaches()
	if maskErr := c.maskLogs(); maskErr != nil {
		c.note("logs_not_masked", maskErr.Error())
	}
	return err
}

// close ends a run that has nothing to measure, or that could not go on.
func (c *comparison) close(err error) error {
	c.run.Status = record.StatusComplete
	if err != nil {
		c.run.Status = record.StatusBroken
		c.incident(record.Incident{ID: record.InternalFault, Text: err.Error()})
	}
	c.run.Finished = c.clock.Now()
	return errors.Join(err, c.writer.Save(c.run))
}

func (c *comparison) incident(in record.Incident) {
	in.T = c.clock.Now()
	c.run.Incidents = append(c.run.Incidents, in)
	// The journal repeats what run.json holds; a journal that cannot be written shows when run.json is saved.
	_ = c.writer.Journal(record.Event{T: in.T, Name: in.ID, Arm: in.Arm, Text: in.Text})
	fmt.Fprintf(c.progress, "%s: %s\n", in.ID, in.Text)
}

func (c *comparison) note(id, text string) {
	c.run.Notes = append(c.run.Notes, record.Note{ID: id, Text: text})
	if err := c.writer.Save(c.run); err != nil {
		fmt.Fprintf(c.app.err, "tailgate: %v\n", err)
	}
}

// newID names a run: when it was made, and eight random digits.
func newID() string {
	var b [4]byte
	// crypto/rand.Read never fails.
	_, _ = rand.Read(b[:])
	return time.Now().UTC().Format("20060102-150405") + "-" + hex.EncodeToString(b[:])
}
