package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestSeveralSwitches(t *testing.T) {
	tests := []struct {
		name       string
		base, head arm
		// note is what the note must say; empty for no note.
		note             string
		baseEnv, headEnv []string
	}{
		{name: "a flag more", head: arm{args: []string{"--prefix-cache"}}},
		{name: "a flag and its opposite", base: arm{args: []string{"--no-prefix-cache"}}, head: arm{args: []string{"--prefix-cache"}}},
		{name: "another value", base: arm{args: []string{"--batch", "8"}}, head: arm{args: []string{"--batch", "16"}}},
		{name: "another value with =", base: arm{args: []string{"--batch=8"}}, head: arm{args: []string{"--batch=16"}}},
		{name: "a negative value", base: arm{args: []string{"--layers", "-1"}}, head: arm{args: []string{"--layers", "8"}}},
		{
			name: "a variable", base: arm{env: map[string]string{"SAME": "x", "MODE": "a"}}, head: arm{env: map[string]string{"SAME": "x", "MODE": "b"}},
			baseEnv: []string{"MODE"}, headEnv: []string{"MODE"},
		},
		{name: "a variable more", head: arm{env: map[string]string{"MODE": "b"}}, headEnv: []string{"MODE"}},
		{
			name: "two flags", head: arm{args: []string{"--prefix-cache", "--batch", "16"}},
			note: "2 switches (--batch, --prefix-cache)",
		},
		{
			name: "a flag and a variable", base: arm{args: []string{"--a", "1", "--b"}}, head: arm{args: []string{"--b", "--a", "2"}, env: map[string]string{"MODE": ""}},
			note: "2 switches (--a, env MODE)", headEnv: []string{"MODE"},
		},
		{name: "words and a flag", head: arm{args: []string{"fast", "-x"}}, note: "2 switches (--x, words)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := &record.Run{Arms: record.Arms{Base: &record.ArmInfo{}, Head: &record.ArmInfo{}}}
			noteSwitches(run, tt.base, tt.head)
			switch {
			case tt.note == "" && len(run.Notes) > 0:
				t.Errorf("noted: %+v", run.Notes)
			case tt.note != "" && (len(run.Notes) != 1 || run.Notes[0].ID != "several_switches" || !strings.Contains(run.Notes[0].Text, tt.note)):
				t.Errorf("notes %+v, want %q", run.Notes, tt.note)
			}
			if diff := cmp.Diff([][]string{tt.baseEnv, tt.headEnv}, [][]string{run.Arms.Base.EnvDiffers, run.Arms.Head.EnvDiffers}); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

// What tailgate never passes is refused where it is asked for, in the same words.
func TestRefusedNamesAreRefusedInTheFile(t *testing.T) {
	for _, name := range []string{"GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "INPUT_KEY", "LD_BIND_NOW"} {
		_, err := parsePolicy([]byte("version: 1\ntarget: {pass_env: [" + name + "]}\n"))
		if err == nil || !strings.Contains(err.Error(), name+" never reaches a build or a server") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
