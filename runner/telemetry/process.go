package telemetry

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// launch starts a sensor with the given arguments. Tests put a scripted one in its place.
type launch func(args []string) (*process, error)

// process is a running sensor as its keeper sees it.
type process struct {
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr io.ReadCloser
	// kill ends the whole process group at once; it may be called at any time and more than once.
	kill func()
	// wait returns how the process ended. It is called once, after both outputs were read to their end.
	wait func() exit
}

// exit is how a process ended: its code, or the signal that killed it.
type exit struct {
	code   int
	signal syscall.Signal
}

func (e exit) String() string {
	if e.signal != 0 {
		return "signal: " + e.signal.String()
	}
	return "exit " + itoa(e.code)
}

// abandon lets go of a process that does not die: its pipes are closed so that their readers end, it is never waited for.
func (p *process) abandon() {
	_ = p.stdin.Close()
	_ = p.stdout.Close()
	_ = p.stderr.Close()
}

// execSensor starts sensors from a file. The process leads a group of its own, so that what it starts dies with it.
func execSensor(path string, env []string) launch {
	return func(args []string) (*process, error) {
		// The keeper decides when a sensor dies: it closes stdin first and kills by group, which a context cannot.
		cmd := exec.CommandContext(context.Background(), path, args...)
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		stdin, errIn := cmd.StdinPipe()
		stdout, errOut := cmd.StdoutPipe()
		stderr, errErr := cmd.StderrPipe()
		if err := errors.Join(errIn, errOut, errErr, cmd.Start()); err != nil {
			return nil, err
		}
		group := &group{pid: cmd.Process.Pid}
		return &process{stdin: stdin, stdout: stdout, stderr: stderr, kill: group.kill, wait: func() exit {
			// How it ended is in the state; an error adds nothing to it.
			_ = cmd.Wait()
			group.gone()
			return exitOf(cmd.ProcessState.Sys())
		}}, nil
	}
}

// group kills a process group as long as its leader was not reaped: after that the number may be someone else's.
type group struct {
	mu   sync.Mutex
	pid  int
	dead bool
}

func (g *group) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.dead {
		_ = syscall.Kill(-g.pid, syscall.SIGKILL)
	}
}

func (g *group) gone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead = true
}

func exitOf(sys any) exit {
	status, ok := sys.(syscall.WaitStatus)
	if ok && status.Signaled() {
		return exit{signal: status.Signal()}
	}
	return exit{code: status.ExitStatus()}
}

// sensorEnv is env for a sensor: without LD_BIND_NOW, which would make the loader look for every driver symbol at start,
// and with what the protocol promises. devices are UUIDs; none means all.
func sensorEnv(env []string, interval time.Duration, devices []string) []string {
	ours := []string{"LD_BIND_NOW", "TAILGATE_SENSOR", "TAILGATE_INTERVAL_MS", "TAILGATE_DEVICES"}
	kept := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(ours, name)
	})
	return append(kept, "TAILGATE_SENSOR=1", "TAILGATE_INTERVAL_MS="+itoa(int(interval.Milliseconds())),
		"TAILGATE_DEVICES="+strings.Join(devices, ","))
}
