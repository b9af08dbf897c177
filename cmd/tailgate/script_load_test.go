package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// simServerCommand starts a simulated server as a process of its own on a free port, waits until it is up, and leaves its address
// in a variable: `sim URL CONFIG`. It is killed when the script ends.
func simServerCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: sim VARIABLE CONFIG")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Check(l.Close())
	path, err := exec.LookPath("tailgate")
	ts.Check(err)
	cmd := exec.Command(path, "sim", "--config", ts.MkAbs(args[1]), "--port", port)
	cmd.Env = scriptEnv(ts)
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	url := "http://127.0.0.1:" + port
	ts.Setenv(args[0], url)
	ts.Setenv(args[0]+"_PID", strconv.Itoa(cmd.Process.Pid))
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get(url + "/health")
		if err == nil {
			_ = resp.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the simulated server is not up: %v", err)
		}
	}
}

// shortLoad are flags of a load that takes a second or two.
var shortLoad = []string{
	"--workload", "workload", "--measure", "1s", "--self-test", "200ms", "--warmup-window", "100ms", "--warmup-band", "50%", "--warmup-trend", "50%",
	"--warmup-trend-windows", "5", "--warmup-cap", "20s",
}

// loadScriptCommand loads $URL for a second and wants an exit code: `load CODE OUT FLAG...`. A round that does not count because
// this machine was busy (exit 4, released late) is measured again, as its report advises, at most five times.
func loadScriptCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: load CODE OUT FLAG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	out := ts.MkAbs(args[1])
	line := append(append([]string{"load", ts.Getenv("URL"), "--out", out}, shortLoad...), args[2:]...)
	for try := 1; ; try++ {
		err := ts.Exec("tailgate", line...)
		got := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			got = exit.ExitCode()
		} else if err != nil {
			ts.Fatalf("%v", err)
		}
		if got == want {
			return
		}
		report, _ := os.ReadFile(filepath.Join(out, "report.txt"))
		if got != 4 || try == 5 || !bytes.Contains(report, []byte("load generator was the bottleneck")) {
			ts.Fatalf("exit code %d, want %d\n%s", got, want, report)
		}
		ts.Check(os.RemoveAll(out))
	}
}

// dyingCommand starts a server of sim.json, loads it, kills it once the progress shows a text, and wants an exit code: `dying TEXT
// CODE OUT FLAG...`. A round that does not count because this machine was busy is measured again, as with load.
func dyingCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: dying TEXT CODE OUT FLAG...")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	out := ts.MkAbs(args[2])
	for try := 1; ; try++ {
		simServerCommand(ts, false, []string{"URL", "sim.json"})
		line := append(append([]string{"load", ts.Getenv("URL"), "--out", out}, shortLoad...), args[3:]...)
		got, text := loadUntilKilled(ts, args[0], line)
		if got == want {
			fmt.Fprintf(ts.Stdout(), "%s", text)
			return
		}
		if got != 4 || try == 5 || !bytes.Contains(text, []byte("load generator was the bottleneck")) {
			ts.Fatalf("exit code %d, want %d\n%s", got, want, text)
		}
		ts.Check(os.RemoveAll(out))
	}
}

// loadUntilKilled runs a load, kills the server URL_PID once the progress shows a text, and returns the exit code and what was
// printed.
func loadUntilKilled(ts *testscript.TestScript, sign string, line []string) (code int, printed []byte) {
	pid, err := strconv.Atoi(ts.Getenv("URL_PID"))
	ts.Check(err)
	server, err := os.FindProcess(pid)
	ts.Check(err)
	l := startUntil(ts, "dying", sign, line)
	ts.Check(server.Kill())
	return l.end()
}

// started is a tailgate that runs beside a script, with its output in a file.
type started struct {
	ts     *testscript.TestScript
	cmd    *exec.Cmd
	output string
	ended  chan error
}

// startUntil runs tailgate and returns when it has printed a sign.
func startUntil(ts *testscript.TestScript, name, sign string, line []string) *started {
	path, err := exec.LookPath("tailgate")
	ts.Check(err)
	l := &started{ts: ts, cmd: exec.Command(path, line...), output: ts.MkAbs(name), ended: make(chan error, 1)}
	f, err := os.Create(l.output)
	ts.Check(err)
	// The process has a descriptor of its own.
	defer f.Close()
	l.cmd.Dir, l.cmd.Stdout, l.cmd.Stderr, l.cmd.Env = ts.MkAbs("."), f, f, scriptEnv(ts)
	ts.Check(l.cmd.Start())
	go func() { l.ended <- l.cmd.Wait() }()
	for deadline := time.Now().Add(30 * time.Second); !bytes.Contains(l.text(), []byte(sign)); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = l.cmd.Process.Kill()
			ts.Fatalf("never said %q:\n%s", sign, l.text())
		}
	}
	return l
}

func (l *started) text() []byte {
	text, err := os.ReadFile(l.output)
	l.ts.Check(err)
	return text
}

// end waits for the process and returns its exit code and what it printed.
func (l *started) end() (code int, printed []byte) {
	<-l.ended
	return l.cmd.ProcessState.ExitCode(), l.text()
}

// freezeCommand loads $URL for four seconds, stops the load generator's process for one of them in mid-interval, and wants an
// exit code: `freeze CODE OUT`. Nothing of the server is touched.
func freezeCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: freeze CODE OUT")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	line := append(append([]string{"load", ts.Getenv("URL"), "--out", ts.MkAbs(args[1])}, shortLoad...), "--measure", "4s")
	l := startUntil(ts, "frozen", " measure ", line)
	// Well inside the interval, which begins 0.2 s after it is announced.
	time.Sleep(time.Second)
	ts.Check(l.cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(time.Second)
	ts.Check(l.cmd.Process.Signal(syscall.SIGCONT))
	got, printed := l.end()
	if got != want {
		ts.Fatalf("exit code %d, want %d\n%s", got, want, printed)
	}
	var c record.ClientReport
	data, err := os.ReadFile(filepath.Join(ts.MkAbs(args[1]), "rounds", "00-head", "client.json"))
	ts.Check(err)
	ts.Check(json.Unmarshal(data, &c))
	// Both witnesses saw it: what was due while the process stood still went out late, what came meanwhile was read late.
	for what, v := range map[string]record.Value{"pacer lag": c.PacerLagMax, "canary": c.Canary.Max} {
		if ms, ok := v.Finite(); !ok || ms < 800 {
			ts.Fatalf("%s: %v ms %s, of a second", what, ms, v.Reason())
		}
	}
	fmt.Fprintf(ts.Stdout(), "%s", printed)
}

// orphansCommand fails when a process that a load generator of this script measured itself against is still there. Scripts
// run side by side, so the script's own home tells whose it is; a witness inherits it and nothing secret.
func orphansCommand(ts *testscript.TestScript, _ bool, _ []string) {
	home := []byte("HOME=" + ts.Getenv("HOME") + "\x00")
	dirs, err := filepath.Glob("/proc/[0-9]*")
	ts.Check(err)
	for _, dir := range dirs {
		// A process that ends meanwhile has neither.
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		witness := bytes.HasSuffix(line, []byte("\x00"+canaryName+"\x00")) || bytes.Contains(line, []byte("tailgate-truth-"))
		if witness && bytes.Contains(environ, home) {
			ts.Fatalf("%s: %q is still there", dir, line)
		}
	}
}
