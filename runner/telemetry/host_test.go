package telemetry

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestHostReads(t *testing.T) {
	s := newStore(time.Second)
	h := &host{root: "testdata/proc", clock: record.NewClock(), store: s}
	h.read()
	if len(s.host) != 1 {
		t.Fatalf("%d readings", len(s.host))
	}
	want := &Ticks{
		User: 100, Nice: 2, System: 30, Idle: 800, IOWait: 5, IRQ: 0.4, SoftIRQ: 0.6, Steal: 2, Load1: new(1.25),
		MemAvailableB: new(50000000 * 1024.0),
	}
	if diff := cmp.Diff(want, s.host[0].Host); diff != "" {
		t.Error(diff)
	}
	if busy, total := want.busy(), want.total(); busy != 133 || total != 940 {
		t.Errorf("busy %v of %v", busy, total)
	}
}

func TestHostWithoutProcReadsNothing(t *testing.T) {
	s := newStore(time.Second)
	h := &host{root: t.TempDir(), clock: record.NewClock(), store: s}
	h.read()
	h.root = filepath.Join(h.root, "absent")
	h.read()
	if len(s.host) != 0 {
		t.Errorf("readings out of nothing: %+v", s.host)
	}
}

func TestHostKeepsWhatItCanRead(t *testing.T) {
	root := t.TempDir()
	stat, err := os.ReadFile("testdata/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "stat"), stat, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStore(time.Second)
	h := &host{root: root, clock: record.NewClock(), store: s}
	h.read()
	if len(s.host) != 1 || s.host[0].Host.Load1 != nil || s.host[0].Host.MemAvailableB != nil {
		t.Errorf("%+v", s.host)
	}
}

func TestHostFacts(t *testing.T) {
	got := hostFacts("testdata/proc", "testdata/sys")
	got.OS = "" // of the machine the test runs on
	want := record.Host{
		Name: "runner-7", Kernel: "6.8.0-45-generic", CPU: "AMD EPYC 9454 48-Core Processor", Cores: 2,
		MemoryB: record.Of(65536000 * 1024), Governor: "performance,powersave", Arch: runtime.GOARCH,
	}
	if runtime.GOARCH != "amd64" {
		got.CPU, want.CPU = "", "" // cpuinfo has another form there
		got.Cores, want.Cores = 0, 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	nowhere := hostFacts(t.TempDir(), t.TempDir())
	if nowhere.Cores != 0 || nowhere.Governor != "" || !nowhere.MemoryB.Equal(record.NA("error")) {
		t.Errorf("facts out of nothing: %+v", nowhere)
	}
}

func TestOSName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "os-release")
	if got := osName(path); got != runtime.GOOS {
		t.Errorf("without a file: %q", got)
	}
	text := "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := osName(path); got != "Ubuntu 24.04.1 LTS" {
		t.Errorf("%q", got)
	}
}
