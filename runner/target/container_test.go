package target

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/internal/config"
)

// docker is a client whose containers somebody else starts: it leaves an order in a folder and waits for the container's end.
const docker = `#!/bin/bash
cd "$STATE" || exit 9
verb=$1; shift
echo "$verb $*" >>calls
case $verb in
run)
	while [ $# -gt 0 ]; do
		case $1 in
		--name) name=$2; shift ;;
		-p) publish=$2; shift ;;
		esac
		shift
	done
	port=${publish#127.0.0.1:}
	echo "${port%%:*}" >"$name.tmp"; mv "$name.tmp" "$name.order"
	until [ -s "$name.pid" ]; do sleep 0.02; done
	while kill -0 "$(cat "$name.pid")" 2>/dev/null; do sleep 0.02; done ;;
stop)
	name=${!#}
	kill "$(cat "$name.pid")"
	while kill -0 "$(cat "$name.pid")" 2>/dev/null; do sleep 0.02; done ;;
top)
	echo PID; cat "$1.pid" ;;
esac
`

// daemon starts what the client orders, as processes that are none of the server's.
func daemon(t *testing.T, state string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
			orders, _ := filepath.Glob(filepath.Join(state, "*.order"))
			for _, order := range orders {
				port, _ := os.ReadFile(order)
				_ = os.Remove(order)
				cmd := exec.Command(exe)
				cmd.Env = []string{role + "=serve", mark, "PORT=" + strings.TrimSpace(string(port))}
				if cmd.Start() == nil {
					_ = os.WriteFile(strings.TrimSuffix(order, ".order")+".pid", []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
					go func() { _ = cmd.Wait() }()
				}
			}
		}
	}()
	t.Cleanup(func() { close(done); <-ended })
}

// recipe is the target of the page's example.
func recipe(t *testing.T) config.Target {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "targets.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ := strings.Cut(after, "```")
	f, err := config.Parse("targets.md", []byte("version: 1\n"+example))
	if err != nil {
		t.Fatal(err)
	}
	return f.Target
}

// The recipe of the manual works: ready through the container's port, its processes named, ended by its name, nothing left.
func TestContainerRecipe(t *testing.T) {
	bin, state := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(docker), 0o700); err != nil {
		t.Fatal(err)
	}
	daemon(t, state)
	conf := recipe(t)
	spec := scripted(t, conf.Start, "STATE="+state, "TAILGATE_RUN=run-7")
	spec.Env[0] = "PATH=" + bin + ":" + os.Getenv("PATH")
	spec.StopCommand, spec.PIDs, spec.ReadyPath, spec.Probe = conf.StopCommand, conf.PIDs, conf.Ready.Path, infer
	spec.StopLog, spec.Grace = filepath.Join(t.TempDir(), "stop.log"), time.Duration(conf.Stop.Grace)
	s := start(t, spec)
	if err := s.Ready(t.Context(), nil); err != nil {
		t.Fatalf("%v\n%s", err, read(t, filepath.Join(state, "calls")))
	}
	name := "tailgate-" + strconv.Itoa(s.Port())
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, filepath.Join(state, name+".pid"))))
	if err != nil {
		t.Fatal(err)
	}
	if pids := s.PIDs(); len(pids) < 2 || pids[len(pids)-1] != pid {
		t.Errorf("pids %v lack the container's %d", pids, pid)
	}
	report, err := s.Stop(t.Context())
	if err != nil || report.Forced != 0 || report.Signals != nil || report.Exit == nil || *report.Exit != 0 {
		t.Errorf("report = %+v, %v; want the container stopped and the client gone by itself", report, err)
	}
	if left := marked(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	calls := read(t, filepath.Join(state, "calls"))
	for _, want := range []string{"--name " + name, "--label tailgate.run=run-7", "stop --time 15 " + name + "\n", "top " + name} {
		if !strings.Contains(calls, want) {
			t.Errorf("calls lack %q:\n%s", want, calls)
		}
	}
	if ids := noteIDs(s); ids != nil {
		t.Errorf("notes: %+v", s.Notes())
	}
}
