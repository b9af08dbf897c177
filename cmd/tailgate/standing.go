package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"time"

	"github.com/tailgate-ci/tailgate/baseline/build"
	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// residentCap is the longest warm-up of a round whose server stays up.
const residentCap = 2 * time.Minute

// declareStanding adds what is declared of servers that stay up, tailgate's own or somebody else's; nothing for others.
func declareStanding(d *record.Declared, f *config.File) {
	d.Mode = record.ModeRestart
	if !f.Standing() {
		return
	}
	d.Mode = record.ModeResident
	d.Warmup.Cap = min(d.Warmup.Cap, residentCap)
	d.Reset = &record.ResetPlan{None: f.Reset.None}
	if r := f.Reset; !r.None {
		d.Reset = &record.ResetPlan{Method: r.Method, Path: r.Path, Status: r.Expect.Status, JSON: maps.Clone(r.Expect.JSON)}
	}
	if f.Target.URL.Present() {
		return
	}
	d.Resident = &record.ResidentPlan{Shared: f.Resident.ShareGPU, Restarts: gate.Restarts(d.Looks)}
	if g := f.Resident.GPUs; g.Present() {
		d.Resident.Sets = [][]string{g.Base, g.Head}
	}
}

// sharedPlace is the row of fidelity for two servers in one place; none for others.
func sharedPlace(d record.Declared) []record.Fidelity {
	if d.Resident == nil || !d.Resident.Shared {
		return nil
	}
	return []record.Fidelity{{
		Measure: "servers on one GPU or host", Source: record.Of(1), Replay: record.Of(2), Ratio: record.Of(2), Direction: record.Unknown,
		Reason: "the idle server's memory is part of the state of the one that is measured",
	}}
}

// running reports whether both servers are somebody else's.
func (c *comparison) running() bool { return c.file.Target.URL.Present() }

// urlOf is the address of an arm's running server, with all it holds.
func (c *comparison) urlOf(name record.Arm) string {
	if name == record.Base {
		return c.file.Target.URL.Base
	}
	return c.file.Target.URL.Head
}

// elsewhere says why this machine's GPUs and host say nothing of the servers; empty where they do.
func (c *comparison) elsewhere() string {
	if !c.running() || loopback(c.file.Target.URL.Base) && loopback(c.file.Target.URL.Head) {
		return ""
	}
	return "not observed: the servers were not started by tailgate and do not both run on this machine"
}

// loopback reports whether a URL leads to this very machine.
func loopback(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// standing refuses what does not go together with running servers.
func (c *comparison) standing() error {
	switch {
	case c.running() && c.calibrate > 0:
		return usage(errors.New("target.url: servers that already run cannot be calibrated: one build must be measured against itself"), "calibrate with target.start")
	case c.norepo != nil && !c.running():
		return c.norepo
	case c.file.Rounds.Mode == config.ModeResident && !c.running() && c.judge.Min < 4:
		return usage(fmt.Errorf("%d pairs are too few for rounds.mode resident", c.judge.Min), "ask for 4 or more")
	}
	return nil
}

// label resolves the refs. Of servers that already run the revisions are labels: what does not resolve is left out.
func (c *comparison) label(ctx context.Context) (notes []string, err error) {
	c.refs.AllowEqual = c.file.Arms.Present() || c.calibrate > 0 || c.running()
	c.refs.Env = c.app.environ
	c.refs.Progress = func(line string) { fmt.Fprintln(c.progress, line) }
	c.revisions, notes, err = build.Resolve(ctx, c.repo, c.refs)
	if err == nil || ctx.Err() != nil {
		return notes, err
	}
	if c.running() {
		c.revisions = build.Revisions{}
		return nil, nil
	}
	if _, ok := errors.AsType[*build.UsageError](err); ok {
		return nil, usage(err, "")
	}
	return nil, err
}

// targets says how each arm's server is started, or where it runs.
func (c *comparison) targets() map[record.Arm]runner.Target {
	targets := map[record.Arm]runner.Target{}
	for name, arm := range c.arms {
		if c.running() {
			targets[name] = runner.Target{URL: c.urlOf(name)}
			continue
		}
		t := c.app.targetOf(arm, c.tree(name), c.id)
		t.Ledger = c.ledger()
		t.ExpectGPU = c.file.Telemetry.ExpectGPU
		targets[name] = t
	}
	return targets
}

// what names the arms for the progress: by commit, or by address.
func (c *comparison) what() string {
	if c.running() {
		return fmt.Sprintf("base %s, head %s, not started by tailgate", c.run.Arms.Base.URL, c.run.Arms.Head.URL)
	}
	return fmt.Sprintf("base %.12s, head %.12s", c.run.Arms.Base.Commit, c.run.Arms.Head.Commit)
}
