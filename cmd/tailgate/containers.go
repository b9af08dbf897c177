package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/internal/state"
)

const (
	// runLabel is the label that docs/targets.md has a container carry; its value is the run.
	runLabel = "tailgate.run"
	// clientLimit bounds one call of a container client: a daemon that hangs must not hold up the next session.
	clientLimit = 20 * time.Second
)

// containerID is what a client prints with --no-trunc.
var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// containers removes what carries the run's label, by id. A daemon's containers outlive the client that was killed, and a stop
// command may know them by a name only.
func (s *settlement) containers(ctx context.Context, a *app, held *state.Held) {
	if !slices.ContainsFunc(held.Rounds, func(r state.Round) bool { return r.Stop != "" }) {
		return // none of its servers was to be stopped by a command: none was a container
	}
	// Which daemon is asked is the user's own setting, as it was the run's.
	env := proc.Environ(a.lookup, a.environ, proc.Server, nil, []string{"DOCKER_HOST", "CONTAINER_HOST", "XDG_RUNTIME_DIR"})
	for _, name := range []string{"docker", "podman"} {
		client := a.program(name)
		if client == "" {
			continue
		}
		call := func(args ...string) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, clientLimit)
			defer cancel()
			cmd := exec.CommandContext(ctx, client, args...)
			cmd.Env, cmd.WaitDelay = env, time.Second
			return cmd.Output()
		}
		list, err := call("ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+runLabel+"="+held.Run)
		if err != nil {
			continue // a client without its daemon has no container; one that hangs cannot be asked
		}
		for id := range bytes.FieldsSeq(list) {
			if !containerID.Match(id) {
				continue
			}
			if _, err := call("rm", "--force", string(id)); err != nil {
				s.left = append(s.left, fmt.Sprintf("container %.12s (%s rm: %v)", id, name, err))
				continue
			}
			s.ended++
		}
	}
}

// program finds a program on the caller's PATH; empty when it is not there.
func (a *app) program(name string) string {
	for dir := range strings.SplitSeq(a.getenv("PATH"), string(filepath.ListSeparator)) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}
