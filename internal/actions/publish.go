package actions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/go-github/v62/github"
)

// Options are what a result is published with.
type Options struct {
	Job    Job
	Event  Event
	Inputs Inputs
	Result *Result
	// Token may be empty: nothing can be posted then. It goes to the API's own host only.
	Token string
	// UserAgent names this program to GitHub.
	UserAgent string
	// Transport makes the connections; Wait waits for a time or until the context ends; Now is the wall clock.
	Transport http.RoundTripper
	Wait      func(context.Context, time.Duration) error
	Now       func() time.Time
}

// Published is what became of a result.
type Published struct {
	Status Status
	// URL is the comment's address; empty when there is none.
	URL string
}

// publishLimit bounds the whole of publishing, waiting included.
const publishLimit = 6 * time.Minute

// Publish keeps the one comment on the pull request up to date. An error says why there is no comment; Published then has a
// degraded status, and the verdict stands.
func Publish(ctx context.Context, o Options) (Published, error) {
	switch {
	case o.Inputs.Comment == CommentNever:
		return Published{Status: Off}, nil
	case o.Event.Pull == nil:
		return Published{Status: degraded + "no-pr"}, fmt.Errorf("event %s has no pull request to comment on", o.Event.Name)
	case o.Token == "":
		return Published{Status: degraded + "auth"}, errors.New("no token: give the job pull-requests: write, or set comment: never")
	}
	if head := o.Result.Run.Arms.Head; head == nil || head.Commit != o.Event.Pull.HeadSHA {
		return Published{Status: degraded + "no-pr"}, fmt.Errorf("the result is not of commit %.12s, the head of the pull request", o.Event.Pull.HeadSHA)
	}
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	c, err := o.comments(ctx)
	if err != nil {
		return Published{Status: degraded + "network"}, err
	}
	state, address, err := c.upsert(ctx)
	if err != nil {
		return Published{Status: degradedBy(err)}, fmt.Errorf("the comment could not be written: %w", err)
	}
	return Published{Status: state, URL: address}, nil
}

func (o Options) comments(ctx context.Context) (*comments, error) {
	base, err := url.Parse(o.Job.API + "/")
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("GITHUB_API_URL: %q is no address", oneLine(o.Job.API, shownValue))
	}
	run, err := strconv.ParseUint(o.Job.RunID, 10, 63)
	if err != nil {
		return nil, err
	}
	api := github.NewClient(&http.Client{
		Transport:     &patience{next: o.Transport, host: base.Host, token: o.Token, wait: o.Wait, now: o.Now},
		CheckRedirect: sameHost,
	})
	api.BaseURL, api.UserAgent = base, o.UserAgent
	c := &comments{
		api: api, number: o.Event.Pull.Number, author: whoami(ctx, api, o.Job.GraphQL, o.Token), wait: o.Wait,
		ours: marker{key: o.Inputs.Key, run: run, attempt: o.Job.Attempt, head: o.Event.Pull.HeadSHA},
	}
	c.owner, c.repo = o.Job.slug()
	c.render = func(earlier *marker, budget int) (string, error) {
		return o.Result.comment(o.Job, c.ours, earlier, budget)
	}
	return c, nil
}
