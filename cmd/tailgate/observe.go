package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/telemetry"
)

// survey looks at the machine and chooses the GPUs, before two builds are made for nothing. ok is false where the session
// cannot be measured; why is on record then.
func (c *comparison) survey(ctx context.Context) (s *telemetry.Sampler, ok bool, err error) {
	s, err = c.observe(ctx)
	if unavailable, is := errors.AsType[*telemetry.UnavailableError](err); is {
		c.incident(record.Incident{ID: record.TelemetryMissing, Text: unavailable.Error()})
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if text := gate.UnequalSets(c.run); text != "" {
		c.incident(record.Incident{ID: record.GPUsDiffer, Text: text})
		return s, false, nil
	}
	if missing := c.chooseGPUs(s); missing != nil {
		c.incident(record.Incident{ID: record.GPUNotFound, Text: missing.Error()})
		return s, false, nil //nolint:nilerr // it is on record
	}
	return s, true, nil
}

// observe starts the sensors and notes the machine; it starts none where the servers run on another.
func (c *comparison) observe(ctx context.Context) (*telemetry.Sampler, error) {
	if reason := c.elsewhere(); reason != "" {
		c.run.Environment.GPUReason = reason
		if c.gpu == telemetry.Required {
			return nil, &telemetry.UnavailableError{Reason: reason}
		}
		return nil, nil
	}
	sensor := c.app.sensor(c.file.Telemetry.NVML)
	s, err := telemetry.Start(ctx, telemetry.Options{
		Mode: c.gpu, Interval: time.Duration(c.file.Telemetry.Interval), Sensor: sensor, Version: tool().Version,
		Env:   proc.Environ(c.app.lookup, c.app.environ, proc.Sensor, nil, nil),
		Clock: c.clock, Dir: filepath.Join(c.writer.Dir(), "telemetry"),
	})
	if err != nil {
		return nil, err
	}
	c.noteGPUs(s)
	c.run.Environment.Host = s.Host()
	return s, nil
}

// noteGPUs puts on record what is watched.
func (c *comparison) noteGPUs(s *telemetry.Sampler) {
	env := &c.run.Environment
	env.GPUs, env.Caps, env.GPUReason = s.GPUs()
}

// chooseGPUs decides which GPUs the servers see and has those alone watched. Servers that somebody else runs see what they
// were started with: there all are watched. The error names what the machine has.
func (c *comparison) chooseGPUs(s *telemetry.Sampler) error {
	if c.running() {
		return nil
	}
	gpus, named := c.run.Environment.GPUs, c.file.Target.GPUs
	c.notePolicyGPUs()
	if g := c.file.Resident.GPUs; g.Present() {
		// Each server sees its own set, as the fleet has it; the machine has them all, or nothing can be watched.
		c.watch(s, slices.Concat(g.Base, g.Head), "resident.gpus")
		return nil
	}
	base, head := c.serverEnv(record.Base), c.serverEnv(record.Head)
	if len(named) == 0 && !runner.SameDevices(base, head) {
		if len(gpus) > 0 {
			c.note("gpus_differ", "base and head are told of different GPUs by their environment: no one set is both servers', so all of this machine are watched")
		}
		return nil
	}
	var err error
	if c.devices, err = runner.ChooseDevices(gpus, named, base); err != nil {
		return err
	}
	c.watch(s, c.devices.Watched, c.devices.From)
	return nil
}

// serverEnv is the environment of an arm's servers.
func (c *comparison) serverEnv(name record.Arm) []string { return c.app.serverEnv(c.arms[name], c.id) }

// watch has these GPUs watched alone, where there are any, and says so where that is not all or not what the servers are told.
func (c *comparison) watch(s *telemetry.Sampler, gpus []string, from string) {
	var all []string
	for _, g := range c.run.Environment.GPUs {
		all = append(all, g.UUID)
	}
	if s == nil || len(all) == 0 || len(gpus) == 0 {
		return
	}
	text := fmt.Sprintf("%s: watched, of %s on this machine: %s", from, plural(len(all), "GPU"), strings.Join(gpus, ", "))
	told := c.devices.Visible
	otherwise := len(told) > 0 && !slices.Equal(told, gpus)
	if otherwise {
		text += "; the servers see " + strings.Join(told, ", ")
	}
	if !slices.Equal(gpus, all) {
		s.Watch(gpus)
		c.noteGPUs(s)
	}
	if len(gpus) < len(all) || otherwise {
		c.note("gpus_chosen", text)
	}
}

// oneWordOnGPUs refuses a commit whose own target says by a variable which GPUs its server sees, where the policy names them.
func (c *comparison) oneWordOnGPUs(f *config.File, name record.Arm) error {
	variable, where := f.SetsGPUs()
	if len(c.file.Target.GPUs) == 0 || variable == "" {
		return nil
	}
	return usage(fmt.Errorf("target.gpus: %s is set in %s of commit %.12s too", variable, where, c.commit(name)), "leave it out there: it is set from target.gpus")
}

// notePolicyGPUs says where a measured commit has another word on the GPUs than the policy, which decides for both.
func (c *comparison) notePolicyGPUs() {
	for _, name := range []record.Arm{record.Base, record.Head} {
		if own := c.arms[name].target.GPUs; !slices.Equal(own, c.file.Target.GPUs) {
			c.note("gpus_of_policy", fmt.Sprintf("target.gpus of %s's commit (%s) is not used: the file that the policy is read from decides for both arms (%s)",
				name, namedGPUs(own), namedGPUs(c.file.Target.GPUs)))
		}
	}
}

func namedGPUs(gpus []string) string {
	if len(gpus) == 0 {
		return "none named"
	}
	return strings.Join(gpus, ", ")
}
