package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/tailgate-ci/tailgate/baseline/build"
	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// policySource says where .tailgate.yaml and the workload are read from. A pull request is judged by the file at the tip
// of its target branch, so that it cannot loosen its own gate; a terminal uses the working tree.
type policySource struct {
	// path is relative to the repository.
	path string
	// commit is the 40-hex commit to read from; empty for the working tree.
	commit string
	// fallback is used when commit has no such file: the first policy of a repository. Empty: none.
	fallback string

	text  []byte
	first bool
}

// read finds and parses the file.
func (p *policySource) read(ctx context.Context, repo string) (*config.File, error) {
	text, err := p.bytes(ctx, repo, p.commit, p.path)
	if errors.Is(err, fs.ErrNotExist) && p.fallback != "" {
		p.first = true
		p.commit = p.fallback
		text, err = p.bytes(ctx, repo, p.commit, p.path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage(fmt.Errorf("%s: no such file%s", p.path, p.where()), "write one (docs/configuration.md lists its keys), or name it with --config")
	}
	if err != nil {
		return nil, err
	}
	p.text = text
	f, err := config.Parse(p.path, text)
	if err != nil {
		return nil, usage(err, "")
	}
	return f, nil
}

func (p *policySource) where() string {
	if p.commit == "" {
		return ""
	}
	return fmt.Sprintf(" at commit %.12s", p.commit)
}

// bytes reads a file of the repository at a commit; of the working tree when commit is empty.
func (p *policySource) bytes(ctx context.Context, repo, commit, name string) ([]byte, error) {
	if commit == "" {
		return os.ReadFile(p.inTree(repo, name))
	}
	return build.FileAt(ctx, repo, commit, name)
}

// noCalibration is what verdict.calibration says for none.
const noCalibration = "off"

// calibration reads the calibration the policy names from where the policy came from, with its bytes; nil when it names none.
func (p *policySource) calibration(ctx context.Context, repo string, f *config.File) (*record.Calibration, []byte, error) {
	name := f.Verdict.Calibration
	if name == noCalibration {
		return nil, nil, nil
	}
	if p.commit != "" && filepath.IsAbs(name) {
		return nil, nil, usage(fmt.Errorf("verdict.calibration: %s lies outside the repository, where a change that is judged could have written it", name),
			"commit the file and name it by its path in the repository")
	}
	text, err := p.bytes(ctx, repo, p.commit, filepath.ToSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, usage(fmt.Errorf("verdict.calibration: %s: no such file%s", name, p.where()), "make one with `tailgate calibrate`, or write off in "+p.path)
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := record.ReadCalibration(name, text)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("verdict.calibration: %w", err), "make it again with `tailgate calibrate --from RUN`")
	}
	return c, text, nil
}

func (p *policySource) inTree(repo, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(repo, name)
}

// target is the file with the target of the arm's own commit: a change may rename its binary. From the working tree,
// policy and target are one file.
func (p *policySource) target(ctx context.Context, repo string, policy *config.File, commit string) (*config.File, error) {
	if p.commit == "" {
		return policy, nil
	}
	text, err := p.bytes(ctx, repo, commit, p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return policy, nil
	}
	if err != nil {
		return nil, err
	}
	own, err := config.Parse(p.path, text)
	if err != nil {
		return nil, usage(err, fmt.Sprintf("the target section is read from commit %.12s", commit))
	}
	return config.Merge(policy, own), nil
}

// workloadFiles are the files a workload folder may hold.
var workloadFiles = []string{"manifest.json", "turns.jsonl", "turns.jsonl.gz", "texts.jsonl", "texts.jsonl.gz"}

// workload opens the policy's workload from where the policy came from.
func (p *policySource) workload(ctx context.Context, repo string, f *config.File) (*workload.Workload, error) {
	dir := p.inTree(repo, f.Workload)
	if p.commit != "" {
		tmp, err := os.MkdirTemp("", "tailgate-workload-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(tmp) //nolint:errcheck // a leftover in the temporary folder harms nobody
		if err := p.materialise(ctx, repo, f.Workload, tmp); err != nil {
			return nil, err
		}
		dir = tmp
	}
	w, err := workload.Open(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage(fmt.Errorf("workload %s: not found%s", f.Workload, p.where()), "check the key workload in "+p.path+", or make one with `tailgate workload build`")
	case err != nil:
		return nil, usage(err, "check it with `tailgate workload check "+f.Workload+"`")
	}
	return w, nil
}

// materialise writes the workload's files, as they stand at the policy's commit, into dir.
func (p *policySource) materialise(ctx context.Context, repo, name, dir string) error {
	for _, file := range workloadFiles {
		data, err := build.FileAt(ctx, repo, p.commit, path.Join(filepath.ToSlash(name), file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
