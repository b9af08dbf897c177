//go:build linux && cgo

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/telemetry"
)

// workshop builds what the tests of the real sensor need, each thing once.
type workshop struct {
	dir string
	mu  sync.Mutex
	has map[string]error
}

var shop workshop

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tailgate-nvml")
	if err != nil {
		panic(err)
	}
	shop = workshop{dir: dir, has: map[string]error{}}
	exit := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(exit)
}

// once builds the file name by running a command in the package's folder.
func (w *workshop) once(t *testing.T, name string, env []string, command ...string) string {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	path := filepath.Join(w.dir, name)
	err, built := w.has[name]
	if !built {
		if err = os.MkdirAll(filepath.Dir(path), 0o750); err == nil {
			cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], "-o", path)...)
			cmd.Env = append(os.Environ(), env...)
			var out []byte
			if out, err = cmd.CombinedOutput(); err != nil {
				err = errors.Join(err, errors.New(string(out)))
			}
		}
		w.has[name] = err
	}
	if err != nil {
		t.Fatalf("building %s: %v", name, err)
	}
	return path
}

// sensorPath is the sensor, linked as a release is.
func sensorPath(t *testing.T) string {
	t.Helper()
	needGCC(t)
	return shop.once(t, "tailgate-nvml", []string{"CGO_CFLAGS=-Wno-deprecated-declarations"},
		"go", "build", "-ldflags", "-extldflags=-Wl,-z,lazy")
}

// stubDir is a folder with the driver library of testdata/stub, compiled with the given -D flags.
func stubDir(t *testing.T, flags ...string) string {
	t.Helper()
	needGCC(t)
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	if err != nil {
		t.Fatal(err)
	}
	header := filepath.Join(strings.TrimSpace(string(module)), "pkg", "nvml")
	command := []string{"gcc", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", "-shared", "-fPIC", "-I", header}
	command = append(append(command, flags...), filepath.Join("testdata", "stub", "stub.c"))
	name := filepath.Join("stub"+strings.Join(flags, ""), "libnvidia-ml.so.1")
	return filepath.Dir(shop.once(t, name, nil, command...))
}

// needGCC skips where there is no C compiler, except where the whole product is to be tested.
func needGCC(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err == nil {
		return
	}
	if os.Getenv("TAILGATE_E2E") == "1" {
		t.Fatal("gcc is needed to build the driver stub")
	}
	t.Skip("no gcc: the driver stub cannot be built")
}

// child is a running sensor whose lines a test reads.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  <-chan telemetry.Line
	stderr bytes.Buffer
}

// spawn starts the built sensor over the driver library in dir.
func spawn(t *testing.T, dir string, env []string, args ...string) *child {
	t.Helper()
	c := &child{cmd: exec.CommandContext(t.Context(), sensorPath(t), args...)}
	c.cmd.Env = append([]string{"LD_LIBRARY_PATH=" + dir, "TAILGATE_INTERVAL_MS=60000"}, env...)
	c.cmd.Stderr = &c.stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.lines = listen(t, stdout)
	return c
}

// end waits for the sensor and returns its exit code.
func (c *child) end(t *testing.T) int {
	t.Helper()
	for range c.lines {
	}
	err := c.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return c.cmd.ProcessState.ExitCode()
}

// listen parses lines as the parent does: what it refuses fails the test.
func listen(t *testing.T, stdout io.Reader) <-chan telemetry.Line {
	t.Helper()
	lines := make(chan telemetry.Line, 1000)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(stdout); in.Scan(); {
			l, err := telemetry.ParseLine(in.Bytes())
			if err != nil {
				t.Errorf("%v in %s", err, in.Bytes())
				continue
			}
			lines <- l
		}
	}()
	return lines
}

// until collects lines up to one of the given type that also satisfies also.
func until(t *testing.T, lines <-chan telemetry.Line, kind string, also func(telemetry.Line) bool) []telemetry.Line {
	t.Helper()
	var got []telemetry.Line
	for deadline := time.After(20 * time.Second); ; {
		select {
		case l, more := <-lines:
			if !more {
				t.Fatalf("ended before a line of type %s; %+v", kind, got)
			}
			got = append(got, l)
			if l.Type == kind && (also == nil || also(l)) {
				return got
			}
		case <-deadline:
			t.Fatalf("no line of type %s; %+v", kind, got)
		}
	}
}

// canon is lines without what differs from run to run, one JSON object a line.
func canon(t *testing.T, raw []byte) string {
	t.Helper()
	var out strings.Builder
	for text := range bytes.Lines(raw) {
		var l map[string]any
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if _, stamped := l["t_ns"].(float64); !stamped || l["v"] != 1.0 {
			t.Errorf("a line without time or version: %s", text)
		}
		if l["type"] == "beat" {
			continue
		}
		for _, field := range []string{"t_ns", "v", "cost_us", "late_us", "ns", "version"} {
			delete(l, field)
		}
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(b, '\n'))
	}
	return out.String()
}
