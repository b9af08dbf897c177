package actions

import (
	"context"
	"net/http"
	"regexp"
	"strings"

	"github.com/google/go-github/v62/github"
)

// author is who our comments are written by.
type author struct {
	login string
	// kind is "Bot" or "User".
	kind string
}

const (
	botSuffix = "[bot]"
	// jobBot is who a job's own token writes as.
	jobBot = "github-actions" + botSuffix
)

// userToken are the tokens of people; those of jobs and apps begin otherwise.
var userToken = regexp.MustCompile(`^(ghp_|gho_|ghu_|github_pat_|[0-9a-f]{40}$)`)

// whoami asks who the token belongs to. A job's own token may not be allowed to ask; it writes as github-actions[bot].
func whoami(ctx context.Context, api *github.Client, graphQL, token string) author {
	me := author{login: jobBot, kind: "Bot"}
	if userToken.MatchString(token) {
		me.kind = "User"
	}
	req, err := api.NewRequest(http.MethodPost, graphQL, map[string]string{"query": "query{viewer{login}}"})
	if err != nil {
		return me
	}
	var answer struct {
		Data struct{ Viewer struct{ Login string } }
	}
	if _, err := api.Do(ctx, req, &answer); err == nil && answer.Data.Viewer.Login != "" {
		me.login = answer.Data.Viewer.Login
	}
	return me
}

// wrote reports whether a user is the author. Apps are spelled with and without their suffix; the kind keeps a person of the
// same name apart.
func (a author) wrote(u *github.User) bool {
	return u.GetType() == a.kind && strings.EqualFold(strings.TrimSuffix(u.GetLogin(), botSuffix), strings.TrimSuffix(a.login, botSuffix))
}
