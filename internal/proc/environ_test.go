package proc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func lookupIn(env map[string]string) (func(string) (string, bool), []string) {
	var all []string
	for name, value := range env {
		all = append(all, name+"="+value)
	}
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }, all
}

func TestEnviron(t *testing.T) {
	ours := map[string]string{
		"PATH": "/bin", "HOME": "/home/u", "LC_ALL": "C.UTF-8", "NVIDIA_VISIBLE_DEVICES": "all", "HTTPS_PROXY": "http://p",
		"CI": "false", "TERM": "xterm", "TMPDIR": "/var/tmp", "LD_BIND_NOW": "1", "RUNNER_TRACKING_ID": "r1",
		"MODEL_PATH": "/models", "SSH_AUTH_SOCK": "/s", "LD_PRELOAD": "x.so",
		// canaries: none of them may reach a build or a server
		"GITHUB_TOKEN": "ghs_canary", "ACTIONS_RUNTIME_TOKEN": "canary", "INPUT_GITHUB_TOKEN": "canary", "GH_TOKEN": "canary",
		"AWS_SECRET_ACCESS_KEY": "canary", "RUNNER_TEMP": "/t", "GIT_DIR": "/elsewhere",
	}
	common := []string{
		"CI=true", "HOME=/home/u", "LC_ALL=C.UTF-8", "NVIDIA_VISIBLE_DEVICES=all", "PATH=/bin", "RUNNER_TRACKING_ID=r1",
		"TERM=dumb",
	}
	tests := []struct {
		name  string
		kind  Kind
		extra map[string]string
		pass  []string
		want  []string // on top of common
	}{
		{name: "server", kind: Server},
		{name: "sensor", kind: Sensor},
		{name: "build sees the proxy", kind: Build, want: []string{"HTTPS_PROXY=http://p"}},
		{name: "passed by name", kind: Server, pass: []string{"MODEL_PATH", "UNSET"}, want: []string{"MODEL_PATH=/models"}},
		{name: "never passed", kind: Server, pass: []string{"GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "INPUT_GITHUB_TOKEN", "LD_BIND_NOW"}},
		{name: "extra wins", kind: Server, extra: map[string]string{"PORT": "12345", "MODEL_PATH": "/m"}, pass: []string{"MODEL_PATH"}, want: []string{"MODEL_PATH=/m", "PORT=12345"}},
		{name: "LD_BIND_NOW not even as extra", kind: Server, extra: map[string]string{"LD_BIND_NOW": "1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lookup, all := lookupIn(ours)
			got := Environ(lookup, all, tt.kind, tt.extra, tt.pass)
			if diff := cmp.Diff(merged(common, tt.want), got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			if s := strings.Join(got, "\n"); strings.Contains(s, "canary") {
				t.Errorf("a canary reached the child:\n%s", s)
			}
		})
	}
}

// merged joins two sorted lists into one.
func merged(a, b []string) []string {
	var out []string
	for len(a) > 0 || len(b) > 0 {
		if len(b) == 0 || (len(a) > 0 && a[0] < b[0]) {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return out
}

func TestLookupTakesTheLast(t *testing.T) {
	env := []string{"A=1", "B=x=y", "A=2", "BROKEN"}
	for name, want := range map[string]string{"A": "2", "B": "x=y"} {
		if got, ok := Lookup(env, name); !ok || got != want {
			t.Errorf("Lookup(%s) = %q, %v; want %q", name, got, ok, want)
		}
	}
	if _, ok := Lookup(env, "BROKEN"); ok {
		t.Error("an entry without = has no value")
	}
}

func TestMask(t *testing.T) {
	m := NewMask([]string{
		"HF_TOKEN=hf_abcdef", "api_key=hf_abcdef-longer", "PASSWORD=short", "PEM_SECRET=line-one\nline-two\nx", "MODEL=tinyllama",
	})
	tests := map[string]string{
		"uses hf_abcdef now":     "uses *** now",
		"uses hf_abcdef-longer":  "uses ***", // the longer value goes whole
		"short":                  "short",    // 5 bytes
		"tinyllama":              "tinyllama",
		"saw line-two in a log":  "saw *** in a log",
		"line-one\nline-two\nx!": "***!",
	}
	for in, want := range tests {
		if got := m.String(in); got != want {
			t.Errorf("mask(%q) = %q, want %q", in, got, want)
		}
	}
	if got := (*Mask)(nil).String("as is"); got != "as is" {
		t.Errorf("nil mask: %q", got)
	}
}
