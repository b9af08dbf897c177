package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// ask makes sure, before anything is measured, that the load fits this machine, the workload fits the dialect, and the
// server is asked and read in the right way. What the command line can mend is exit 2; a server that is there and does not
// serve is exit 4.
func (l *loading) ask(ctx context.Context) error {
	if err := runner.Check(l.workload, l.run.Declared); err != nil {
		return usage(err, "")
	}
	c, err := client.New(client.Options{
		URL: l.url, Dialect: l.api.Dialect, Model: l.api.Model, Header: l.api.Header, Settings: l.api.Settings, Example: l.api.Example,
		Limits: l.run.Declared.Limits, Clock: l.clock, HTTP2: l.fl.http2,
	})
	if err != nil {
		hint := "a server is named like http://127.0.0.1:8000, its dialect with --dialect"
		if strings.Contains(err.Error(), "name the model") {
			hint = "name it with --model"
		}
		return usage(err, hint)
	}
	defer c.Close()
	if err := runner.Fits(l.workload, l.run.Declared, l.api, l.url); err != nil {
		return usage(err, "choose a workload made for that dialect, or another --dialect of "+strings.Join(client.Dialects(), ", "))
	}
	over := ""
	if l.fl.http2 {
		over = " over HTTP/2"
	}
	fmt.Fprintf(l.app.err, "asking %s%s for %d answers before anything is measured\n", maskURL(l.url), over, record.ProbeRequests)
	l.probe, err = c.Preflight(ctx, l.workload)
	switch {
	case ctx.Err() != nil:
		return &exitError{code: cancelCode(ctx), err: errors.New("cancelled before anything was measured")}
	case err != nil:
		return usage(err, "")
	case l.probe.Failed == l.probe.Sent:
		return l.refused(c.Model())
	}
	if err := runner.CheckPorts(l.probe, l.workload, l.run.Declared); err != nil {
		return usage(err, "")
	}
	if wrong, ok := l.probe.Wrong(); ok {
		l.run.Notes = append(l.run.Notes, record.Note{ID: "probe", Text: wrong.Name + ": " + wrong.Detail})
		fmt.Fprintf(l.app.err, "note: before the load, %s: %s\n", wrong.Name, wrong.Detail)
	}
	return nil
}

// refused says why no answer came, and what to try.
func (l *loading) refused(model string) error {
	s := l.probe.Samples[0]
	err := fmt.Errorf("the server gives no answer: %s: %s", s.Class, s.Detail)
	probe := "`tailgate probe " + maskURL(l.url) + " --dialect " + l.fl.dialect + l.httpFlag() + "`"
	hint := "see what comes with " + probe + "; it may be another --dialect"
	switch s.Class {
	case record.Dial, record.TLS:
		hint = l.reachHint(s)
	case record.Redirect:
		hint = "redirects are never followed: give the address it points to"
	case record.HTTP4xx:
		hint = askHint(s, model, probe)
	case record.Timeout:
		hint = "see what comes with " + probe + ", or allow more with --limit " + limitName(s.Detail) + "=..."
	case record.HTTP5xx, record.HTTP503, record.HTTP429, record.ConnReset, record.UnexpectedEOF:
		return &exitError{code: invalidExit, err: err, hint: "see its log, and what comes with " + probe}
	default:
	}
	return usage(err, cmp.Or(l.probe.Looks, hint))
}

// httpFlag is what else a probe like this load needs.
func (l *loading) httpFlag() string {
	if l.fl.http2 {
		return " --http2"
	}
	return ""
}

// reachHint is for a server to which no connection came about.
func (l *loading) reachHint(s record.Sample) string {
	switch {
	case l.fl.http2 && strings.Contains(s.Detail, "HTTP/2"):
		return "leave --http2 away, or have the server take HTTP/2 (without TLS: with prior knowledge)"
	case s.Class == record.TLS:
		return "is it http:// rather than https://, and is its certificate one that this machine trusts?"
	default:
		return "start the server, or mend host and port"
	}
}

// askHint is for a server that says the request is wrong.
func askHint(s record.Sample, model, probe string) string {
	switch {
	case s.Status == http.StatusUnauthorized || s.Status == http.StatusForbidden:
		return "send credentials with --header 'Authorization: Bearer ...'"
	case strings.Contains(strings.ToLower(s.Detail), "model"):
		return fmt.Sprintf("name a model that the server has with --model; %q was sent", model)
	case s.Status == http.StatusNotFound || s.Status == http.StatusMethodNotAllowed:
		return "the server has no such path: give the whole URL with its path, or try another --dialect of " + strings.Join(client.Dialects(), ", ")
	default:
		return "see what comes with " + probe
	}
}

// limitName is the limit at the beginning of a timeout's detail, "total" when it names none.
func limitName(detail string) string {
	for _, name := range []string{"first_event", "idle", "no_progress"} {
		if strings.HasPrefix(detail, name) {
			return name
		}
	}
	return "total"
}
