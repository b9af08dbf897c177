package client

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestOptionsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{URL: "http://h", Dialect: "openai"}, "known: openai-chat, openai-completions"},
		{Options{URL: "ftp://h"}, "want http://"},
		{Options{URL: "http://"}, "no host"},
		{Options{URL: "http://u:secret@h"}, "credentials"},
		{Options{URL: "http://h", Settings: Settings{PerEventTokens: "all"}}, "want one of none, usage, logprobs"},
		{Options{URL: "http://h", Header: http.Header{"Content-Length": {"1"}}}, "set by tailgate"},
		{Options{URL: "http://h", Header: http.Header{"A b": {"1"}}}, "not a header name"},
		{Options{URL: "http://h", Header: http.Header{"A": {"1\r\nB: 2"}}}, "no header may hold"},
	} {
		tt.o.Clock = record.NewClock()
		_, err := prepare(tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", tt.o, err)
		}
	}
	if _, err := prepare(Options{URL: "http://h"}); err == nil {
		t.Error("no clock, no error")
	}
}

func TestEndpoints(t *testing.T) {
	chat := dialects()[0]
	for raw, want := range map[string]endpoint{
		"http://h":             {false, "h", "h:80", "h", "", "/v1/models"},
		"https://h/":           {true, "h", "h:443", "h", "", "/v1/models"},
		"http://[::1]:8000":    {false, "::1", "[::1]:8000", "[::1]:8000", "", "/v1/models"},
		"http://h:1/api/x?a=b": {false, "h", "h:1", "h:1", "/api/x?a=b", "/v1/models"},
		"http://h:1/p/v1/chat/completions": {
			false, "h", "h:1", "h:1", "/p/v1/chat/completions", "/p/v1/models",
		},
	} {
		got, err := parseEndpoint(raw, chat)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(endpoint{})); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
	}
}

func TestHostIsResolvedOnce(t *testing.T) {
	c, err := New(Options{URL: "http://localhost:1", Model: "m", Clock: record.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Address(); got != "127.0.0.1:1" && got != "[::1]:1" {
		t.Errorf("address %s", got)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                  "plain",
		"a\r\nb\tc":              "a b c",
		"\x1b[31mred\x00":        "[31mred",
		"\u202eevil\u200b":       "evil",
		strings.Repeat("é", 200): strings.Repeat("é", 50),
		"bad\xffutf8":            "bad\ufffdutf8",
	} {
		if got := clean(in, 100); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
