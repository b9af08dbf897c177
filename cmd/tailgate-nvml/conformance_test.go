//go:build linux && cgo

package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// scenarios drive the Go fake and the stub library alike; both must print testdata/golden/<name>.jsonl.
var scenarios = []struct {
	name string
	now  int64
	text string
	exit int
}{
	{name: "full"},
	{
		name: "two_devices", text: "0 * nvmlDeviceGetCount 2\n0 1 nvmlDeviceGetName Other GPU, 40 GB\n" +
			"0 1 nvmlDeviceGetClockInfo.sm 1410\n",
	},
	{
		name: "slowdown", now: 2000, text: "1000 0 nvmlDeviceGetCurrentClocksEventReasons 0x48\n" +
			"3000 0 nvmlDeviceGetCurrentClocksEventReasons 0x0\n",
	},
	{name: "before_slowdown", now: 999, text: "1000 0 nvmlDeviceGetCurrentClocksEventReasons 0x48\n"},
	// Case G-03: a MIG slice has no utilisation.
	{
		name: "slice_without_utilisation", text: "0 * nvmlDeviceGetUtilizationRates.gpu nvml:3\n0 * nvmlDeviceGetMigMode 1\n",
	},
	{
		name: "no_permission", text: "0 * nvmlDeviceGetPowerUsage nvml:4\n0 * nvmlDeviceGetComputeRunningProcesses nvml:4\n",
	},
	{name: "device_lost", text: "0 * nvmlDeviceGetClockInfo.sm nvml:15\n0 * nvmlDeviceGetTemperature nvml:15\n"},
	{
		name: "unknown_state", text: "0 * nvmlDeviceGetPerformanceState nvml:3\n" +
			"0 * nvmlDeviceGetCurrentClocksEventReasons 0x4000000000000001\n",
	},
	{
		name: "processes", text: "0 * nvmlDeviceGetComputeRunningProcesses 4711:1073741824,12:-1,13:5\n" +
			"0 * nvmlDeviceGetMPSComputeRunningProcesses 99:1\n",
	},
	// Drivers of the early 535 line shifted the struct: process 0, or more memory than there is.
	{name: "shifted_processes", text: "0 * nvmlDeviceGetComputeRunningProcesses 0:1,4294967295:2,7:99999999999999\n"},
	{name: "one_handle_fails", text: "0 * nvmlDeviceGetCount 2\n0 0 nvmlDeviceGetHandleByIndex nvml:15\n"},
	{name: "no_devices", text: "0 * nvmlDeviceGetCount 0\n", exit: 3},
	// Case G-04: NVML cannot start.
	{name: "no_kernel_module", text: "0 * nvmlInit nvml:9\n", exit: 3},
	{name: "version_mismatch", text: "0 * nvmlInit nvml:18\n", exit: 3},
	{name: "init_no_permission", text: "0 * nvmlInit nvml:4\n", exit: 3},
	{name: "init_unknown", text: "0 * nvmlInit nvml:999\n", exit: 3},
}

func TestConformanceOfFake(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			out, exit := runFake(t, &fakeDriver{scenario: parseScenario(sc.text, sc.now)})
			golden(t, sc.name, out, exit, sc.exit)
		})
	}
}

func TestConformanceOfStub(t *testing.T) {
	dir := stubDir(t)
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			out, exit := runStub(t, dir, sc.text, sc.now)
			golden(t, sc.name, out, exit, sc.exit)
		})
	}
}

// Older libraries lack names, and the sensor finds other ways to the same lines.
func TestOlderLibraries(t *testing.T) {
	for _, flag := range []string{"-DNO_V3", "-DNO_EVENT_REASONS", "-DNO_V2_STRUCTS"} {
		t.Run(flag, func(t *testing.T) {
			out, exit := runStub(t, stubDir(t, flag), "", 0)
			golden(t, "full", out, exit, 0)
		})
	}
}

// runFake plays the standard session on the fake driver: first tick, one edge, end of stdin.
func runFake(t *testing.T, d *fakeDriver) (out []byte, exit int) {
	t.Helper()
	in, commands := io.Pipe()
	var lines buffer
	s := newSensor(d, &lines, time.Minute)
	done := make(chan int, 1)
	go func() { done <- s.run(in) }()
	go session(commands, &lines)
	exit = <-done
	_ = in.Close()
	if opened := d.Open() == ok; opened != d.closed {
		t.Errorf("opened %v, closed %v", opened, d.closed)
	}
	return lines.bytes(), exit
}

func newSensor(d driver, out io.Writer, interval time.Duration) *sensor {
	return &sensor{
		driver: d, print: &printer{out: out, now: monotonic}, busy: &meter{now: monotonic}, interval: interval,
		namespace: "host",
	}
}

// runStub plays the same session on the built sensor over the stub.
func runStub(t *testing.T, dir, text string, now int64) (out []byte, exit int) {
	t.Helper()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "scenario"), text)
	write(t, filepath.Join(folder, "clock"), strconv.FormatInt(now, 10))
	cmd := exec.CommandContext(t.Context(), sensorPath(t))
	cmd.Env = []string{
		"LD_LIBRARY_PATH=" + dir, "TAILGATE_INTERVAL_MS=60000",
		"STUB_SCENARIO=" + filepath.Join(folder, "scenario"), "STUB_CLOCK=" + filepath.Join(folder, "clock"),
	}
	var lines buffer
	cmd.Stdout = &lines
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go session(stdin, &lines)
	_ = cmd.Wait() // the exit code says it
	return lines.bytes(), cmd.ProcessState.ExitCode()
}

// session is what a parent says: after the first sample of the last device an edge, then nothing more.
func session(stdin io.WriteCloser, lines *buffer) {
	defer func() { _ = stdin.Close() }()
	if !lines.await(`"type":"sample"`) {
		return
	}
	if _, err := io.WriteString(stdin, "edge r0.start\n"); err != nil {
		return
	}
	lines.await(`"type":"counters"`) // an edge that was begun is finished
}

// buffer collects lines that one goroutine writes and another waits for.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buf.Bytes())
}

// await waits until text was written. It is false when the sensor said that it cannot measure, or after 20 s.
func (b *buffer) await(text string) bool {
	for range 4000 {
		out := b.bytes()
		if bytes.Contains(out, []byte(text)) {
			return true
		}
		if bytes.Contains(out, []byte(`"unavailable"`)) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

func golden(t *testing.T, name string, out []byte, exit, want int) {
	t.Helper()
	if exit != want {
		t.Errorf("exit code %d, want %d", exit, want)
	}
	got := canon(t, out)
	path := filepath.Join("testdata", "golden", name+".jsonl")
	if *update {
		write(t, path, got)
		return
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(b), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Error(diff)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	// By rename, for the stub may read at any time.
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
