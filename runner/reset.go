package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// resetTries is how often a server that refuses is asked again, resetEvery the pause before.
	resetTries, resetEvery = 5, time.Second
	// resetLimit bounds one call.
	resetLimit = 30 * time.Second
	// idleEvery is the pause between two looks whether requests are still open.
	idleEvery = 10 * time.Millisecond
	// resetBody is how much of an answer is read, resetText how much of it is kept.
	resetBody, resetText = 64 << 10, 200
)

// reset is the call that empties a server's cache. It tries again where the server refuses because it is busy, and believes
// only the answer that was declared: servers say 200 to what they do not do.
type reset struct {
	plan record.ResetPlan
	// url is where the server is; the call's path counts from its root.
	url    string
	header http.Header
	// open counts our requests that are not over.
	open func() int64
}

// do waits until none of our requests is open, asks, and says what came of it. A context that ends leaves the outcome empty.
func (c reset) do(ctx context.Context) record.ResetReport {
	report := record.ResetReport{HitRate: record.NA("no warm-up window after the reset"), Possible: record.NA("no warm-up window after the reset")}
	if c.plan.None {
		report.Outcome = record.ResetNone
		return report
	}
	for c.open() > 0 {
		if pause(ctx, idleEvery) != nil {
			return report
		}
	}
	for {
		outcome, status, text := c.ask(ctx)
		report.Tries++
		report.Status, report.Text = status, shownLine(text, resetText)
		if outcome != record.ResetFailed || report.Tries > resetTries {
			if ctx.Err() == nil {
				report.Outcome = outcome
			}
			return report
		}
		if pause(ctx, resetEvery) != nil {
			return report
		}
	}
}

// ask makes one call. A status of 0 means that no answer came.
func (c reset) ask(ctx context.Context) (outcome record.ResetOutcome, status int, text string) {
	ctx, cancel := context.WithTimeout(ctx, resetLimit)
	defer cancel()
	u, err := url.Parse(c.url)
	if err != nil {
		return record.ResetUnavailable, 0, "not a URL"
	}
	at := url.URL{Scheme: u.Scheme, Host: u.Host}
	q, err := http.NewRequestWithContext(ctx, c.plan.Method, at.String()+c.plan.Path, http.NoBody)
	if err != nil {
		return record.ResetUnavailable, 0, bare(err)
	}
	maps.Copy(q.Header, c.header)
	// A connection of its own: it must not be one that a measured request could find.
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(q)
	if err != nil {
		return record.ResetUnavailable, 0, bare(err)
	}
	defer answer.Body.Close() //nolint:errcheck // read only
	body, err := io.ReadAll(io.LimitReader(answer.Body, resetBody))
	if err != nil {
		return record.ResetUnavailable, answer.StatusCode, bare(err)
	}
	outcome, text = judgeReset(c.plan, answer.StatusCode, body)
	return outcome, answer.StatusCode, text
}

// judgeReset says what an answer means. ResetFailed is a refusal that may end.
func judgeReset(plan record.ResetPlan, status int, body []byte) (outcome record.ResetOutcome, text string) {
	text = string(body)
	if status != plan.Status {
		switch status {
		case http.StatusBadRequest, http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return record.ResetFailed, text
		default:
			return record.ResetUnavailable, text
		}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		if status == http.StatusOK || len(plan.JSON) > 0 {
			return record.ResetUnverified, "an empty body"
		}
		return record.ResetVerified, ""
	}
	said, isObject := members(body)
	if said["success"] == "false" {
		return record.ResetFailed, text
	}
	if len(plan.JSON) > 0 && !isObject {
		return record.ResetUnverified, text
	}
	for name, want := range plan.JSON {
		got, there := said[name]
		if !there {
			return record.ResetUnverified, text
		}
		if got != want {
			return record.ResetFailed, text
		}
	}
	return record.ResetVerified, text
}

// members are those of a JSON object, plain values as text.
func members(body []byte) (map[string]string, bool) {
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&object) != nil || object == nil {
		return nil, false
	}
	said := map[string]string{}
	for name, v := range object {
		switch v.(type) {
		case nil:
			said[name] = "null"
		case string, json.Number, bool:
			said[name] = fmt.Sprint(v)
		default:
			said[name] = "(not a plain value)"
		}
	}
	return said, true
}

// bare is an error without the URL that net/http puts before it: a URL may hold what nobody should read.
func bare(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return err.Error()
}

// shownLine makes foreign text fit to be shown: printable, one line, at most limit characters.
func shownLine(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.TrimSpace(s) {
		if n++; n > limit {
			b.WriteString("…")
			break
		}
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// address is a URL without userinfo and query, for people.
func address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}
