package client

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// childEnv tells a test that it runs in a process of its own.
const childEnv = "TAILGATE_TEST_CHILD"

// inChild runs the named test in a process of its own, for what a test may not do to its neighbours, and reports true; in
// that process it reports false and the test goes on. set changes the command before it starts.
func inChild(t *testing.T, name string, env []string, set ...func(*exec.Cmd)) (ran bool) {
	t.Helper()
	if os.Getenv(childEnv) == name {
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+name+"$", "-test.v", "-test.count=1")
	cmd.Env = append(append(os.Environ(), childEnv+"="+name), env...)
	for _, f := range set {
		f(cmd)
	}
	out, err := cmd.CombinedOutput()
	switch text := string(out); {
	case os.Getenv("TAILGATE_E2E") == "1" && (cmd.ProcessState == nil || strings.Contains(text, "SKIP: "+name)):
		t.Errorf("TAILGATE_E2E=1 allows no skip: %v\n%s", err, text)
	case cmd.ProcessState == nil:
		t.Skipf("a process of its own is not permitted here: %v", err)
	case err != nil:
		t.Errorf("%v\n%s", err, text)
	case strings.Contains(text, "SKIP: "+name):
		t.Skip(text)
	case !strings.Contains(text, "PASS: "+name):
		t.Errorf("the test did not run\n%s", text)
	}
	return true
}
