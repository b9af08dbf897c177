package actions

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/google/go-github/v62/github"
)

// The reasons of a [RefusedError], values of the output "reason".
const (
	RefusedEvent = "refused_event"
	RefusedFork  = "refused_fork"
)

// RefusedError is an event that must not start a measurement on this runner.
type RefusedError struct {
	// Reason is [RefusedEvent] or [RefusedFork]; Text is one sentence.
	Reason, Text string
}

// Error returns the sentence.
func (e *RefusedError) Error() string { return e.Text }

// Event is what started the workflow.
type Event struct {
	// Name is GitHub's name of the event.
	Name string
	// Pull is the pull request; nil for an event without one.
	Pull *Pull
}

// Pull is a pull request from a branch of this repository.
type Pull struct {
	Number int
	// HeadSHA is the commit the event is about, 40 or 64 hex. It is what the author pushed, not the merge commit.
	HeadSHA string
	// BaseRef is the name of the target branch, foreign text that names a ref below refs/heads. Its commit in the payload is
	// left out on purpose: it is neither the tip nor the merge base, and measuring it would charge the pull request with
	// other people's commits.
	BaseRef string
}

const (
	// eventLimit is the largest payload read, bytes; GitHub's own limit is 25 MB.
	eventLimit = 32 << 20
	// branchLimit bounds the name of a branch, bytes.
	branchLimit = 1024
)

var commitPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// ReadEvent reads the payload of the job's event. It refuses events that may not start a measurement: those that run foreign
// code with the rights of the target branch, those this version does not know, and pull requests from forks.
func ReadEvent(job Job) (Event, error) {
	e := Event{Name: job.EventName}
	payload, err := readEvent(job.EventPath)
	if err != nil {
		return e, err
	}
	switch e.Name {
	case "pull_request":
		e.Pull, err = readPull(payload, job.Repository)
		return e, err
	case "push", "workflow_dispatch", "schedule":
		return e, nil
	case "pull_request_target", "workflow_run", "issue_comment":
		return e, &RefusedError{RefusedEvent, fmt.Sprintf(
			"event %s would run the code of a pull request with the rights of the target branch; measure on pull_request", e.Name)}
	default:
		return e, &RefusedError{RefusedEvent, fmt.Sprintf(
			"event %s is not measured; use pull_request, push, workflow_dispatch or schedule", oneLine(e.Name, shownValue))}
	}
}

func readEvent(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("GITHUB_EVENT_PATH: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(f, eventLimit+1))
	if err == nil && len(text) > eventLimit {
		err = fmt.Errorf("larger than %d MiB", eventLimit>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

func readPull(payload []byte, repository string) (*Pull, error) {
	var e github.PullRequestEvent
	if err := json.Unmarshal(payload, &e); err != nil {
		return nil, fmt.Errorf("payload of pull_request: %w", err)
	}
	head, base := e.GetPullRequest().GetHead(), e.GetPullRequest().GetBase()
	if from := head.GetRepo().GetFullName(); !strings.EqualFold(from, repository) {
		if from == "" {
			from = "a deleted repository"
		}
		return nil, &RefusedError{RefusedFork, fmt.Sprintf(
			"the pull request comes from %s: its code is not run on this runner; push the branch to %s to have it measured",
			oneLine(from, shownValue), repository)}
	}
	p := &Pull{Number: e.GetPullRequest().GetNumber(), HeadSHA: head.GetSHA(), BaseRef: base.GetRef()}
	switch {
	case p.Number <= 0:
		return nil, fmt.Errorf("payload of pull_request: no number")
	case !commitPattern.MatchString(p.HeadSHA):
		return nil, fmt.Errorf("payload of pull_request: head.sha %q is no commit", oneLine(p.HeadSHA, shownValue))
	case p.BaseRef == "" || len(p.BaseRef) > branchLimit:
		return nil, fmt.Errorf("payload of pull_request: base.ref %q is no branch", oneLine(p.BaseRef, shownValue))
	}
	return p, nil
}
