package actions

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// payload is a pull_request event; spoil changes it.
func payload(spoil func(pull, head, base map[string]any)) map[string]any {
	repo := func() map[string]any { return map[string]any{"full_name": "acme/service"} }
	head := map[string]any{"sha": headCommit, "ref": "change", "repo": repo()}
	base := map[string]any{"sha": strings.Repeat("b", 40), "ref": "release/$(touch x)`id`;\u202e", "repo": repo()}
	pull := map[string]any{"number": 7, "head": head, "base": base}
	if spoil != nil {
		spoil(pull, head, base)
	}
	return map[string]any{"action": "synchronize", "number": 7, "pull_request": pull, "repository": repo()}
}

func eventJob(t *testing.T, name string, event any) Job {
	t.Helper()
	job := aJob()
	job.EventName, job.EventPath = name, filepath.Join(t.TempDir(), "event.json")
	writeJSON(t, job.EventPath, event)
	return job
}

func TestReadEventOfAPullRequest(t *testing.T) {
	got, err := ReadEvent(eventJob(t, "pull_request", payload(nil)))
	want := Event{Name: "pull_request", Pull: &Pull{Number: 7, HeadSHA: headCommit, BaseRef: "release/$(touch x)`id`;\u202e"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestReadEventWithoutAPullRequest(t *testing.T) {
	for _, name := range []string{"push", "workflow_dispatch", "schedule"} {
		if e, err := ReadEvent(eventJob(t, name, map[string]any{})); err != nil || e.Pull != nil {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func TestReadEventRefuses(t *testing.T) {
	for _, name := range []string{"pull_request_target", "workflow_run", "issue_comment", "merge_group", "release", "", "x\n::error::y"} {
		_, err := ReadEvent(eventJob(t, name, payload(nil)))
		if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Reason != RefusedEvent || hasControl(refused.Text) {
			t.Errorf("event %q: %v", name, err)
		}
	}
	forks := map[string]func(pull, head, base map[string]any){
		"fork":                        func(_, head, _ map[string]any) { head["repo"] = map[string]any{"full_name": "mallory/service"} },
		"fork of the same owner name": func(_, head, _ map[string]any) { head["repo"] = map[string]any{"full_name": "acme/service2"} },
		"deleted fork":                func(_, head, _ map[string]any) { head["repo"] = nil },
		"no head":                     func(pull, _, _ map[string]any) { delete(pull, "head") },
	}
	for name, spoil := range forks {
		_, err := ReadEvent(eventJob(t, "pull_request", payload(spoil)))
		if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Reason != RefusedFork {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadEventOfBrokenPayloads(t *testing.T) {
	for name, spoil := range map[string]func(pull, head, base map[string]any){
		"number":   func(pull, _, _ map[string]any) { pull["number"] = 0 },
		"head.sha": func(_, head, _ map[string]any) { head["sha"] = "--upload-pack=evil" },
		"base.ref": func(_, _, base map[string]any) { base["ref"] = strings.Repeat("x", 2000) },
	} {
		if _, err := ReadEvent(eventJob(t, "pull_request", payload(spoil))); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	job := aJob()
	job.EventPath = filepath.Join(t.TempDir(), "missing.json")
	if _, err := ReadEvent(job); err == nil || !strings.HasPrefix(err.Error(), "GITHUB_EVENT_PATH") {
		t.Errorf("missing file: %v", err)
	}
}
