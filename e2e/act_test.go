package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/workload"
)

// actToken is the canary: it must reach GitHub's API and nothing that is measured.
const actToken = "ghs_canary0123456789abcdefghijklmnop"

// TestE2EActPullRequest runs the action as a job does, with nektos/act in host mode and an API of our own: a pull request whose
// head computes prompts more slowly fails, the comment arrives, and a second run writes the same comment again.
func TestE2EActPullRequest(t *testing.T) {
	requireE2E(t)
	act, err := exec.LookPath("act")
	if err != nil {
		t.Fatal("act is not on PATH: go install github.com/nektos/act@v0.2.89")
	}
	api := newForge(t)
	repo := actRepository(t)

	first := runAct(t, act, repo, api, 1001)
	if first.code == 0 {
		t.Error("act exits 0 although head is slower")
	}
	wantSaid(t, first, "verdict=fail publish-status=posted", "exit status 1")
	posted := api.only(t)
	for i, line := range strings.SplitN(posted.Body, "\n", 4)[:3] {
		t.Logf("comment, line %d: %s", i+1, line)
	}
	if !strings.HasPrefix(posted.Body, "**❌ FAIL** — TTFT p50 ") || !strings.Contains(posted.Body, "\n<!-- tailgate key=gate-bench run=1001 ") {
		t.Errorf("not the report of a failure:\n%s", posted.Body)
	}
	if strings.Contains(first.log, actToken) {
		t.Error("the token is in the log")
	}

	second := runAct(t, act, repo, api, 1002)
	wantSaid(t, second, "verdict=fail publish-status=updated")
	updated := api.only(t)
	if updated.ID != posted.ID || !strings.Contains(updated.Body, "run=1002 ") || !strings.Contains(updated.Body, ":fail:1001 -->") {
		t.Errorf("comment %d became %d:\n%s", posted.ID, updated.ID, updated.Body)
	}
	if got := strings.Join(api.writes(), " "); got != "POST PATCH" {
		t.Errorf("writes %q, want POST PATCH", got)
	}
}

// actRepository is a service with a branch, and the action beside it. The policy gates one metric with a wide margin, so that a
// session is short; the server's build looks for the token.
func actRepository(t *testing.T) string {
	t.Helper()
	repo := t.TempDir()
	for _, name := range []string{"action.yml", "VERSION", "scripts/locate.sh"} {
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, repo, filepath.Join(".gate", name), string(text))
	}
	write(t, repo, ".tailgate.yaml", fmt.Sprintf(actPolicy, tailgate(t)))
	write(t, repo, ".gitignore", "/out/\n")
	write(t, repo, ".github/workflows/gate.yml", fmt.Sprintf(actWorkflow, tailgate(t)))
	if err := workload.Write(filepath.Join(repo, "workload"), actWorkload(t)); err != nil {
		t.Fatal(err)
	}
	for i, prefill := range []string{"1ms", "1.4ms"} {
		if i == 1 {
			command(t, repo, "git", "switch", "-q", "-c", "change")
			// A pull request cannot loosen its own gate.
			write(t, repo, ".tailgate.yaml", strings.Replace(fmt.Sprintf(actPolicy, tailgate(t)), "20%", "90%", 1))
		} else {
			command(t, repo, "git", "init", "-q", "-b", "main")
		}
		write(t, repo, "sim.json", fmt.Sprintf(`{"revision": "%d", "prefill_per_token": %q}`+"\n", i, prefill))
		command(t, repo, "git", "add", "-A")
		command(t, repo, "git", "commit", "-q", "-m", "Serve at "+prefill+" a token")
	}
	return repo
}

const actPolicy = `version: 1
target:
  build: mkdir -p out && cp sim.json out/ && ! env | grep -E 'canary|GITHUB_|INPUT_'
  outputs: [out/**]
  start: exec %q sim --config out/sim.json --port "$PORT"
  ready: {path: /health, timeout: 10s}
  stop: {grace: 2s}
workload: workload
load: {measure: 2s, self_test: 200ms}
warmup: {window: 100ms, windows: 5, band: 50%%, trend: 50%%, trend_windows: 5, cap: 5s}
rounds: {min: 3, max: 3, max_void: 10}
conditioning: {base: 0s, head_max: 0s}
cooldown: {pause: 0s}
tolerance:
  ttft_p50: {relative: 20%%, force: true}
telemetry: {gpu: off}
`

const actWorkflow = `name: gate
on: pull_request
permissions: {contents: read, pull-requests: write}
jobs:
  bench:
    runs-on: self-hosted
    steps:
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2
        with: {fetch-depth: 0, persist-credentials: false}
      - id: gate
        uses: ./.gate
        with:
          binary-path: %s
      - if: always()
        env:
          VERDICT: ${{ steps.gate.outputs.verdict }}
          STATUS: ${{ steps.gate.outputs.publish-status }}
        run: echo "verdict=$VERDICT publish-status=$STATUS ."
`

// actWorkload is 50 requests of 40 tokens a second.
func actWorkload(t *testing.T) *workload.Workload {
	t.Helper()
	const gap, count = 20 * time.Millisecond, 400
	turns := make([]workload.Turn, count)
	for i := range turns {
		id := fmt.Sprintf("r%03d", i)
		turns[i] = workload.Turn{
			ID: id, Conv: id, N: 1, At: time.Duration(i) * gap, InTokens: 40,
			Prompt: &workload.Text{Inline: id + strings.Repeat(" word", 39)}, Out: workload.Output{Mode: workload.Force, Tokens: 4},
		}
	}
	w, err := workload.New(workload.Manifest{
		Name: "short", Version: 1, Seed: "1", Source: workload.Source{Importer: "synthetic"},
		Arrivals: workload.Arrivals{Kind: "generated", SpanNS: int64(count * gap)}, Output: workload.OutputPolicy{Mode: workload.Force},
	}, turns, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

type actRun struct {
	code int
	log  string
}

// wantSaid holds a log to what it must say.
func wantSaid(t *testing.T, r actRun, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.log, text) {
			t.Fatalf("the log does not say %q:\n%s", text, r.log)
		}
	}
}

// runAct runs the workflow on a pull_request event, with an environment of its own and no network but the forge's.
func runAct(t *testing.T, act, repo string, api *forge, run int) actRun {
	t.Helper()
	head, base := command(t, repo, "git", "rev-parse", "change"), command(t, repo, "git", "rev-parse", "main")
	here := map[string]any{"full_name": "acme/service", "name": "service", "owner": map[string]any{"login": "acme"}}
	event, err := json.Marshal(map[string]any{
		"action": "synchronize", "number": 7, "repository": here,
		"pull_request": map[string]any{
			"number": 7, "head": map[string]any{"sha": head, "ref": "change", "repo": here},
			"base": map[string]any{"sha": base, "ref": "main", "repo": here},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	write(t, home, "event.json", string(event))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, act, "pull_request", "--eventpath", filepath.Join(home, "event.json"), "-P", "self-hosted=-self-hosted",
		"--env", "GITHUB_API_URL="+api.URL, "--env", "GITHUB_GRAPHQL_URL="+api.URL+"/graphql", "--env", fmt.Sprintf("GITHUB_RUN_ID=%d", run),
		"--env", "GITHUB_REPOSITORY=acme/service", "-s", "GITHUB_TOKEN="+actToken, "--action-offline-mode")
	cmd.Dir = repo
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CACHE_HOME=" + filepath.Join(home, ".cache"), "GIT_CONFIG_GLOBAL=/dev/null"}
	out, err := cmd.CombinedOutput()
	r := actRun{log: string(out)}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		r.code = exit.ExitCode()
	} else if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

// forge is as much of GitHub's API as the action needs: the comments of pull request 7.
type forge struct {
	*httptest.Server
	mu       sync.Mutex
	comments []forgeComment
	methods  []string
}

type forgeComment struct {
	ID   int64             `json:"id"`
	Body string            `json:"body"`
	URL  string            `json:"html_url"`
	User map[string]string `json:"user"`
}

func newForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{}
	list := "/repos/acme/service/issues/7/comments"
	mux := http.NewServeMux()
	mux.HandleFunc("POST /graphql", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":{"viewer":{"login":"github-actions[bot]"}}}`)
	})
	mux.HandleFunc("GET "+list, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(f.comments)
	})
	mux.HandleFunc("POST "+list, func(w http.ResponseWriter, r *http.Request) {
		id := int64(9000 + len(f.comments))
		f.comments = append(f.comments, forgeComment{
			ID: id, Body: bodyOf(t, r), URL: fmt.Sprintf("https://github.com/acme/service/pull/7#issuecomment-%d", id),
			User: map[string]string{"login": "github-actions[bot]", "type": "Bot"},
		})
		f.methods = append(f.methods, "POST")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(f.comments[len(f.comments)-1])
	})
	mux.HandleFunc("PATCH /repos/acme/service/issues/comments/9000", func(w http.ResponseWriter, r *http.Request) {
		f.comments[0].Body = bodyOf(t, r)
		f.methods = append(f.methods, "PATCH")
		_ = json.NewEncoder(w).Encode(f.comments[0])
	})
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+actToken {
			t.Errorf("%s %s without the token", r.Method, r.URL)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func bodyOf(t *testing.T, r *http.Request) string {
	t.Helper()
	var sent struct{ Body string }
	var text bytes.Buffer
	_, err := text.ReadFrom(r.Body)
	if err == nil {
		err = json.Unmarshal(text.Bytes(), &sent)
	}
	if err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	return sent.Body
}

// only is the one comment there must be.
func (f *forge) only(t *testing.T) forgeComment {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.comments) != 1 {
		t.Fatalf("%d comments, want 1", len(f.comments))
	}
	return f.comments[0]
}

func (f *forge) writes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.methods...)
}
