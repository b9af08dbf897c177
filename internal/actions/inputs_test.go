package actions

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

func inputJob() Job {
	job := aJob()
	job.Temp, job.Workspace = "/runner/tmp", "/home/runner/service"
	return job
}

func TestReadInputsDefaults(t *testing.T) {
	got, err := ReadInputs(lookupIn(nil), inputJob())
	want := Inputs{
		Config: ".tailgate.yaml", Strategy: "merge-base", Comment: CommentAuto, Key: "gate-bench",
		OutputDir: "/runner/tmp/tailgate/812-1-gate-bench",
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestReadInputsAll(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	got, err := ReadInputs(lookupIn(map[string]string{
		"INPUT_CONFIG": "ci/gate.yaml", "INPUT_BASE_STRATEGY": "ref", "INPUT_BASE_REF": " v1.4.0 ", "INPUT_HEAD_REF": "feature/$(id)`x`;é",
		"INPUT_WORKLOAD": "./workloads/chat/", "INPUT_WORKLOAD_DIGEST": digest, "INPUT_ROUNDS": "12", "INPUT_COMMENT": "always",
		"INPUT_COMMENT_KEY": "nightly-2", "INPUT_OUTPUT_DIR": "out/run", "INPUT_SERVICE_ENV": "HF_HOME, VLLM_USE_V1\nMODEL",
	}), inputJob())
	want := Inputs{
		Config: "ci/gate.yaml", Strategy: "ref", BaseRef: "v1.4.0", HeadRef: "feature/$(id)`x`;é", Workload: "workloads/chat", WorkloadDigest: digest,
		Rounds: 12, Comment: CommentAlways, Key: "nightly-2", OutputDir: "/home/runner/service/out/run", ServiceEnv: []string{"HF_HOME", "VLLM_USE_V1", "MODEL"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestReadInputsRefuses(t *testing.T) {
	for _, tt := range []struct{ name, value string }{
		{"config", "/etc/passwd"},
		{"config", "../x.yaml"},
		{"config", "a/../../x"},
		{"config", "a\nb"},
		{"config", "."},
		{"base-strategy", "merge"},
		{"base-strategy", "Ref"},
		{"workload", ".."},
		{"workload-digest", "sha256:abc"},
		{"workload-digest", strings.Repeat("0a", 32)},
		{"gate", "nightly"},
		{"gate", "Release"},
		{"rounds", "2"},
		{"rounds", "13"},
		{"rounds", "4.5"},
		{"rounds", "-4"},
		{"rounds", "four"},
		{"comment", "yes"},
		{"comment", "Auto"},
		{"comment-key", "Gate"},
		{"comment-key", "a--b"},
		{"comment-key", "-a"},
		{"comment-key", "a b"},
		{"comment-key", strings.Repeat("a", 41)},
		{"comment-key", "a --> <b>"},
		{"output-dir", "a\nb"},
		{"service-env", "GITHUB_TOKEN"},
		{"service-env", "ACTIONS_RUNTIME_TOKEN"},
		{"service-env", "INPUT_GITHUB_TOKEN"},
		{"service-env", "A=b"},
		{"service-env", "$(id)"},
	} {
		variable := "INPUT_" + strings.ToUpper(strings.ReplaceAll(tt.name, "-", "_"))
		_, err := ReadInputs(lookupIn(map[string]string{variable: tt.value}), inputJob())
		bad, ok := errors.AsType[*InputError](err)
		if !ok || bad.Name != tt.name || hasControl(err.Error()) {
			t.Errorf("%s: %q: error %v", tt.name, tt.value, err)
		}
	}
}

// A release is judged by a workload that nobody can change beside it.
func TestReleaseNeedsTheDigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for _, tt := range []struct {
		gate, digest string
		fine         bool
	}{{"release", "", false}, {"release", digest, true}, {"pr", "", true}, {"", "", true}} {
		in, err := ReadInputs(lookupIn(map[string]string{"INPUT_GATE": tt.gate, "INPUT_WORKLOAD_DIGEST": tt.digest}), inputJob())
		if (err == nil) != tt.fine || in.Gate != tt.gate {
			t.Errorf("%+v: gate %q, error %v", tt, in.Gate, err)
		}
		if err != nil && !strings.Contains(err.Error(), "workload-digest") {
			t.Errorf("the error does not name the input: %v", err)
		}
	}
}

func TestKeysAreSafeInAMarker(t *testing.T) {
	for names, want := range map[string]string{
		"Gate / GPU bench": "gate-gpu-bench", ".github/workflows/gate.yml bench": "github-workflows-gate-yml-bench", "-- -->": "tailgate", "": "tailgate",
		strings.Repeat("long name ", 9): "long-name-long-name-long-name-long-name", "büro": "b-ro",
	} {
		if got := slug(names); got != want || !keyPattern.MatchString(got) || len(got) > keyLimit {
			t.Errorf("%q became %q, want %q", names, got, want)
		}
	}
}

func jobEnv() map[string]string {
	return map[string]string{
		"GITHUB_OUTPUT": "/o", "GITHUB_REPOSITORY": "acme/service", "GITHUB_RUN_ID": "812", "GITHUB_EVENT_NAME": "push",
		"GITHUB_EVENT_PATH": "/e", "RUNNER_TEMP": "/t", "GITHUB_WORKSPACE": "/w",
	}
}

func TestReadJob(t *testing.T) {
	env := jobEnv()
	env["GITHUB_API_URL"], env["GITHUB_SERVER_URL"], env["GITHUB_RUN_ATTEMPT"] = "https://ghe.example/api/v3/", "https://ghe.example", "3"
	job, err := ReadJob(lookupIn(env))
	if err != nil || job.API != "https://ghe.example/api/v3" || job.URL() != "https://ghe.example/acme/service/actions/runs/812/attempts/3" {
		t.Errorf("%+v, %v", job, err)
	}
	for name := range jobEnv() {
		env := jobEnv()
		delete(env, name)
		if _, err := ReadJob(lookupIn(env)); err == nil || !strings.HasPrefix(err.Error(), name+" is not set") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	for name, value := range map[string]string{"GITHUB_RUN_ID": "12a", "GITHUB_REPOSITORY": "acme", "GITHUB_RUN_ATTEMPT": "0"} {
		env := jobEnv()
		env[name] = value
		if _, err := ReadJob(lookupIn(env)); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
