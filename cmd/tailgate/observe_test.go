package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// choosing is a comparison that is about to choose its GPUs, on a machine of two. Nothing is observed any more: only what is
// chosen and said counts.
func choosing(t *testing.T, policy, base, head string, environ ...string) *comparison {
	t.Helper()
	parse := func(text string) *config.File {
		f, err := config.Parse("f", []byte("version: 1\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	c := &comparison{app: &app{environ: environ}, file: parse(policy), arms: map[record.Arm]arm{}, run: &record.Run{ID: "test"}}
	c.run.Environment.GPUs = []record.GPU{{UUID: "GPU-a", Vendor: "NVIDIA", PCI: "0000:02:00.0", MIG: "off"}, {UUID: "GPU-b", Vendor: "NVIDIA", PCI: "0000:01:00.0", MIG: "off"}}
	for name, text := range map[record.Arm]string{record.Base: base, record.Head: head} {
		c.arms[name] = armOf(config.Merge(c.file, parse(text)), name)
	}
	var err error
	if c.writer, err = record.Create(filepath.Join(t.TempDir(), "run"), c.run); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.writer.Close() })
	return c
}

func TestChooseGPUs(t *testing.T) {
	named := "target: {gpus: [GPU-b]}\n"
	tests := []struct {
		name               string
		policy, base, head string
		environ            []string
		want               runner.Devices
		notes              []string
	}{
		{name: "nothing said"},
		{
			name: "the policy's for both", policy: named, base: named, head: named, environ: []string{"CUDA_VISIBLE_DEVICES=0"},
			want: runner.Devices{From: "target.gpus", Visible: []string{"GPU-b"}, Watched: []string{"GPU-b"}},
		},
		{
			name: "a commit's own word", policy: named, base: named, head: "target: {gpus: [GPU-a]}\n",
			want: runner.Devices{From: "target.gpus", Visible: []string{"GPU-b"}, Watched: []string{"GPU-b"}},
			notes: []string{
				"gpus_of_policy: target.gpus of head's commit (GPU-a) is not used: the file that the policy is read from decides for both arms (GPU-b)",
			},
		},
		{
			name: "a change that brings the key", head: named,
			notes: []string{
				"gpus_of_policy: target.gpus of head's commit (GPU-b) is not used: the file that the policy is read from decides for both arms (none named)",
			},
		},
		{
			name: "the job's variable", environ: []string{"CUDA_VISIBLE_DEVICES=0", "CUDA_DEVICE_ORDER=PCI_BUS_ID"},
			want: runner.Devices{From: "CUDA_VISIBLE_DEVICES", Visible: []string{"GPU-b"}, Watched: []string{"GPU-b"}},
		},
		{
			name: "the targets' over the job's", base: "target: {env: {CUDA_VISIBLE_DEVICES: GPU-a}}\n", head: "target: {env: {CUDA_VISIBLE_DEVICES: GPU-a}}\n",
			environ: []string{"CUDA_VISIBLE_DEVICES=GPU-b"},
			want:    runner.Devices{From: "CUDA_VISIBLE_DEVICES", Visible: []string{"GPU-a"}, Watched: []string{"GPU-a"}},
		},
		{
			name: "arms that differ in them", policy: "arms: {head: {env: {CUDA_VISIBLE_DEVICES: \"0,1\"}}}\n", environ: []string{"CUDA_VISIBLE_DEVICES=0"},
			notes: []string{
				"gpus_differ: base and head are told of different GPUs by their environment: no one set is both servers', so all of this machine are watched",
			},
		},
		{name: "sets of their own", policy: "rounds: {mode: resident}\nresident: {gpus: {base: [GPU-a], head: [GPU-b]}}\nreset: {path: /r}\n", environ: []string{"CUDA_VISIBLE_DEVICES=7"}},
		{name: "somebody else's servers", policy: "target: {url: {base: \"http://a\", head: \"http://b\"}}\nreset: none\n", environ: []string{"CUDA_VISIBLE_DEVICES=7"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := choosing(t, tt.policy, tt.base, tt.head, tt.environ...)
			if err := c.chooseGPUs(nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, c.devices); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var notes []string
			for _, n := range c.run.Notes {
				notes = append(notes, n.ID+": "+n.Text)
			}
			if !slices.Equal(notes, tt.notes) {
				t.Errorf("notes %q, want %q", notes, tt.notes)
			}
		})
	}
}

// A commit's own target may not say by a variable what the policy says by name: it would be overruled without a word.
func TestOneWordOnGPUs(t *testing.T) {
	c := choosing(t, "target: {gpus: [GPU-b]}\n", "", "")
	c.revisions.Head.Commit = "0123456789abcdef"
	variable, err := config.Parse("f", []byte("version: 1\ntarget: {env: {CUDA_VISIBLE_DEVICES: 1}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	err = c.oneWordOnGPUs(config.Merge(c.file, variable), record.Head)
	if err == nil || !strings.Contains(err.Error(), "target.gpus: CUDA_VISIBLE_DEVICES is set in target.env of commit 0123456789ab too") {
		t.Errorf("%v", err)
	}
	if err := c.oneWordOnGPUs(c.file, record.Head); err != nil {
		t.Errorf("without a variable: %v", err)
	}
	c.file.Target.GPUs = nil
	if err := c.oneWordOnGPUs(variable, record.Head); err != nil {
		t.Errorf("without target.gpus: %v", err)
	}
}
