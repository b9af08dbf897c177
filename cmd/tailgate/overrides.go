package main

import (
	"fmt"
	"slices"

	"github.com/tailgate-ci/tailgate/internal/config"
)

// overrides are what a CI job or a command line puts over .tailgate.yaml. The zero value leaves the file as it is.
type overrides struct {
	// gate is what the verdict is for, in the words of the file's gate; empty leaves the file's.
	gate string
	// workload replaces the file's, a path inside the repository; it is read from the commit the file came from. digest is
	// what the workload must have, "sha256:" and 64 hex.
	workload, digest string
	// rounds is the smallest number of pairs, most the largest; 0 leaves the file's.
	rounds, most int
	// passEnv lists variables that may reach builds and servers, on top of the file's.
	passEnv []string
}

// policy changes what both arms are judged by. The error is of usage: a number of pairs that no session can have.
func (o overrides) policy(f *config.File) error {
	if o.gate != "" && o.gate != config.PullRequest && o.gate != config.Release {
		return usage(fmt.Errorf("gate %q is not known", o.gate), "write "+config.PullRequest+" or "+config.Release)
	}
	f.For(o.gate)
	if o.workload != "" {
		f.Workload = o.workload
	}
	if o.rounds > 0 {
		f.Rounds.Min, f.Rounds.Max = o.rounds, max(o.rounds, f.Rounds.Max)
	}
	if o.most > 0 {
		f.Rounds.Max = o.most
	}
	switch r := f.Rounds; {
	case r.Min < 3 || r.Min > 12:
		return usage(fmt.Errorf("rounds.min %d is out of range", r.Min), "write 3 to 12")
	case r.Max < r.Min || r.Max > 12:
		return usage(fmt.Errorf("rounds.max %d is out of range", r.Max), fmt.Sprintf("write %d to 12: rounds.min is %d", r.Min, r.Min))
	}
	return nil
}

// target is the file with what an arm's own commit cannot know.
func (o overrides) target(f *config.File) *config.File {
	own := *f
	own.Target.PassEnv = append(slices.Clone(f.Target.PassEnv), o.passEnv...)
	return &own
}

// check refuses another workload than the one asked for.
func (o overrides) check(digest string) error {
	if o.digest == "" || o.digest == digest {
		return nil
	}
	return usage(fmt.Errorf("the workload has digest %s, not %s", digest, o.digest), "update workload-digest after a reviewed change of the workload")
}
