package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// policy makes a session of six rounds of about two seconds.
const policy = `version: 1
target:
  build: mkdir -p out && cp sim.json out/
  outputs: [out/**]
  start: exec %s sim --config out/sim.json --port "$PORT"
  ready: {path: /health, timeout: 30s}
  stop: {grace: 1s}
workload: workload
load: {measure: 1s, self_test: 0s}
warmup: {window: 100ms, windows: 5, band: 50%%, trend: 50%%, trend_windows: 5, cap: 5s}
rounds: {min: 3, max: 3, max_void: 6}
conditioning: {base: 0s, head_max: 0s}
cooldown: {pause: 0s}
tolerance:
  ttft_p50: {relative: 60%%, force: true}
drift: {max_base: 50%%}
telemetry: {gpu: off}
`

// repository makes the service: two commits of a simulated server, deaf to SIGTERM with two deaf children or well-behaved.
func (s *session) repository(ctx context.Context, deaf bool) error {
	if err := os.MkdirAll(s.repo, 0o700); err != nil {
		return err
	}
	w, err := requests()
	if err != nil {
		return err
	}
	if err := workload.Write(filepath.Join(s.repo, "workload"), w); err != nil {
		return err
	}
	files := map[string]string{".tailgate.yaml": fmt.Sprintf(policy, proc.Quote(s.chaos.Binary)), ".gitignore": "/out/\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.repo, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := s.git(ctx, "init", "-q", "-b", "main"); err != nil {
		return err
	}
	manners := ""
	if deaf {
		manners = `, "ignore_sigterm": true, "children": {"count": 2, "ignore_sigterm": true}`
	}
	for i, subject := range []string{"Serve", "Change nothing that matters"} {
		text := fmt.Sprintf(`{"revision": "%d", "prefill_per_token": "1ms"%s}`+"\n", i+1, manners)
		if err := os.WriteFile(filepath.Join(s.repo, "sim.json"), []byte(text), 0o600); err != nil {
			return err
		}
		if err := s.git(ctx, "add", "-A"); err != nil {
			return err
		}
		if err := s.git(ctx, "commit", "-q", "-m", subject); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.repo
	cmd.Env = append([]string{"GIT_AUTHOR_NAME=c", "GIT_AUTHOR_EMAIL=c@example.com", "GIT_COMMITTER_NAME=c", "GIT_COMMITTER_EMAIL=c@example.com"}, s.env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, text)
	}
	return nil
}

// requests is a workload of 20 requests a second for five seconds: little, so that a busy machine can send it in time.
func requests() (*workload.Workload, error) {
	const gap, count = 50 * time.Millisecond, 100
	turns := make([]workload.Turn, count)
	for i := range turns {
		id := fmt.Sprintf("r%03d", i)
		turns[i] = workload.Turn{
			ID: id, Conv: id, N: 1, At: time.Duration(i) * gap, InTokens: 40,
			Prompt: &workload.Text{Inline: id + strings.Repeat(" word", 39)}, Out: workload.Output{Mode: workload.Force, Tokens: 4},
		}
	}
	return workload.New(workload.Manifest{
		Name: "chaos", Version: 1, Seed: "1", Source: workload.Source{Importer: "synthetic"},
		Arrivals: workload.Arrivals{Kind: "generated", SpanNS: int64(count * gap)}, Output: workload.OutputPolicy{Mode: workload.Force},
	}, turns, nil)
}
