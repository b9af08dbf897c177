package actions

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

func aJob() Job {
	return Job{
		Repository: "acme/service", RunID: "812", Attempt: 1, Workflow: "gate", Name: "bench", EventName: "pull_request",
		Server: "https://github.com", API: "https://api.github.com", GraphQL: "https://api.github.com/graphql",
	}
}

// postman publishes to a forge; its waits take no time and are counted.
type postman struct {
	forge  *forge
	o      Options
	waited time.Duration
}

func newPostman(t *testing.T) *postman {
	t.Helper()
	p := &postman{forge: newForge(t)}
	job := aJob()
	job.API, job.GraphQL = p.forge.URL, p.forge.URL+"/graphql"
	p.o = Options{
		Job: job, Event: Event{Name: "pull_request", Pull: &Pull{Number: 7, HeadSHA: headCommit, BaseRef: "main"}},
		Inputs: Inputs{Comment: CommentAuto, Key: "gate-bench"}, Result: aResult(t), Token: testToken, UserAgent: "tailgate/1.2.0",
		Transport: http.DefaultTransport, Now: func() time.Time { return time.Date(2026, 3, 4, 11, 0, 0, 0, time.UTC) },
		Wait: func(_ context.Context, d time.Duration) error { p.waited += d; return nil },
	}
	return p
}

// publish wants a status and an error exactly when the comment is degraded.
func (p *postman) publish(t *testing.T, want Status) Published {
	t.Helper()
	got, err := Publish(t.Context(), p.o)
	if got.Status != want {
		t.Fatalf("status %q, want %q (%v)", got.Status, want, err)
	}
	if (err != nil) != got.Status.Degraded() {
		t.Fatalf("status %q with error %v", got.Status, err)
	}
	return got
}

func TestPublishPostsThenUpdatesThenLeavesAlone(t *testing.T) {
	p := newPostman(t)
	first := p.publish(t, Posted)
	if !strings.HasSuffix(first.URL, "#issuecomment-101") {
		t.Errorf("address %q", first.URL)
	}
	p.publish(t, Unchanged)
	p.o.Job.RunID = "900"
	if second := p.publish(t, Updated); second.URL != first.URL {
		t.Errorf("the update went to %s, not %s", second.URL, first.URL)
	}
	if got := p.forge.writes(); got != "POST PATCH" {
		t.Errorf("writes %q", got)
	}
	body := p.forge.bodies()[0]
	if !strings.HasSuffix(body, fmt.Sprintf("run=900 attempt=1 head=%s schema=1 hist=c55e810:fail:900,c55e810:fail:812 -->\n", headCommit)) {
		t.Errorf("history: …%s", body[max(0, len(body)-200):])
	}
	if !strings.Contains(body, "earlier: fail") {
		t.Errorf("the repeated measurement is not mentioned:\n%s", body)
	}
	p.o.Job.RunID = "850"
	p.publish(t, Superseded)
	p.o.Job.RunID, p.o.Job.Attempt = "900", 2
	p.publish(t, Updated)
	if body := p.forge.bodies()[0]; !strings.Contains(body, "hist=c55e810:fail:900.2,c55e810:fail:900,c55e810:fail:812 -->") {
		t.Errorf("history after a re-run: …%s", body[max(0, len(body)-200):])
	}
}

func TestCommentGolden(t *testing.T) {
	p := newPostman(t)
	p.publish(t, Posted)
	// The digest moves with every new field of run.json.
	got := regexp.MustCompile("result `sha256:[0-9a-f]+`").ReplaceAllString(p.forge.bodies()[0], "result `sha256:…`")
	path := filepath.Join("testdata", "comment.md")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("testdata/comment.md is stale (run with -update; -want +got):\n%s", diff)
	}
	if strings.Contains(got, "@acme/team") || strings.Contains(got, "![x]") || strings.Count(got, "<details>") != strings.Count(got, "</details>") {
		t.Errorf("a commit's subject is markup:\n%s", got)
	}
}

// A person with our marker, another bot that quotes it, a gate of another key: none is ours, wherever in 250 comments they are.
func TestPublishTouchesOnlyItsOwn(t *testing.T) {
	p := newPostman(t)
	mark := func(key string, run int) string {
		return fmt.Sprintf("old report\n<!-- tailgate key=%s run=%d attempt=1 head=%s schema=1 -->", key, run, baseCommit)
	}
	p.forge.add("mallory", "User", mark("gate-bench", 999999999))
	p.forge.add("github-actions", "User", mark("gate-bench", 999999998))
	p.forge.add("other-app[bot]", "Bot", mark("gate-bench", 999999997))
	p.forge.add(botLogin, "Bot", mark("gate-bench", 5)+"\nquoted above")
	p.forge.add(botLogin, "Bot", mark("gate-other", 6))
	for i := range 250 {
		p.forge.add("reviewer", "User", fmt.Sprintf("remark %d", i))
	}
	ours := p.forge.add(botLogin, "Bot", mark("gate-bench", 7))
	before := p.forge.bodies()
	got := p.publish(t, Updated)
	if !strings.HasSuffix(got.URL, fmt.Sprintf("-%d", ours)) {
		t.Errorf("updated %s, want comment %d", got.URL, ours)
	}
	after := p.forge.bodies()
	if diff := cmp.Diff(before[:len(before)-1], after[:len(after)-1]); diff != "" {
		t.Errorf("other comments changed:\n%s", diff)
	}
	if got := p.forge.writes(); got != "PATCH" {
		t.Errorf("writes %q", got)
	}
}

func TestPublishKeepsTheOldestOfSeveral(t *testing.T) {
	p := newPostman(t)
	for run := 3; run <= 5; run++ {
		p.forge.add(botLogin, "Bot", fmt.Sprintf("x\n<!-- tailgate key=gate-bench run=%d attempt=1 head=%s schema=1 hist=4be91c7:pass:%d -->", run, baseCommit, run))
	}
	got := p.publish(t, Updated)
	bodies := p.forge.bodies()
	if len(bodies) != 1 || !strings.HasSuffix(got.URL, "-101") || !strings.Contains(bodies[0], "hist=c55e810:fail:812,4be91c7:pass:5 -->") {
		t.Errorf("left %d comments, %s: %q", len(bodies), got.URL, bodies)
	}
	if p.waited < 2*time.Second {
		t.Errorf("writes are %s apart in all, want a second each", p.waited)
	}
}

// Two publishers that both saw no comment leave one, the older, with the later measurement.
func TestPublishRace(t *testing.T) {
	for _, tt := range []struct {
		name  string
		other int
		want  Status
		left  string
	}{
		{"the other is an earlier run", 5, Posted, "run=812 "},
		{"the other is a later run and younger", 900, Superseded, "run=812 run=900 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPostman(t)
			p.forge.onPost = func() {
				p.forge.add(botLogin, "Bot", fmt.Sprintf("x\n<!-- tailgate key=gate-bench run=%d attempt=1 head=%s schema=1 -->", tt.other, headCommit))
			}
			p.publish(t, tt.want)
			var left strings.Builder
			for _, body := range p.forge.bodies() {
				m, _ := readMarker(body)
				fmt.Fprintf(&left, "run=%d ", m.run)
			}
			if left.String() != tt.left {
				t.Errorf("left %q, want %q", left.String(), tt.left)
			}
		})
	}
}

func TestPublishWhereNothingCanBePosted(t *testing.T) {
	tests := []struct {
		name   string
		spoil  func(p *postman)
		want   Status
		writes string
	}{
		{"comment: never", func(p *postman) { p.o.Inputs.Comment = CommentNever }, Off, ""},
		{"no pull request", func(p *postman) { p.o.Event = Event{Name: "push"} }, "degraded:no-pr", ""},
		{"another commit's result", func(p *postman) { p.o.Event.Pull.HeadSHA = baseCommit }, "degraded:no-pr", ""},
		{"no token", func(p *postman) { p.o.Token = "" }, "degraded:auth", ""},
		{"401", answers("GET", fault(401, "Bad credentials")), "degraded:auth", ""},
		{"403 of a read-only token", answers("POST", fault(403, "Resource not accessible by integration")), "degraded:read-only-token", "POST"},
		{"404", answers("GET", fault(404, "Not Found")), "degraded:no-pr", ""},
		{"410", answers("GET", fault(410, "Issues are disabled for this repo")), "degraded:no-pr", ""},
		{"locked", answers("POST", fault(403, "Unable to create comment because issue is locked.")), "degraded:locked", "POST"},
		{"too long at any length", func(p *postman) { p.forge.limit = 10 }, "degraded:too-long", "POST POST POST POST"},
		{"5xx for good", answers("GET", fault(502, "Bad Gateway"), fault(502, ""), fault(503, "")), "degraded:network", ""},
		{"429 for longer than we wait", answers("GET", fault(429, "", "Retry-After", "301")), "degraded:rate-limit", ""},
		{"403 with nothing remaining for long", answers("GET", fault(403, "API rate limit exceeded", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1872846000")), "degraded:rate-limit", ""},
		{"redirect to another host", answers("GET", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://localhost.invalid/", http.StatusFound)
		}), "degraded:network", ""},
		{"cut connections", answers("GET", slices.Repeat([]http.HandlerFunc{cut}, 20)...), "degraded:network", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPostman(t)
			tt.spoil(p)
			p.publish(t, tt.want)
			if got := p.forge.writes(); got != tt.writes {
				t.Errorf("writes %q, want %q", got, tt.writes)
			}
		})
	}
}

func answers(method string, faults ...http.HandlerFunc) func(*postman) {
	return func(p *postman) { p.forge.faults[method] = faults }
}

func TestPublishGetsThrough(t *testing.T) {
	at := "Wed, 04 Mar 2026 11:00:20 GMT"
	tests := []struct {
		name   string
		spoil  func(p *postman)
		writes string
		// waits is the least time waited.
		waits time.Duration
	}{
		{"502 once", answers("GET", fault(502, "Bad Gateway")), "POST", time.Second},
		{"429 with seconds", answers("POST", fault(429, "", "Retry-After", "30")), "POST POST", 30 * time.Second},
		{"429 with a date", answers("POST", fault(429, "", "Retry-After", at)), "POST POST", 20 * time.Second},
		{"429 without a time", answers("POST", fault(429, "")), "POST POST", time.Minute},
		{"secondary limit by message only", answers("POST", fault(403, "You have exceeded a secondary rate limit.")), "POST POST", time.Minute},
		{"primary limit until its reset", answers("GET", fault(403, "API rate limit exceeded", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1772622030")), "POST", 30 * time.Second},
		{"an answer that says 0 remaining", answers("GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Reset", "99999999999")
			answer(w, 200, []remark{})
		}), "POST", 0},
		{"500 before the comment was written", answers("POST", fault(500, "")), "POST POST", time.Second},
		{"the token may not ask who it is", func(p *postman) { p.forge.viewer = "" }, "POST", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPostman(t)
			tt.spoil(p)
			p.publish(t, Posted)
			if got := p.forge.writes(); got != tt.writes {
				t.Errorf("writes %q, want %q", got, tt.writes)
			}
			if p.waited < tt.waits || p.waited > tt.waits+2*time.Second {
				t.Errorf("waited %s, want %s", p.waited, tt.waits)
			}
			bodies := p.forge.bodies()
			if len(bodies) != 1 {
				t.Fatalf("%d comments, want 1", len(bodies))
			}
			if _, ok := readMarker(bodies[0]); !ok {
				t.Errorf("the comment cannot be found again:\n%s", bodies[0])
			}
		})
	}
}

// A server that takes less than GitHub does gets half as much each time.
func TestPublishHalvesWhatIsTooLong(t *testing.T) {
	p := newPostman(t)
	p.forge.limit = 20_000
	c, err := p.o.comments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.render = func(_ *marker, budget int) (string, error) { return strings.Repeat("é", budget), nil }
	if state, _, err := c.upsert(t.Context()); state != Posted || err != nil {
		t.Fatalf("%s, %v", state, err)
	}
	if n := units(p.forge.bodies()[0]); n != commentBudget/4 || p.forge.writes() != "POST POST POST" {
		t.Errorf("posted %d units after %q", n, p.forge.writes())
	}
}

// The answer to a POST got lost, and the comment was written: it is not written twice.
func TestPublishLostAnswer(t *testing.T) {
	p := newPostman(t)
	p.forge.faults["POST"] = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
		if body, ok := p.forge.body(w, r); ok {
			p.forge.add(botLogin, "Bot", body)
			cut(w, r)
		}
	}}
	got := p.publish(t, Posted)
	if writes := p.forge.writes(); writes != "POST" || len(p.forge.bodies()) != 1 || !strings.HasSuffix(got.URL, "-101") {
		t.Errorf("writes %q, comments %d, address %q", writes, len(p.forge.bodies()), got.URL)
	}
}

// The comment was deleted between the list and the write.
func TestPublishDeletedMeanwhile(t *testing.T) {
	p := newPostman(t)
	p.publish(t, Posted)
	p.o.Job.RunID = "900"
	p.forge.faults["PATCH"] = []http.HandlerFunc{fault(404, "Not Found")}
	p.publish(t, Posted)
}

// The token goes to the API's host only, also where the GraphQL address is another.
func TestTokenStaysWithItsHost(t *testing.T) {
	p := newPostman(t)
	other := http.NewServeMux()
	seen := 0
	other.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		seen++
		if r.Header.Get("Authorization") != "" {
			t.Error("another host saw the token")
		}
	})
	server := newServer(t, other)
	p.o.Job.GraphQL = server + "/graphql"
	p.publish(t, Posted)
	if seen == 0 {
		t.Error("the other host was never asked; the test proves nothing")
	}
}
