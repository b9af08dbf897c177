package target

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const gigabyte = 1 << 30

// device is a reading of a device of 80 GiB.
func device(at record.Instant, used float64, pids ...int) Memory {
	return Memory{UUID: "GPU-1", T: at, Used: record.Of(used), Total: record.Of(80 * gigabyte), PIDs: pids, Listed: at}
}

// over is a ground whose devices held half a GiB before the session and say now what they are given.
func over(now func() []Memory) *Ground {
	return &Ground{read: now, level: map[string]float64{"GPU-1": 0.5 * gigabyte, "GPU-2": 0.5 * gigabyte}}
}

func TestFreed(t *testing.T) {
	const ended = record.Instant(100)
	silent := Memory{UUID: "GPU-2", Used: record.NA("unsupported"), Total: record.NA("unsupported")}
	listing := silent
	listing.Listed = ended
	occupied := listing
	occupied.PIDs = []int{42}
	tests := []struct {
		name    string
		devices []Memory
		want    freedom
	}{
		{"back", []Memory{device(ended, 0.5*gigabyte)}, freedom{free: true}},
		{"within a hundredth of the whole", []Memory{device(ended, 1.2*gigabyte)}, freedom{free: true}},
		{"a foreign process", []Memory{device(ended, 0.5*gigabyte, 7)}, freedom{free: true}},
		{"full", []Memory{device(ended, 70*gigabyte)}, freedom{text: "GPU-1 holds 70.0 GiB of 80.0 GiB, 69.5 GiB more than before the server"}},
		{"our process in the list", []Memory{device(ended, 0.5*gigabyte, 7, 42)}, freedom{text: "GPU-1 still lists process 42 of the server"}},
		{"read before the end", []Memory{device(ended-1, 0.5*gigabyte, 42)}, freedom{stale: true}},
		{"the list alone", []Memory{listing}, freedom{free: true}},
		{"the list alone, occupied", []Memory{occupied}, freedom{text: "GPU-2 still lists process 42 of the server"}},
		{"neither", []Memory{device(ended, 0.5*gigabyte), silent}, freedom{unproven: "GPU-2 tells neither its memory nor its processes"}},
		{"one of two full", []Memory{device(ended, 0.5*gigabyte), {UUID: "GPU-2", T: ended, Used: record.Of(gigabyte), Total: record.NA("unsupported")}}, freedom{
			text: "GPU-2 holds 1.0 GiB, 0.5 GiB more than before the server",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ground := over(func() []Memory { return tt.devices })
			got := ground.freed(ground.level, ended, []int{41, 42})
			if got != tt.want {
				t.Errorf("\n got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	const ready = record.Instant(100)
	before := map[string]float64{"GPU-1": 0.5 * gigabyte}
	na := Memory{UUID: "GPU-1", T: ready, Used: record.NA("unsupported")}
	tests := []struct {
		name    string
		devices []Memory
		want    use
	}{
		{"no device", nil, useUnknown},
		{"a model", []Memory{device(ready, 20*gigabyte)}, onDevice},
		{"a small context", []Memory{device(ready, 0.6*gigabyte)}, onDevice},
		{"nothing", []Memory{device(ready, 0.5*gigabyte)}, offDevice},
		{"read before ready", []Memory{device(ready-1, 0.5*gigabyte)}, useUnknown},
		{"grown before ready", []Memory{device(ready-1, 20*gigabyte)}, onDevice},
		{"a device that does not tell", []Memory{na}, useUnknown},
		{"our process in the list of one that does not tell", []Memory{{UUID: "GPU-1", Used: record.NA("unsupported"), PIDs: []int{42}, Listed: 1}}, onDevice},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := over(func() []Memory { return tt.devices }).usage(before, ready, []int{42}); got != tt.want {
				t.Errorf("use = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestSurvey(t *testing.T) {
	g, err := Survey(func() []Memory { return []Memory{device(1, 3*gigabyte)} })
	if err != nil {
		t.Fatal(err)
	}
	self, err := proc.Table{}.Read(os.Getpid())
	if err != nil || !g.before().Has(self.ID) {
		t.Errorf("we are not among those who were there: %v", err)
	}
	if g.level["GPU-1"] != 3*gigabyte || !strings.Contains(g.summary(), "3.0 GiB of 80.0 GiB") {
		t.Errorf("level %v, summary %q", g.level, g.summary())
	}
	var none *Ground
	if none.memory() != nil || none.before().Has(self.ID) || none.summary() != "" || none.occupied(nil) != "" {
		t.Error("a ground that was not taken says something")
	}
}

// Beside another server of the session, whose memory stays, a server is gone when the devices are as before its own start.
func TestStopBesideAnotherServer(t *testing.T) {
	for _, beside := range []bool{true, false} {
		clock := record.NewClock()
		spec := scripted(t, "exec sleep 300")
		spec.Clock, spec.Beside, spec.MemoryTimeout = clock, beside, 300*time.Millisecond
		spec.Ground = over(func() []Memory { return []Memory{device(clock.Now(), 30*gigabyte)} })
		s := start(t, spec)
		_, err := s.Stop(t.Context())
		if beside && err != nil {
			t.Errorf("beside another: %v", err)
		}
		if !beside {
			e := wantError(t, err, record.MemoryNotFreed)
			if !strings.Contains(e.Text, "GPU-1 holds 30.0 GiB") || !strings.Contains(e.Text, "target.stop.memory_timeout") {
				t.Errorf("text: %s", e.Text)
			}
		}
	}
}

// A server that is ready, and on no device, is not what the session is about.
func TestReadyWithoutTheGPU(t *testing.T) {
	held := 0.5 * gigabyte
	clock := record.NewClock()
	spec := serving(t)
	spec.Clock, spec.ExpectGPU = clock, true
	spec.Ground = over(func() []Memory { return []Memory{device(clock.Now(), held)} })
	s := start(t, spec)
	e := wantError(t, s.Ready(t.Context(), nil), record.GPUNotUsed)
	if !strings.Contains(e.Text, "GPU-1 holds 0.5 GiB") || !strings.Contains(e.Text, "telemetry.expect_gpu") {
		t.Errorf("text: %s", e.Text)
	}
	held = 20 * gigabyte
	if err := s.Ready(t.Context(), nil); err != nil {
		t.Errorf("with 20 GiB: %v", err)
	}
	held = 0.5 * gigabyte
	report, err := s.Stop(t.Context())
	if wait, ok := report.MemoryWait.Finite(); err != nil || !ok || wait > 5 {
		t.Errorf("stop: %+v, %v", report, err)
	}
}

func TestSeen(t *testing.T) {
	const ready = record.Instant(100)
	two := func(used float64, at record.Instant, pids ...int) Memory {
		m := device(at, used, pids...)
		m.UUID = "GPU-2"
		return m
	}
	unlisted := two(20*gigabyte, ready)
	unlisted.Listed = ready - 1
	tests := []struct {
		name    string
		devices []Memory
		on      string
		doubt   string
	}{
		{"neither", []Memory{device(ready, 0.5*gigabyte), two(0.5*gigabyte, ready)}, "", ""},
		{"the second grew", []Memory{device(ready, 0.5*gigabyte), two(20*gigabyte, ready)}, "GPU-2", ""},
		{"both grew", []Memory{device(ready, 0.6*gigabyte), two(20*gigabyte, ready)}, "GPU-1 GPU-2", ""},
		{"the second lists us, the first grew for another", []Memory{device(ready, 30*gigabyte, 7), two(20*gigabyte, ready, 42)}, "GPU-2", ""},
		{"the first lists us, the second has an old list", []Memory{device(ready, 30*gigabyte, 42), unlisted}, "GPU-1 GPU-2", ""},
		{"the second lists us and tells no memory", []Memory{device(ready, 0.5*gigabyte), {UUID: "GPU-2", Used: record.NA("unsupported"), PIDs: []int{42}, Listed: ready}}, "GPU-2", ""},
		{"an old reading", []Memory{device(ready-1, 0.5*gigabyte), two(20*gigabyte, ready)}, "GPU-2", "GPU-1 told nothing of its memory after the server was ready"},
		{"one that does not tell", []Memory{device(ready, 20*gigabyte), {UUID: "GPU-2", Used: record.NA("unsupported")}}, "GPU-1", "GPU-2 told nothing of its memory after the server was ready"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ground := over(func() []Memory { return tt.devices })
			on, doubt := ground.seen(ground.level, ready, []int{41, 42})
			if strings.Join(on, " ") != tt.on || doubt != tt.doubt {
				t.Errorf("on %q, doubt %q; want %q, %q", on, doubt, tt.on, tt.doubt)
			}
		})
	}
}

// A started server is seen on the device whose memory grew; one that tells nothing is waited for, and then said.
func TestDevicesOfAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := record.NewClock()
		began := time.Now()
		silent := false
		ground := over(func() []Memory {
			at := clock.Now()
			if silent || time.Since(began) < 2*time.Second {
				at = 0
			}
			other := device(clock.Now(), 20*gigabyte)
			other.UUID = "GPU-2"
			return []Memory{device(at, 0.5*gigabyte), other}
		})
		s := &Server{spec: Spec{Clock: clock, Ground: ground}, group: stuckGroup{}, level: ground.level}
		on, doubt, err := s.Devices(t.Context())
		if strings.Join(on, " ") != "GPU-2" || doubt != "" || err != nil {
			t.Errorf("on %q, doubt %q, %v", on, doubt, err)
		}
		if waited := time.Since(began); waited < 2*time.Second || waited > 3*time.Second {
			t.Errorf("waited %v for a reading that came after 2 s", waited)
		}
		silent, began = true, time.Now()
		on, doubt, err = s.Devices(t.Context())
		if strings.Join(on, " ") != "GPU-2" || !strings.HasPrefix(doubt, "GPU-1 told nothing") || err != nil || time.Since(began) != useLimit {
			t.Errorf("on %q, doubt %q, %v after %v", on, doubt, err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if on, _, err = s.Devices(ctx); !errors.Is(err, context.Canceled) || on != nil {
			t.Errorf("cancelled: %q, %v", on, err)
		}
	})
}
