package actions

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v62/github"
)

// comments are the comments of one pull request. Writes are serial and at least writePause apart.
type comments struct {
	api         *github.Client
	owner, repo string
	number      int
	author      author
	// ours is the marker of what is published now.
	ours marker
	// render writes the comment with the history of an earlier one (nil: none), within a budget of UTF-16 units.
	render func(earlier *marker, budget int) (string, error)
	wait   func(context.Context, time.Duration) error
	wrote  bool
}

// mine is a comment of ours.
type mine struct {
	id        int64
	body, url string
	marker    marker
}

const (
	// commentBudget is below GitHub's limit of 65,536 characters, in UTF-16 units.
	commentBudget = 60_000
	// halvings is how often a refused comment is made half as long.
	halvings   = 3
	writePause = time.Second
)

// upsert makes the pull request show one comment of ours, the newest. It converges without a lock: after a first comment the
// list is read again, and of two the older one stays.
func (c *comments) upsert(ctx context.Context) (Status, string, error) {
	list, err := c.list(ctx)
	if err != nil {
		return "", "", err
	}
	for _, m := range list {
		if m.marker.after(c.ours) {
			return Superseded, m.url, nil
		}
	}
	if len(list) == 0 {
		return c.create(ctx)
	}
	state, url, err := c.update(ctx, list)
	if status(err) == http.StatusNotFound {
		// Deleted since it was listed.
		return c.create(ctx)
	}
	return state, url, err
}

// list returns our comments under our key, oldest first. The author must be ours too: anyone can write a marker.
func (c *comments) list(ctx context.Context) ([]mine, error) {
	var list []mine
	o := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	for {
		page, resp, err := c.api.Issues.ListComments(ctx, c.owner, c.repo, c.number, o)
		if err != nil {
			return nil, err
		}
		for _, comment := range page {
			m, ok := readMarker(comment.GetBody())
			if ok && m.key == c.ours.key && c.author.wrote(comment.GetUser()) {
				list = append(list, mine{comment.GetID(), comment.GetBody(), comment.GetHTMLURL(), m})
			}
		}
		if resp.NextPage <= o.Page {
			break
		}
		o.Page = resp.NextPage
	}
	slices.SortFunc(list, func(a, b mine) int { return cmp.Compare(a.id, b.id) })
	return list, nil
}

// update rewrites the oldest comment and deletes the others.
func (c *comments) update(ctx context.Context, list []mine) (Status, string, error) {
	oldest := list[0]
	newest := slices.MaxFunc(list, func(a, b mine) int {
		if a.marker.after(b.marker) {
			return 1
		}
		return -1
	})
	body, err := c.render(&newest.marker, commentBudget)
	if err != nil {
		return "", "", err
	}
	state := Unchanged
	if !same(body, oldest.body) {
		if oldest.url, err = c.write(ctx, oldest.id, &newest.marker); err != nil {
			return "", "", err
		}
		state = Updated
	}
	for _, younger := range list[1:] {
		c.remove(ctx, younger)
	}
	return state, oldest.url, nil
}

// create writes the first comment, then looks whether another publisher did the same. Where the answer got lost, the list says
// whether the comment was written.
func (c *comments) create(ctx context.Context) (Status, string, error) {
	url, err := c.write(ctx, 0, nil)
	lost := err != nil && (status(err) == 0 || status(err) >= http.StatusInternalServerError)
	if err != nil && !lost {
		return "", "", err
	}
	list, listErr := c.list(ctx)
	switch {
	case listErr != nil:
		// Written all the same, unless the answer got lost.
		return Posted, url, err
	case len(list) > 1, lost && len(list) == 1:
		return c.converge(ctx, list)
	case lost:
		url, err = c.write(ctx, 0, nil)
	}
	return Posted, url, err
}

// converge leaves one of the comments that two publishers wrote at once. A later measurement stays whole: its publisher sees
// both comments too, unless it looked before ours was there, and then its comment is the older one.
func (c *comments) converge(ctx context.Context, list []mine) (Status, string, error) {
	for _, m := range list {
		if !m.marker.after(c.ours) {
			continue
		}
		for _, own := range list[1:] {
			if own.marker.run == c.ours.run && own.marker.attempt == c.ours.attempt {
				c.remove(ctx, own)
			}
		}
		return Superseded, m.url, nil
	}
	_, url, err := c.update(ctx, list)
	return Posted, url, err
}

// remove deletes a comment of ours. One that cannot be deleted stays for the next run.
func (c *comments) remove(ctx context.Context, m mine) {
	if c.pause(ctx) == nil {
		_, _ = c.api.Issues.DeleteComment(ctx, c.owner, c.repo, m.id)
	}
}

// write sends the comment: a new one for id 0. One that is too long is sent again at half the length.
func (c *comments) write(ctx context.Context, id int64, earlier *marker) (string, error) {
	budget := commentBudget
	for try := 0; ; try++ {
		body, err := c.render(earlier, budget)
		if err != nil {
			return "", err
		}
		if err := c.pause(ctx); err != nil {
			return "", err
		}
		comment, err := c.send(ctx, id, body)
		if status(err) != http.StatusUnprocessableEntity || try == halvings {
			return comment.GetHTMLURL(), err
		}
		budget /= 2
	}
}

func (c *comments) send(ctx context.Context, id int64, body string) (*github.IssueComment, error) {
	comment := &github.IssueComment{Body: &body}
	var err error
	if id == 0 {
		comment, _, err = c.api.Issues.CreateComment(ctx, c.owner, c.repo, c.number, comment)
	} else {
		comment, _, err = c.api.Issues.EditComment(ctx, c.owner, c.repo, id, comment)
	}
	return comment, err
}

// pause keeps writes apart.
func (c *comments) pause(ctx context.Context) error {
	if !c.wrote {
		c.wrote = true
		return nil
	}
	return c.wait(ctx, writePause)
}

// same compares what we would write with what is there; the forge may have trimmed it and changed its line ends.
func same(a, b string) bool {
	return strings.TrimSpace(strings.ReplaceAll(a, "\r\n", "\n")) == strings.TrimSpace(strings.ReplaceAll(b, "\r\n", "\n"))
}
