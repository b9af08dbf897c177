package runner

import (
	"context"
	"fmt"
	"strings"

	"github.com/tailgate-ci/tailgate/runner/target"
)

// The notes about GPUs that were named in a way that does not tell them apart.
const (
	// noteInferred: those that the first server took memory of are watched for the rest of the session.
	noteInferred = "gpu_mapping_inferred"
	// noteUnmapped: it could not be seen which those are; all that it may be are watched.
	noteUnmapped = "gpu_mapping_unknown"
)

// environ is a server's environment: with the GPUs that it may see, where they are known by name.
func (r *round) environ(env []string) []string {
	gpus := r.devices
	if len(gpus) == 0 {
		gpus = r.plan.Devices.Visible
	}
	return visible(env, gpus, vendorOf(r.s.run.Environment.GPUs))
}

// confirm looks, once in a session, on which devices the first server is that was ready, where its environment names devices
// that cannot be told apart. From then on those alone are watched, and what its environment says stays as it is.
func (s *Session) confirm(ctx context.Context, slot int, server *target.Server) error {
	d := s.plan.Devices
	if s.confirmed || d.Named == 0 || !s.plan.observing() {
		return nil
	}
	on, doubt, err := server.Devices(ctx)
	if err != nil {
		return err
	}
	s.confirmed = true
	id, text := mapped(d, on, doubt)
	s.note(id, slot, text)
	if id == noteInferred {
		s.watch(on)
	}
	return nil
}

// watch has these devices watched alone, in the record too.
func (s *Session) watch(on []string) {
	s.plan.Telemetry.Watch(on)
	env := &s.run.Environment
	env.GPUs, env.Caps, _ = s.plan.Telemetry.GPUs()
}

// mapped is the note about the devices that a first server was seen on, and doubt about them. What is watched comes first: a
// report may cut the end.
func mapped(d Devices, on []string, doubt string) (id, text string) {
	switch {
	case doubt != "":
		return noteUnmapped, fmt.Sprintf("all GPUs that may be meant are watched: %s, and %s; name UUIDs under target.gpus", d.Why, doubt)
	case len(on) == 0:
		return noteUnmapped, "all GPUs that may be meant are watched: " + d.Why + ", and the first server took memory on none; name UUIDs under target.gpus"
	}
	text = fmt.Sprintf("the first server took memory on %s: nothing else is watched, in any round; %s", strings.Join(on, ", "), d.Why)
	if len(on) != d.Named {
		text += fmt.Sprintf(" (%d named, %d in use)", d.Named, len(on))
	}
	return noteInferred, text + "; name UUIDs under target.gpus to be sure"
}
