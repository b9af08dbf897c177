package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tailgate-ci/tailgate/baseline/build"
	"github.com/tailgate-ci/tailgate/internal/actions"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// jobRequest is what a job asks for: where it runs, what started it, and its inputs.
type jobRequest struct {
	job    actions.Job
	event  actions.Event
	inputs actions.Inputs
	// env is the environment of the step; git sees little of it.
	env []string
}

func (a *app) readJob() (jobRequest, error) {
	j := jobRequest{env: a.environ}
	var err error
	if j.job, err = actions.ReadJob(a.lookup); err != nil {
		return j, err
	}
	if j.event, err = actions.ReadEvent(j.job); err != nil {
		return j, err
	}
	j.inputs, err = actions.ReadInputs(a.lookup, j.job)
	return j, err
}

// jobComparison turns the request into a comparison of this command. Errors are the user's: exit 2, nothing was measured.
func (a *app) jobComparison(ctx context.Context, j jobRequest) (*comparison, error) {
	repo, err := repository(ctx, j.job.Workspace)
	if err != nil {
		return nil, err
	}
	if err := outsideOrIgnored(ctx, repo, j.inputs.OutputDir); err != nil {
		return nil, err
	}
	c := &comparison{
		app: a, repo: repo, out: j.inputs.OutputDir, args: []string{"action", "run"}, progress: a.err, lock: lockWish{timeout: defaultLockTimeout},
		runner: record.Runner{Name: j.job.RunnerName, URL: j.job.URL()},
		over: overrides{
			gate: j.inputs.Gate, workload: j.inputs.Workload, digest: j.inputs.WorkloadDigest, rounds: j.inputs.Rounds, passEnv: j.inputs.ServiceEnv,
		},
	}
	if j.event.Pull != nil {
		c.refs, c.policy, err = pullRefs(ctx, repo, j)
	} else {
		c.refs, c.policy, err = namedRefs(ctx, repo, j)
	}
	return c, err
}

// pullRefs compares the head of a pull request with its merge base, by the policy at the tip of the target branch. Where the
// target has no policy, head brings the first one.
func pullRefs(ctx context.Context, repo string, j jobRequest) (build.ResolveOptions, policySource, error) {
	for _, in := range []struct {
		name  string
		given bool
	}{
		{"base-ref", j.inputs.BaseRef != ""}, {"head-ref", j.inputs.HeadRef != ""}, {"base-strategy", j.inputs.Strategy != build.MergeBase},
	} {
		if in.given {
			return build.ResolveOptions{}, policySource{}, usage(fmt.Errorf("input %s: a pull request is compared with its merge base", in.name),
				"leave it empty here; workflow_dispatch and push take it")
		}
	}
	pull := j.event.Pull
	refs := build.ResolveOptions{Head: pull.HeadSHA, Strategy: build.MergeBase, Env: j.env}
	// Full names: a tag named origin/main must not stand in for the branch.
	found, err := firstRef(ctx, repo, &refs, "refs/remotes/origin/"+pull.BaseRef, "refs/heads/"+pull.BaseRef)
	return refs, policySource{path: j.inputs.Config, commit: found.Base.Commit, fallback: pull.HeadSHA}, err
}

// namedRefs compares the refs that the inputs name, by the policy of head.
func namedRefs(ctx context.Context, repo string, j jobRequest) (build.ResolveOptions, policySource, error) {
	refs := build.ResolveOptions{Head: j.inputs.HeadRef, Strategy: j.inputs.Strategy, Env: j.env}
	switch refs.Head {
	case "":
		refs.Head = j.job.SHA
	case build.WorkingTree:
		return refs, policySource{}, usage(errors.New("input head-ref: a job measures commits, not the working tree"),
			"name a branch, a tag or a commit, or leave it empty for the commit of the event")
	}
	candidates := []string{j.inputs.BaseRef}
	if j.inputs.BaseRef != "" {
		// A checkout has one local branch; the others are the remote's.
		candidates = append(candidates, "refs/remotes/origin/"+j.inputs.BaseRef)
	}
	found, err := firstRef(ctx, repo, &refs, candidates...)
	return refs, policySource{path: j.inputs.Config, commit: found.Head.Commit}, err
}

// firstRef takes the first candidate that names a commit for base, and returns the commits that base and head name.
func firstRef(ctx context.Context, repo string, refs *build.ResolveOptions, candidates ...string) (build.Revisions, error) {
	var first error
	for _, ref := range candidates {
		refs.Base = ref
		found, _, err := build.Resolve(ctx, repo, build.ResolveOptions{Base: ref, Head: refs.Head, Strategy: build.Ref, AllowEqual: true, Env: refs.Env})
		if err == nil {
			return found, nil
		}
		if _, ok := errors.AsType[*build.UsageError](err); !ok {
			return build.Revisions{}, err
		}
		if first == nil {
			first = err
		}
	}
	return build.Revisions{}, usage(first, "check out with fetch-depth: 0, so that both branches are there")
}

// outsideOrIgnored refuses a run folder that the checkout would show as new files.
func outsideOrIgnored(ctx context.Context, repo, dir string) error {
	rel, err := filepath.Rel(repo, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil //nolint:nilerr // no way from one to the other: outside
	}
	cmd := exec.CommandContext(ctx, "git", "check-ignore", "-q", "--", filepath.Join(rel, "run.json"))
	cmd.Dir = repo
	if err := cmd.Run(); err != nil {
		return usage(fmt.Errorf("output-dir %s lies in the checkout, and git does not ignore it", rel),
			"leave output-dir empty for a folder below RUNNER_TEMP, or ignore the path")
	}
	return nil
}
