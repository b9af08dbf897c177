package actions

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// manifest is action.yml as far as the policy goes.
type manifest struct {
	Inputs map[string]struct {
		Description string `yaml:"description"`
		Default     string `yaml:"default"`
	} `yaml:"inputs"`
	Outputs map[string]struct {
		Value string `yaml:"value"`
	} `yaml:"outputs"`
	Runs struct {
		Using string         `yaml:"using"`
		Steps []manifestStep `yaml:"steps"`
	} `yaml:"runs"`
}

type manifestStep struct {
	ID    string            `yaml:"id"`
	If    string            `yaml:"if"`
	Shell string            `yaml:"shell"`
	Run   string            `yaml:"run"`
	Uses  string            `yaml:"uses"`
	Env   map[string]string `yaml:"env"`
}

func readManifest(t *testing.T) (manifest, string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := yaml.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m, string(text)
}

// breaches lists what breaks the rules of the action: no expression in a script, one line and exec, the token in the publish
// step alone, no environment file, no foreign action.
func breaches(m manifest) []string {
	var found []string
	for _, s := range m.Runs.Steps {
		say := func(what string) { found = append(found, s.ID+": "+what) }
		if strings.Contains(s.Run, "${{") {
			say("an expression in run")
		}
		if strings.Contains(strings.TrimSpace(s.Run), "\n") || !strings.HasPrefix(s.Run, "exec ") {
			say("run is not one line that begins with exec")
		}
		if strings.Contains(s.Run, "GITHUB_ENV") || strings.Contains(s.Run, "GITHUB_PATH") {
			say("writes the environment of later steps")
		}
		if s.Uses != "" {
			say("uses another action")
		}
		for name, value := range s.Env {
			secret := regexp.MustCompile(`(?i)token|secret|github\.`).MatchString(value)
			if secret && (s.ID != "publish" || name != "INPUT_GITHUB_TOKEN") {
				say(name + " holds a secret")
			}
		}
	}
	return found
}

func TestActionKeepsItsRules(t *testing.T) {
	m, text := readManifest(t)
	if m.Runs.Using != "composite" || len(m.Runs.Steps) != 4 {
		t.Fatalf("read %+v", m.Runs)
	}
	for _, b := range breaches(m) {
		t.Error(b)
	}
	// runner: inside a container this expression names a path that does not exist.
	if strings.Contains(text, "github.action_path") {
		t.Error("use $GITHUB_ACTION_PATH")
	}
	if cleanup := m.Runs.Steps[2]; cleanup.ID != "cleanup" || !strings.HasPrefix(cleanup.If, "always()") || len(cleanup.Env) != 1 {
		t.Errorf("between measuring and publishing stands %+v, want the cleanup", cleanup)
	}
	if last := m.Runs.Steps[3]; !strings.HasPrefix(last.If, "always()") || last.Env["INPUT_GITHUB_TOKEN"] != "${{ inputs.github-token }}" {
		t.Errorf("publish: %+v", last)
	}
}

func TestActionRulesCanBreak(t *testing.T) {
	for _, s := range []manifestStep{
		{ID: "run", Run: `exec tailgate "${{ inputs.base-ref }}"`},
		{ID: "run", Run: "exec a\nexec b"},
		{ID: "run", Run: "tailgate action run"},
		{ID: "run", Run: "exec a", Env: map[string]string{"INPUT_GITHUB_TOKEN": "${{ inputs.github-token }}"}},
		{ID: "locate", Run: "exec a", Env: map[string]string{"X": "${{ github.token }}"}},
		{ID: "publish", Run: "exec a", Env: map[string]string{"GITHUB_TOKEN": "${{ secrets.PAT }}"}},
		{ID: "run", Run: `exec sh -c 'echo >>"$GITHUB_ENV"'`},
		{ID: "run", Run: "exec a", Uses: "actions/cache@v4"},
	} {
		var m manifest
		m.Runs.Steps = []manifestStep{s}
		if len(breaches(m)) != 1 {
			t.Errorf("%+v: breaches %q, want one", s, breaches(m))
		}
	}
}

// Every input is mapped to the variable that its name gives, every variable comes from an input, and every input is read.
func TestActionMapsEveryInput(t *testing.T) {
	m, _ := readManifest(t)
	mapped := map[string]bool{}
	for _, s := range m.Runs.Steps {
		for name, value := range s.Env {
			if input, ok := strings.CutPrefix(name, "INPUT_"); ok {
				kebab := strings.ToLower(strings.ReplaceAll(input, "_", "-"))
				mapped[kebab] = true
				if value != "${{ inputs."+kebab+" }}" {
					t.Errorf("%s: %s is %s", s.ID, name, value)
				}
			}
		}
	}
	declared := slices.Sorted(maps.Keys(m.Inputs))
	if diff := cmp.Diff(declared, slices.Sorted(maps.Keys(mapped))); diff != "" {
		t.Errorf("declared and mapped differ:\n%s", diff)
	}
	read := map[string]bool{"binary-path": true, "github-token": true} // by locate.sh and by the publish command
	_, err := ReadInputs(func(name string) (string, bool) {
		read[strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "INPUT_"), "_", "-"))] = true
		return "", false
	}, inputJob())
	if diff := cmp.Diff(declared, slices.Sorted(maps.Keys(read))); diff != "" || err != nil {
		t.Errorf("declared and read differ (%v):\n%s", err, diff)
	}
	env := map[string]string{}
	for name, in := range m.Inputs {
		env["INPUT_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = in.Default
		if !strings.HasSuffix(in.Description, ".") {
			t.Errorf("input %s: %q is no sentence", name, in.Description)
		}
	}
	byDefault, err := ReadInputs(lookupIn(env), inputJob())
	unset, _ := ReadInputs(lookupIn(nil), inputJob())
	if diff := cmp.Diff(unset, byDefault); diff != "" || err != nil {
		t.Errorf("the defaults of action.yml are not ours (%v):\n%s", err, diff)
	}
}

func TestActionOutputsAreSet(t *testing.T) {
	m, _ := readManifest(t)
	c, path, _, _ := newCommands(t)
	if err := c.Outcome(Outcome{}); err != nil {
		t.Fatal(err)
	}
	set := readOutputs(t, path)
	for name, out := range m.Outputs {
		step := "run"
		if name == "publish-status" || name == "comment-url" {
			step = "publish"
		} else if _, ok := set[name]; !ok {
			t.Errorf("output %s is never set", name)
		}
		if out.Value != "${{ steps."+step+".outputs."+name+" }}" {
			t.Errorf("output %s is %s", name, out.Value)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "action.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(m.Inputs)), slices.Collect(maps.Keys(m.Outputs))) {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/action.md does not explain %s", name)
		}
	}
}

var (
	uses   = regexp.MustCompile(`(?m)^\s*(?:- )?uses: (\S+)( # \S+)?`)
	pinned = regexp.MustCompile(`^[^@]+@[0-9a-f]{40}$`)
)

// Workflows of ours pin actions by commit, grant nothing at the top, and leave no credentials behind.
func TestWorkflows(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"../../.github/workflows/*.yml", "../../examples/workflows/*.yml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %d files", pattern, err, len(found))
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(m[1], "tailgate-ci/tailgate@v") && (!pinned.MatchString(m[1]) || m[2] == "") {
				t.Errorf("%s: %s is not pinned by commit with its version behind it", path, m[1])
			}
		}
		if !strings.Contains(string(text), "\npermissions: {}\n") {
			t.Errorf("%s: grant nothing at the top", path)
		}
		if strings.Count(string(text), "actions/checkout@") != strings.Count(string(text), "persist-credentials: false") {
			t.Errorf("%s: a checkout leaves credentials behind", path)
		}
		if strings.Contains(string(text), "pull_request_target") {
			t.Errorf("%s: pull_request_target", path)
		}
		for _, m := range regexp.MustCompile(`(?m)^\s*(?:- )?run:.*`).FindAllString(string(text), -1) {
			if strings.Contains(m, "${{") {
				t.Errorf("%s: %s", path, m)
			}
		}
	}
	lint, err := exec.LookPath("actionlint")
	if err != nil {
		if os.Getenv("TAILGATE_E2E") == "1" {
			t.Fatal("actionlint is needed to lint the workflows")
		}
		t.Skip("actionlint is not on PATH; the workflows were only read")
	}
	config := filepath.Join(t.TempDir(), "actionlint.yaml")
	if err := os.WriteFile(config, []byte("self-hosted-runner: {labels: [gpu]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), lint, append([]string{"-no-color", "-config-file", config}, paths...)...).CombinedOutput(); err != nil {
		t.Errorf("actionlint: %v\n%s", err, out)
	}
}
