package build

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

const (
	// fetchLimit is what one call of Resolve may spend on fetching.
	fetchLimit = 2 * time.Minute
	// mendShallow is the way out of a shallow clone.
	mendShallow = "check out with fetch-depth: 0"
)

// Why a commit could not be fetched, beside what git says.
var (
	errSpent    = errors.New("2 min were not enough to fetch it")
	errNoOrigin = errors.New("there is no remote named origin")
	errNoMore   = errors.New("origin has no more history either")
)

// find is resolve in a clone that may be shallow: what the ref needs is fetched.
func (s *search) find(ctx context.Context, ref, flag string) (string, error) {
	if err := s.check(ctx, ref); err != nil {
		return "", err
	}
	_, err := s.commit(ctx, ref)
	if err != nil && !errors.Is(err, errUnknown) {
		return "", err
	}
	if err != nil {
		commit, err := s.supply(ctx, ref, flag)
		if commit != "" || err != nil {
			return commit, err
		}
	}
	return s.resolve(ctx, ref, flag)
}

// supply fetches what an unknown ref names, and returns its commit. It returns "" where that is no matter of fetching: the
// clone is whole, or the ref is no full hash, no branch of origin and no step back from a commit.
func (s *search) supply(ctx context.Context, ref, flag string) (string, error) {
	boundary, err := s.shallow(ctx)
	if err != nil || len(boundary) == 0 {
		return "", err
	}
	stem := navigation.ReplaceAllString(ref, "")
	branch, remote := strings.CutPrefix(strings.TrimPrefix(ref, "refs/remotes/"), "origin/")
	switch {
	case hash.MatchString(ref):
		return ref, s.have(ctx, ref, flag)
	case stem != ref:
		return s.stepBack(ctx, stem, ref[len(stem):], flag)
	case remote:
		commit, err := s.tip(ctx, branch, flag)
		if commit == "" || err != nil {
			return "", err
		}
		return commit, s.have(ctx, commit, flag)
	}
	return "", nil
}

// stepBack resolves a ref such as HEAD~3, whose steps may lead over the edge of a shallow clone.
func (s *search) stepBack(ctx context.Context, stem, steps, flag string) (string, error) {
	from, err := s.find(ctx, stem, flag)
	if err != nil {
		return "", err
	}
	var commit string
	arrived := func() (bool, error) {
		commit, err = s.commit(ctx, from+steps)
		if errors.Is(err, errUnknown) {
			return false, nil
		}
		return err == nil, err
	}
	if ok, err := arrived(); ok || err != nil {
		return commit, err
	}
	return commit, s.deepen(ctx, flag+" "+stem+steps, arrived, from)
}

// tip asks origin for the commit of a branch that the clone does not follow; HEAD is its default branch. "" when it has none.
func (s *search) tip(ctx context.Context, branch, flag string) (string, error) {
	want := "refs/heads/" + branch
	if branch == "HEAD" {
		want = branch
	}
	out, err := s.ask(ctx, "asking origin for "+proc.Clean(branch, refLimit), "ls-remote", "--quiet", "origin", want)
	if err != nil {
		return "", s.lacking(flag+" origin/"+proc.Clean(branch, refLimit), err)
	}
	for line := range strings.Lines(string(out)) {
		// A pattern also matches the end of longer names.
		if fields := strings.Fields(line); len(fields) == 2 && fields[1] == want && hash.MatchString(fields[0]) {
			return fields[0], nil
		}
	}
	return "", nil
}

// have makes sure that a commit is here, with its files; its history may still be missing.
func (s *search) have(ctx context.Context, commit, what string) error {
	if _, err := s.commit(ctx, commit); !errors.Is(err, errUnknown) {
		return err
	}
	boundary, err := s.shallow(ctx)
	if err != nil {
		return err
	}
	if len(boundary) == 0 {
		return usagef("%s: commit %.12s is not in this repository; fetch it", what, commit)
	}
	err = s.fetch(ctx, fmt.Sprintf("fetching commit %.12s from origin", commit), "--depth=1", "origin", commit)
	if err == nil {
		_, err = s.commit(ctx, commit)
	}
	if err != nil {
		return s.lacking(fmt.Sprintf("%s, commit %.12s,", what, commit), err)
	}
	return nil
}

// deepen brings more of the history below tips, in steps, until done says that it suffices. It asks origin for the commits at
// which the clone was cut: tips that were never pushed are unknown there.
func (s *search) deepen(ctx context.Context, what string, done func() (bool, error), tips ...string) error {
	for _, step := range []struct{ flag, text string }{
		{"--deepen=50", "fetching 50 more commits from origin"},
		{"--deepen=500", "fetching 500 more commits from origin"},
		{"--unshallow", "fetching all history from origin"},
	} {
		cut, err := s.cuts(ctx, tips...)
		if err != nil {
			return err
		}
		if len(cut) == 0 {
			break
		}
		if err := s.fetch(ctx, step.text, append([]string{step.flag, "origin"}, cut...)...); err != nil {
			return s.lacking(what, err)
		}
		if ok, err := done(); ok || err != nil {
			return err
		}
	}
	return s.lacking(what, errNoMore)
}

// cuts returns the commits below tips at which the clone was cut; none when all their history is here.
func (s *search) cuts(ctx context.Context, tips ...string) ([]string, error) {
	boundary, err := s.shallow(ctx)
	if err != nil || len(boundary) == 0 {
		return nil, err
	}
	out, err := s.run(ctx, nil, append(append([]string{"rev-list"}, tips...), "--")...)
	if err != nil {
		return nil, err
	}
	var cut []string
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if boundary[lines.Text()] {
			cut = append(cut, lines.Text())
		}
	}
	return cut, lines.Err()
}

// fetch asks origin for commits by hash. Whatever the configuration says, it moves no branch, no tag and not FETCH_HEAD.
func (s *search) fetch(ctx context.Context, doing string, args ...string) error {
	_, err := s.ask(ctx, doing, append([]string{
		"-c", "protocol.version=2", // older servers' protocols give no commit that is not a branch's tip
		"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", "--no-prune", "--no-recurse-submodules", "--no-auto-maintenance",
	}, args...)...)
	return err
}

// ask runs a git command that talks to origin, within what is left of the time.
func (s *search) ask(ctx context.Context, doing string, args ...string) ([]byte, error) {
	// Without a remote of that name git would take "origin" for a path.
	if _, err := s.text(ctx, "config", "--get-all", "remote.origin.url"); err != nil {
		if _, refused := said(err); refused {
			return nil, errNoOrigin
		}
		return nil, err
	}
	if s.left <= 0 {
		return nil, errSpent
	}
	if s.o.Progress != nil {
		s.o.Progress("shallow clone: " + doing)
	}
	limited, cancel := context.WithTimeout(ctx, s.left)
	defer cancel()
	began := time.Now()
	out, err := s.do(limited, call{env: s.env}, args...)
	s.left -= time.Since(began)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, errSpent
	}
	return out, err
}

// lacking turns a failed fetch into what the user can do about it. What git did not refuse is no matter of the clone.
func (s *search) lacking(what string, err error) error {
	reason := err.Error()
	if refused, ok := errors.AsType[*gitError](err); ok {
		reason = refused.message
	} else if !errors.Is(err, errSpent) && !errors.Is(err, errNoOrigin) && !errors.Is(err, errNoMore) && !errors.Is(err, errUnknown) {
		return err
	}
	return usagef("the clone is shallow, and %s lies in history that is not here (%s); %s", what, reason, mendShallow)
}
