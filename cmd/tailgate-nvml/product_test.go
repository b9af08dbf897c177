//go:build linux && cgo

package main

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/telemetry"
)

// The built sensor is lazy: it must start where the driver lacks most of what go-nvml names.
func TestBuiltSensorBindsLazily(t *testing.T) {
	f, err := elf.Open(sensorPath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	flags, err := f.DynValue(elf.DT_FLAGS)
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range flags {
		if elf.DynFlag(flag)&elf.DF_BIND_NOW != 0 {
			t.Error("the sensor is linked with -z now")
		}
	}
}

func TestBuiltSensorWithoutLibrary(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "libnvidia-ml.so.1"), "not a library") // hides that of a machine with a driver
	c := spawn(t, dir, nil)
	got := until(t, c.lines, "hello", nil)
	if u := got[len(got)-1].Unavailable; u == nil || u.Reason != "library_not_found" || u.Fix == "" {
		t.Errorf("unavailable %+v", u)
	}
	if exit := c.end(t); exit != exitUnavailable {
		t.Errorf("exit %d", exit)
	}
}

func TestBuiltSensorDiesOfMissingInitAndSaysWhere(t *testing.T) {
	dir := stubDir(t, "-DNO_INIT")
	c := spawn(t, dir, nil)
	if exit := c.end(t); exit != 127 {
		t.Errorf("exit %d", exit)
	}
	if text := c.stderr.String(); !strings.HasPrefix(text, "first nvmlInit_v2\n") {
		t.Errorf("stderr %q", text)
	}
	c = spawn(t, dir, nil, "--skip", "nvmlInit_v2")
	got := until(t, c.lines, "hello", nil)
	if u := got[len(got)-1].Unavailable; u == nil || u.Reason != "symbol_missing" {
		t.Errorf("unavailable %+v", u)
	}
	if exit := c.end(t); exit != exitUnavailable {
		t.Errorf("exit %d", exit)
	}
}

func TestBuiltSensorBoundEagerlyDies(t *testing.T) {
	c := spawn(t, stubDir(t), []string{"LD_BIND_NOW=1"})
	if exit := c.end(t); exit != 127 {
		t.Errorf("exit %d", exit)
	}
}

func TestBuiltSensorSkipsAFunction(t *testing.T) {
	c := spawn(t, stubDir(t), nil, "--skip", "nvmlDeviceGetPowerUsage")
	got := until(t, c.lines, "sample", nil)
	sample := got[len(got)-1]
	if sample.PowerMW != nil || sample.SMMHz == nil {
		t.Errorf("sample %+v", sample)
	}
	for _, l := range got {
		if l.Type == "caps" && l.Caps["power_mw"] != "symbol_missing" {
			t.Errorf("caps %v", l.Caps)
		}
	}
	_ = c.stdin.Close()
	if exit := c.end(t); exit != 0 {
		t.Errorf("exit %d", exit)
	}
}

// A driver call that never returns must not keep the sensor from leaving, nor from saying that it hangs.
func TestBuiltSensorLeavesAHungDriver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scenario")
	write(t, file, "0 * nvmlDeviceGetPowerUsage hang\n")
	c := spawn(t, stubDir(t), []string{"STUB_SCENARIO=" + file})
	until(t, c.lines, "device", nil)
	until(t, c.lines, "beat", func(l telemetry.Line) bool { return l.BusyMS != nil && *l.BusyMS > 1000 })
	begin := time.Now()
	_ = c.stdin.Close()
	if exit := c.end(t); exit != 0 || time.Since(begin) > 2*time.Second {
		t.Errorf("exit %d after %v", exit, time.Since(begin))
	}
}

func TestBuiltWithoutCgoSaysSo(t *testing.T) {
	path := shop.once(t, "pure", []string{"CGO_ENABLED=0"}, "go", "build")
	out, err := exec.CommandContext(t.Context(), path).Output()
	if err == nil || !strings.Contains(string(out), `"reason":"built_without_nvml"`) {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := telemetry.ParseLine([]byte(strings.TrimSpace(string(out)))); err != nil {
		t.Error(err)
	}
}

// startProduct watches the stub through the sensor as tailgate does.
func startProduct(t *testing.T, mode, scenario string, flags ...string) (*telemetry.Sampler, record.Clock, error) {
	t.Helper()
	clock := record.NewClock()
	s, err := telemetry.Start(t.Context(), telemetry.Options{
		Mode: mode, Interval: 50 * time.Millisecond, Sensor: sensorPath(t), Version: release(), Clock: clock, Dir: t.TempDir(),
		Env: []string{"LD_LIBRARY_PATH=" + stubDir(t, flags...), "NVIDIA_STUB_SCENARIO=" + scenario, "LD_BIND_NOW=1"},
	})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, clock, err
}

func TestSlowdownOfOneRoundIsSeen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scenario")
	s, clock, err := startProduct(t, telemetry.Required, file)
	if err != nil {
		t.Fatal(err)
	}
	if gpus, caps, _ := s.GPUs(); len(gpus) != 1 || gpus[0].Name != "Stub GPU 80GB" || caps[gpus[0].UUID]["reasons"] != "ok" {
		t.Fatalf("GPUs %+v, caps %v", gpus, caps)
	}
	round := func(text string) record.GPUState {
		write(t, file, text)
		time.Sleep(100 * time.Millisecond) // the tick under way may have asked before
		from := clock.Now()
		time.Sleep(500 * time.Millisecond)
		st := s.Reduce(from, clock.Now(), nil)
		if len(st.GPUs) != 1 || st.GPUs[0].Ticks < 3 {
			t.Fatalf("%+v", st)
		}
		return st.GPUs[0]
	}
	before := round("")
	slow := round("0 * nvmlDeviceGetCurrentClocksEventReasons 0x48\n0 * nvmlDeviceGetClockInfo.sm 345\n")
	after := round("")
	for _, clean := range []record.GPUState{before, after} {
		if clean.Reasons["hw_slowdown"] != 0 || clean.SlowdownRun != 0 || !clean.SMMHz.Median.Equal(record.Of(1980)) {
			t.Errorf("a round without slowdown: %+v", clean)
		}
	}
	if slow.SlowdownRun != slow.Loaded || slow.Reasons["thermal_hw"] != slow.Loaded || slow.Loaded < 3 ||
		!slow.SMMHz.Max.Equal(record.Of(345)) {
		t.Errorf("the slow round: %+v", slow)
	}
}

func TestLibraryWithoutInitIsReported(t *testing.T) {
	s, _, err := startProduct(t, telemetry.Optional, "", "-DNO_INIT")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, reason := s.GPUs(); !strings.Contains(reason, "symbol_missing") {
		t.Errorf("reason %q", reason)
	}
}

// What the sensor says of two devices is enough to find one by its number on the bus, by its UUID or by the MIG slice on it, and
// to see which of them grows when it is watched alone.
func TestDevicesAreToldApart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scenario")
	text := "0 * nvmlDeviceGetCount 2\n0 0 nvmlDeviceGetPciInfo 00000000:65:00.0\n0 1 nvmlDeviceGetPciInfo 00000000:0A:00.0\n" +
		"0 0 nvmlDeviceGetMigMode 0\n0 1 nvmlDeviceGetMigMode 0\n"
	write(t, file, text)
	s, clock, err := startProduct(t, telemetry.Required, file)
	if err != nil {
		t.Fatal(err)
	}
	gpus, _, _ := s.GPUs()
	if len(gpus) != 2 {
		t.Fatalf("GPUs %+v", gpus)
	}
	second := gpus[1].UUID
	slice := gpus
	slice[1].MIG = "on"
	for name, c := range map[string]struct {
		gpus       []record.GPU
		named, env []string
	}{
		"number on the bus": {env: []string{"CUDA_VISIBLE_DEVICES=0", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}},
		"UUID":              {named: []string{second}},
		"MIG slice":         {gpus: slice, named: []string{"MIG-1"}},
	} {
		if c.gpus == nil {
			c.gpus, _, _ = s.GPUs()
		}
		d, err := runner.ChooseDevices(c.gpus, c.named, c.env)
		if err != nil || len(d.Watched) != 1 || d.Watched[0] != second || d.Named != 0 {
			t.Errorf("%s: %+v, %v; want %s", name, d, err, second)
		}
	}
	s.Watch([]string{second})
	write(t, file, text+"0 0 nvmlDeviceGetMemoryInfo.used 1000\n0 1 nvmlDeviceGetMemoryInfo.used 64424509440\n")
	from := clock.Now()
	for range 100 {
		if m := s.Memory(); len(m) == 1 && m[0].Dev == second && m[0].UsedB.Equal(record.Of(64424509440)) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if m := s.Memory(); len(m) != 1 || !m[0].UsedB.Equal(record.Of(64424509440)) || len(s.Reduce(from, clock.Now(), nil).GPUs) != 1 {
		t.Errorf("watched alone: %+v", m)
	}
}
