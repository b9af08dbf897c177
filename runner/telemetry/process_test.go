package telemetry

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// partVar names what the test binary plays when it is started as a sensor.
const partVar = "TAILGATE_TEST_PART"

func TestMain(m *testing.M) {
	if name := os.Getenv(partVar); name != "" {
		os.Exit(playPart(name))
	}
	os.Exit(m.Run())
}

// playPart is a real process that behaves like a sensor.
func playPart(name string) int {
	a := &actor{mono: monotonic, stdout: os.Stdout, stderr: os.Stderr}
	a.open()
	_, _ = fmt.Fprintln(os.Stderr, "env", strings.Join(os.Environ(), " "))
	a.sample()
	if name == "deaf" {
		select {}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	a.say("bye", "")
	return 0
}

func startPart(t *testing.T, name, dir string) *Sampler {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{
		Mode: Required, Interval: time.Second, Sensor: self, Clock: record.NewClock(), Dir: dir,
		Env: []string{partVar + "=" + name, "LD_BIND_NOW=1", "TAILGATE_DEVICES=stale"}, Devices: []string{"GPU-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRealProcess(t *testing.T) {
	before := runtime.NumGoroutine()
	dir := filepath.Join(t.TempDir(), "telemetry")
	s := startPart(t, "polite", dir)
	if gpus, _, reason := s.GPUs(); len(gpus) != 1 || reason != "" {
		t.Errorf("GPUs %+v, reason %q", gpus, reason)
	}
	if g := one(t, s.Reduce(1, s.clock.Now()+1, nil)); g.Ticks != 1 || s.store.devices[gpu].ticks[0].OnArrival {
		t.Errorf("%+v", g)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	noGoroutineLeft(t, before)
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs %v, %v", logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"TAILGATE_SENSOR=1", "TAILGATE_INTERVAL_MS=1000", "TAILGATE_DEVICES=GPU-1"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the sensor's environment lacks %s: %s", want, text)
		}
	}
	for _, bad := range []string{"LD_BIND_NOW", "stale", "PATH="} {
		if strings.Contains(string(text), bad) {
			t.Errorf("the sensor's environment has %s: %s", bad, text)
		}
	}
}

// noGoroutineLeft allows a goroutine that has done its work the moment it takes to be gone.
func noGoroutineLeft(t *testing.T, before int) {
	t.Helper()
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	buf := make([]byte, 1<<16)
	t.Errorf("%d goroutines before, now\n%s", before, buf[:runtime.Stack(buf, true)])
}

func TestDeafProcessIsKilled(t *testing.T) {
	s := startPart(t, "deaf", "")
	begin := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < leaveGrace || took > leaveGrace+killGrace {
		t.Errorf("closing took %v", took)
	}
}

func TestSensorThatCannotStart(t *testing.T) {
	s, err := Start(t.Context(), Options{
		Mode: Optional, Sensor: filepath.Join(t.TempDir(), "tailgate-nvml"), Clock: record.NewClock(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, _, reason := s.GPUs(); !strings.Contains(reason, "did not start") {
		t.Errorf("reason %q", reason)
	}
}

func TestExitOf(t *testing.T) {
	for want, status := range map[string]syscall.WaitStatus{"exit 3": 3 << 8, "exit 0": 0, "signal: killed": 9} {
		if got := exitOf(status).String(); got != want {
			t.Errorf("status %#x: %q, want %q", status, got, want)
		}
	}
}

func TestSensorEnvIsACopy(t *testing.T) {
	env := []string{"LD_BIND_NOW=1", "HOME=/root"}
	got := sensorEnv(env, 200*time.Millisecond, nil)
	want := []string{"HOME=/root", "TAILGATE_SENSOR=1", "TAILGATE_INTERVAL_MS=200", "TAILGATE_DEVICES="}
	if !slices.Equal(got, want) || env[0] != "LD_BIND_NOW=1" {
		t.Errorf("%q, input now %q", got, env)
	}
}

func TestLogKeepsTheFirstMegabyte(t *testing.T) {
	dir := t.TempDir()
	log, err := openLog(dir, "/opt/tailgate-nvml")
	if err != nil {
		t.Fatal(err)
	}
	chunk := []byte(strings.Repeat("x", 300<<10))
	for range 5 {
		if n, err := log.Write(chunk); n != len(chunk) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	if _, err := log.Write(chunk); err != nil {
		t.Errorf("a closed log must swallow: %v", err)
	}
	info, err := os.Stat(filepath.Join(dir, "tailgate-nvml.log"))
	if err != nil || info.Size() != maxLog {
		t.Errorf("size %v, %v", info, err)
	}
}
