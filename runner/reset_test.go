package runner

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// answer is one reply of a server that is asked to empty its cache.
type answer struct {
	status int
	body   string
}

// answering serves the answers in turn, the last of them for ever, and counts.
func answering(t *testing.T, answers ...answer) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		n := int(asked.Add(1))
		if q.Method != http.MethodPost || q.URL.Path != "/reset_prefix_cache" {
			t.Errorf("asked by %s %s", q.Method, q.URL.Path)
		}
		a := answers[min(n, len(answers))-1]
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(a.body))
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func vllmReset(url string) reset {
	return reset{
		plan: record.ResetPlan{Method: http.MethodPost, Path: "/reset_prefix_cache", Status: http.StatusOK, JSON: map[string]string{"success": "true"}},
		url:  url, open: func() int64 { return 0 },
	}
}

// The five sequences of case M-03, and what else servers answer. Tries lie a second apart.
func TestResetAnswers(t *testing.T) {
	busy, no, yes := answer{400, "not idle"}, answer{200, `{"success":false}`}, answer{200, `{"success": true}`}
	tests := []struct {
		name    string
		answers []answer
		outcome record.ResetOutcome
		tries   int
		status  int
		text    string
		took    time.Duration
	}{
		{"no such route", []answer{{404, "Not Found"}}, record.ResetUnavailable, 1, 404, "Not Found", 0},
		{"an empty 200", []answer{{200, ""}}, record.ResetUnverified, 1, 200, "an empty body", 0},
		{"never successful", []answer{no}, record.ResetFailed, 6, 200, `{"success":false}`, 5 * time.Second},
		{"idle after two tries", []answer{busy, busy, yes}, record.ResetVerified, 3, 200, `{"success": true}`, 2 * time.Second},
		{"a router", []answer{{500, "no upstream"}}, record.ResetUnavailable, 1, 500, "no upstream", 0},

		{"at once", []answer{yes}, record.ResetVerified, 1, 200, `{"success": true}`, 0},
		{"busy for ever", []answer{{429, ""}}, record.ResetFailed, 6, 429, "", 5 * time.Second},
		{"the last try", []answer{{409, ""}, {503, ""}, busy, no, no, yes}, record.ResetVerified, 6, 200, `{"success": true}`, 5 * time.Second},
		{"busy, then gone", []answer{busy, {404, ""}}, record.ResetUnavailable, 2, 404, "", time.Second},
		{"another word", []answer{{200, `{"success": "maybe"}`}}, record.ResetFailed, 6, 200, `{"success": "maybe"}`, 5 * time.Second},
		{"no word", []answer{{200, `{"ok": true}`}}, record.ResetUnverified, 1, 200, `{"ok": true}`, 0},
		{"prose", []answer{{200, "done"}}, record.ResetUnverified, 1, 200, "done", 0},
		{"hostile", []answer{{500, "a\x1b[31m\r\n::set-output" + strings.Repeat("x", 500)}}, record.ResetUnavailable, 1, 500, "a [31m  ::set-output" + strings.Repeat("x", 180) + "…", 0},
		{"elsewhere", []answer{{302, ""}}, record.ResetUnavailable, 1, 302, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url, asked := answering(t, tt.answers...)
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				got := vllmReset(url).do(t.Context())
				want := record.ResetReport{Tries: tt.tries, Status: tt.status, Outcome: tt.outcome, Text: tt.text, HitRate: got.HitRate, Possible: got.Possible}
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(record.Value{})); diff != "" {
					t.Errorf("report (-want +got):\n%s", diff)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %s, want %s", took, tt.took)
				}
			})
			if n := int(asked.Load()); n != tt.tries {
				t.Errorf("asked %d times, %d on record", n, tt.tries)
			}
		})
	}
}

func TestResetRefused(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	url := strings.Replace(server.URL, "http://", "http://user:secret@", 1) + "/v1?key=secret"
	server.Close()
	got := vllmReset(url).do(t.Context())
	if got.Outcome != record.ResetUnavailable || got.Tries != 1 || got.Status != 0 || !strings.Contains(got.Text, "refused") || strings.Contains(got.Text, "secret") {
		t.Errorf("report %+v", got)
	}
}

// Without a declared body any answer with the declared status verifies, but an empty 200.
func TestResetWithoutADeclaredBody(t *testing.T) {
	for _, tt := range []struct {
		status, declared int
		body             string
		want             record.ResetOutcome
	}{
		{200, 200, "ok", record.ResetVerified},
		{200, 200, " \n", record.ResetUnverified},
		{204, 204, "", record.ResetVerified},
		{200, 204, "", record.ResetUnavailable},
		{200, 200, `{"success": false}`, record.ResetFailed},
	} {
		if got, _ := judgeReset(record.ResetPlan{Status: tt.declared}, tt.status, []byte(tt.body)); got != tt.want {
			t.Errorf("%d %q where %d is declared: %s, want %s", tt.status, tt.body, tt.declared, got, tt.want)
		}
	}
}

// A reset waits until nothing of ours is open, and ends with its context.
func TestResetWaitsForIdle(t *testing.T) {
	url, asked := answering(t, answer{200, `{"success": true}`})
	synctest.Test(t, func(t *testing.T) {
		c := vllmReset(url)
		busy := time.Now().Add(3 * time.Second)
		c.open = func() int64 {
			if time.Now().Before(busy) {
				return 1
			}
			return 0
		}
		began := time.Now()
		if got := c.do(t.Context()); got.Outcome != record.ResetVerified || time.Since(began) != 3*time.Second {
			t.Errorf("%s after %s, want verified after 3 s", got.Outcome, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.open = func() int64 { return 1 }
		if got := c.do(ctx); got.Outcome != "" || got.Tries != 0 {
			t.Errorf("cancelled: %+v", got)
		}
	})
	if asked.Load() != 1 {
		t.Errorf("asked %d times, want once", asked.Load())
	}
}

func TestNoReset(t *testing.T) {
	got := reset{plan: record.ResetPlan{None: true}}.do(t.Context())
	if got.Outcome != record.ResetNone || got.Tries != 0 {
		t.Errorf("report %+v", got)
	}
}

func TestAddressHidesSecrets(t *testing.T) {
	for raw, want := range map[string]string{
		"http://u:p@host:8000/v1?key=secret": "http://host:8000/v1",
		"https://host":                       "https://host",
		"://":                                "(not a URL)",
		"u:p":                                "(not a URL)",
	} {
		if got := address(raw); got != want {
			t.Errorf("address(%q) = %q, want %q", raw, got, want)
		}
	}
}
