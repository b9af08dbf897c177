package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/internal/config"
)

// Each policy spells canaries out, and has a word that must stay.
var secretPolicies = map[string]struct {
	text, stays string
	// arms says that a secret is part of what the digest covers.
	arms bool
}{
	"target.env": {"version: 1\ntarget:\n  env: {HF_TOKEN: canary-1, MODEL: small, DB_PASSWORD: 'canary-2', short_key: cana}\n  start: ./serve\nworkload: w\n", "MODEL: small", false},
	"repeated": {
		"version: 1 # with canary-1\ntarget:\n  build: make KEY=canary-1 # canary-1\n  start: |\n    export X=\"canary-1\"\n    exec ./serve\n  toolchain: [\"echo canary-1\"]\n" +
			"  stop_command: kill canary-1\n  pids: echo canary-1\n  image_digest: echo canary-1\n  env:\n    URL: http://x/?canary-1\n    API_KEY: \"canary-1\"\n", "exec ./serve", false,
	},
	"over lines":      {"version: 1\ntarget:\n  env:\n    TLS_KEY: |\n      canary-first\n      canary-second\n    B: stays\n  start: echo canary-second\n", "B: stays", false},
	"arms":            {"version: 1\narms:\n  base: {env: {A_SECRET: canary-1}, args: [--key, canary-1]}\n  head:\n    env: {A_SECRET: canary-2}\n    args: [--key=canary-2, --fast]\nworkload: w\n", "--fast", true},
	"urls":            {"version: 1 # http://a.example/?k=canary\ntarget:\n  url: {base: \"http://a.example/?k=canary\", head: 'http://b.example/?k=canary'}\nreset: none\n", "http://a.example/?k=***", false},
	"an escaped URL":  {"version: 1\ntarget:\n  url: {base: \"http://a.example/?k=can\\u0061ry\", head: \"http://b.example\"}\nreset: none\n", "http://b.example", false},
	"a number":        {"version: 1\ntarget: {env: {PIN_KEY: 8372615}, start: serve 8372615}\n", "start:", false},
	"a document mark": {"# ours\n---\nversion: 1\ntarget: {env: {API_KEY: canary}}\nworkload: stays\n", "workload: stays", false},
}

func TestStoredPolicyHidesSecrets(t *testing.T) {
	for name, c := range secretPolicies {
		kept, err := storedPolicy("p.yaml", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(string(kept), "cana") || strings.Contains(string(kept), "8372615") || strings.Contains(string(kept), "u0061") {
			t.Errorf("%s: a secret is kept:\n%s", name, kept)
		}
		if !strings.Contains(string(kept), c.stays) || strings.Count(string(kept), maskedLine) != 1 {
			t.Errorf("%s: %q is lost, or not said what is masked:\n%s", name, c.stays, kept)
		}
		wantJudgesAlike(t, name, c.text, string(kept), c.arms)
		again, err := storedPolicy("p.yaml", kept)
		if err != nil || !bytes.Equal(again, kept) {
			t.Errorf("%s: kept twice it is\n%s\n%v", name, again, err)
		}
	}
}

// wantJudgesAlike holds that the copy says all that a verdict depends on. Its own digest is another only where arms have secrets.
func wantJudgesAlike(t *testing.T, name, original, kept string, arms bool) {
	t.Helper()
	before, err := config.Parse("p.yaml", []byte(original))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	after, err := config.Parse("policy.yaml", []byte(kept))
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, kept)
	}
	x, y := policyOf(before, "off"), policyOf(after, "off")
	if (x.SHA256 != y.SHA256) != arms {
		t.Errorf("%s: digests %s and %s", name, x.SHA256, y.SHA256)
	}
	y.SHA256 = x.SHA256
	if diff := cmp.Diff(x, y); diff != "" {
		t.Errorf("%s: the copy judges otherwise: %s", name, diff)
	}
}

// What has no secret is kept as it was read, whatever its form.
func TestStoredPolicyKeepsTheRest(t *testing.T) {
	for _, text := range []string{
		servicePolicy, "version: 1   \r\n\r\n# a comment\r\nworkload:  'w'", "version: 1\ntarget: {env: {MODEL: small, API_KEY: \"\"}}\n",
		"version: 1\ntarget:\n  url: {base: http://a.example/v1, head: http://b.example/v1}\nreset: none\n",
	} {
		if kept, err := storedPolicy("p.yaml", []byte(text)); err != nil || string(kept) != text {
			t.Errorf("%q became %q, %v", text, kept, err)
		}
	}
}

// A policy that has no room for what is to be said of it is refused before anything is measured, and the error says what to do.
func TestStoredPolicyNeedsRoom(t *testing.T) {
	text := "version: 1\ntarget: {env: {API_KEY: canary}}\n#"
	text += strings.Repeat("x", 64<<10-len(text))
	_, err := storedPolicy("p.yaml", []byte(text))
	exit, ok := errors.AsType[*exitError](err)
	if !ok || exit.code != 2 || !strings.Contains(err.Error(), "masked") || !strings.Contains(exit.hint, "target.pass_env") || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
}

func TestSameFile(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "other.yaml")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.WriteFile(other, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for b, want := range map[string]bool{path: true, filepath.Join(dir, "..", filepath.Base(dir), "policy.yaml"): true, other: false, "": false, filepath.Join(dir, "none"): false} {
		if sameFile(b, path) != want {
			t.Errorf("%q and %q: %t", b, path, !want)
		}
	}
}
