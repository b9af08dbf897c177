package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

// sleeper is a process with one entry in its environment, deaf to everything but SIGKILL.
func sleeper(t *testing.T, entry string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `trap "" TERM INT HUP; echo up; while :; do sleep 1; done`}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), entry}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 3)); err != nil { // it is deaf now
		t.Fatal(err)
	}
	return cmd
}

func lives(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	p, err := proc.Table{}.Read(cmd.Process.Pid)
	return err == nil && !p.Dead()
}

// The check "nothing is left" of one session neither sees nor ends what belongs to another, not even to one whose number begins alike.
func TestSessionsSeeTheirOwnProcessesOnly(t *testing.T) {
	scratch := t.TempDir()
	at := func(n string) *session { return &session{Outcome: Outcome{Folder: filepath.Join(scratch, n)}} }
	first, second := at("0001"), at("00011")
	ours := sleeper(t, "TMPDIR="+first.Folder+"/tmp")
	theirs := sleeper(t, "TMPDIR="+second.Folder+"/tmp")
	reader := sleeper(t, "A=b", "less", first.Folder+"/log") // somebody reads the log
	if left := first.carrying(); len(left) < 2 || strings.Contains(strings.Join(left, " "), second.Folder) {
		t.Errorf("the first session sees %q, want its server and the reader", left)
	}
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	if lives(t, ours) || !lives(t, theirs) || !lives(t, reader) {
		t.Errorf("server lives: %t, want false; the other's: %t, the reader: %t, want true", lives(t, ours), lives(t, theirs), lives(t, reader))
	}
	if left, err := second.living(); err != nil || len(left) == 0 {
		t.Errorf("the second session sees %v, %v; want its own server", left, err)
	}
}
