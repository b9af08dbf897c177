package actions

import (
	"errors"
	"net/http"
	"strings"

	"github.com/google/go-github/v62/github"
)

// Status says what became of the comment: the output publish-status.
type Status string

// The states of a comment. A degraded one has a reason behind a colon: read-only-token, no-pr, locked, rate-limit, too-long,
// network, auth.
const (
	Posted     Status = "posted"
	Updated    Status = "updated"
	Unchanged  Status = "unchanged"
	Superseded Status = "superseded"
	Off        Status = "off"
	degraded   Status = "degraded:"
)

// Degraded reports whether the comment could not be written.
func (s Status) Degraded() bool { return strings.HasPrefix(string(s), string(degraded)) }

// degradedBy names the reason in an error of the API.
func degradedBy(err error) Status {
	answer, ok := errors.AsType[*github.ErrorResponse](err)
	if !ok || answer.Response == nil {
		if abuse, ok := errors.AsType[*github.AbuseRateLimitError](err); ok && abuse != nil {
			return degraded + "rate-limit"
		}
		return degraded + "network"
	}
	said := strings.ToLower(answer.Message)
	switch answer.Response.StatusCode {
	case http.StatusUnauthorized:
		return degraded + "auth"
	case http.StatusForbidden:
		switch {
		case strings.Contains(said, "rate limit"):
			return degraded + "rate-limit"
		case strings.Contains(said, "locked"):
			return degraded + "locked"
		}
		return degraded + "read-only-token"
	case http.StatusNotFound, http.StatusGone:
		return degraded + "no-pr"
	case http.StatusUnprocessableEntity:
		return degraded + "too-long"
	case http.StatusTooManyRequests:
		return degraded + "rate-limit"
	}
	return degraded + "network"
}

// status is the HTTP status of an API error, 0 when there was no answer.
func status(err error) int {
	if answer, ok := errors.AsType[*github.ErrorResponse](err); ok && answer.Response != nil {
		return answer.Response.StatusCode
	}
	return 0
}
