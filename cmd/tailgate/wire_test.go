package main

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// What the file says of a target reaches the runner, with what each arm has of its own.
func TestTargetOfTheFile(t *testing.T) {
	f, err := parsePolicy([]byte(`version: 1
target:
  start: ./server
  ready: {path: /health, timeout: 5m}
  stop: {signal: SIGINT, grace: 7s, required: clean, memory_timeout: 90s}
  stop_command: ./stop.sh
  pids: cat pids
arms:
  base: {args: [--off]}
  head: {args: [--on], ready: {timeout: 20m}}
`))
	if err != nil {
		t.Fatal(err)
	}
	a := &app{environ: []string{"PATH=/bin", "GITHUB_TOKEN=canary"}}
	for name, timeout := range map[record.Arm]time.Duration{record.Base: 5 * time.Minute, record.Head: 20 * time.Minute} {
		got := a.targetOf(armOf(f, name), "/work", "run-7")
		if got.ReadyTimeout != timeout || got.ReadyPath != "/health" || got.Signal != syscall.SIGINT || got.Grace != 7*time.Second {
			t.Errorf("%s: %+v", name, got)
		}
		if got.StopCommand != "./stop.sh" || got.PIDs != "cat pids" || !got.CleanStop || got.MemoryTimeout != 90*time.Second {
			t.Errorf("%s: %+v", name, got)
		}
		if !slices.Contains(got.Env, "TAILGATE_RUN=run-7") || slices.Contains(got.Env, "GITHUB_TOKEN=canary") {
			t.Errorf("%s: environment %q", name, got.Env)
		}
	}
}

// What is on record of a start repeats no secret of the arm, its own or one passed on; the server gets the words themselves.
func TestShownCommandIsMasked(t *testing.T) {
	a := &app{environ: []string{"PATH=/bin", "HF_TOKEN=canary-passed"}}
	words := []string{"--key", "canary-own", "--name=x"}
	got := arm{
		target: config.Target{Start: "serve canary-own canary-passed", PassEnv: []string{"HF_TOKEN"}}, args: words,
		env: map[string]string{"API_KEY": "canary-own", "MODEL": "serve"},
	}
	start, args := a.shownCommand(got, "run")
	if want := []string{"--key", "***", "--name=x"}; start != "serve *** ***" || !slices.Equal(args, want) {
		t.Errorf("shown %q %q, want %q", start, args, want)
	}
	if words[1] != "canary-own" || a.targetOf(got, "/w", "run").Start != "serve canary-own canary-passed" {
		t.Error("the command itself was changed")
	}
}
