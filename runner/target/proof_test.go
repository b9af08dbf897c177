package target

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// slowDevice gives its memory back over 12 s, from 70 GiB to the 0.5 GiB it held before the session.
func slowDevice(clock record.Clock) *Ground {
	began := time.Now()
	return over(func() []Memory {
		share := min(1, time.Since(began).Seconds()/12)
		return []Memory{device(clock.Now(), (70-share*69.5)*gigabyte)}
	})
}

// P-03: a port that is held for 5 s, memory that falls over 12 s.
func TestP03PortAndMemoryAreBothFree(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit time.Duration
		took  time.Duration
		held  bool
	}{
		{"limit of 60 s", time.Minute, 12 * time.Second, false},
		{"limit of 10 s", 10 * time.Second, 10 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, clock := time.Now(), record.NewClock()
				ground, ended := slowDevice(clock), clock.Now()
				p := proof{
					port: func() bool { return time.Since(began) >= 5*time.Second }, portLimit: time.Minute,
					memory: func() freedom { return ground.freed(ground.level, ended, nil) }, memoryLimit: tt.limit,
				}
				got := p.wait(t.Context())
				// The last hundredth of the device counts as free: 1 % of 80 GiB of the 69.5 GiB that come back.
				const early = 200 * time.Millisecond
				if took := time.Since(began); took < tt.took-early || took > tt.took+freeEvery {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				memory, _ := got.memory.Finite()
				if got.port.Round(freeEvery) != 5*time.Second || memory < tt.took.Seconds()-0.2 || got.portHeld || (got.memoryHeld != "") != tt.held {
					t.Errorf("evidence = %+v", got)
				}
				if tt.held && !strings.Contains(got.memoryHeld, "GPU-1 holds 12.1 GiB of 80.0 GiB") {
					t.Errorf("held: %s", got.memoryHeld)
				}
			})
		})
	}
}

func TestProofOfWhatCannotBeProven(t *testing.T) {
	free := func() bool { return true }
	tests := []struct {
		name     string
		port     func() bool
		memory   func() freedom
		took     time.Duration
		unproven string
	}{
		{"no GPU", free, nil, 0, ""},
		{"devices that say nothing", free, func() freedom { return freedom{unproven: "mute"} }, unprovenPause, "mute"},
		{"no reading since", free, func() freedom { return freedom{stale: true} }, staleLimit, "no reading of the GPU came after the server's end"},
		{"held, and another says nothing", free, func() freedom { return freedom{unproven: "mute", text: "full"} }, time.Minute, ""},
		{"a port that stays taken", func() bool { return false }, nil, 30 * time.Second, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				got := proof{port: tt.port, portLimit: 30 * time.Second, memory: tt.memory, memoryLimit: time.Minute}.wait(t.Context())
				if took := time.Since(began); took != tt.took || got.unproven != tt.unproven {
					t.Errorf("took %v, want %v; evidence %+v", took, tt.took, got)
				}
				if _, present := got.memory.Get(); present != (tt.name == "held, and another says nothing") {
					t.Errorf("memory = %v", got.memory)
				}
				if got.portHeld != !tt.port() {
					t.Errorf("port held: %v", got.portHeld)
				}
			})
		})
	}
}

func TestProofCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(2*time.Second, cancel)
		p := proof{port: func() bool { return false }, portLimit: time.Minute, memory: func() freedom { return freedom{stale: true} }, memoryLimit: time.Minute}
		if got := p.wait(ctx); !got.portHeld || time.Since(began) > 2*time.Second+cancelWait+freeEvery {
			t.Errorf("took %v: %+v", time.Since(began), got)
		}
		// Cancelled from the start: no pause for what cannot be proven either.
		began = time.Now()
		p = proof{port: func() bool { return true }, memory: func() freedom { return freedom{unproven: "mute"} }}
		if got := p.wait(ctx); got.unproven != "mute" || time.Since(began) > cancelWait {
			t.Errorf("took %v: %+v", time.Since(began), got)
		}
	})
}

// stuckGroup is a server of which one process does not die.
type stuckGroup struct{ left []proc.Survivor }

func (stuckGroup) PID() int { return 1<<22 + 1 }

func (stuckGroup) Exited() <-chan struct{} {
	ended := make(chan struct{})
	close(ended)
	return ended
}

func (stuckGroup) Wait() proc.Exit { return proc.Exit{Code: 137, Text: "signal: killed"} }

func (g stuckGroup) Living() []proc.Process { return g.Seen() }

func (g stuckGroup) Seen() []proc.Process {
	var all []proc.Process
	for _, s := range g.left {
		all = append(all, s.Process)
	}
	return all
}

func (g stuckGroup) End(_ context.Context, l proc.Ladder) proc.Report {
	took := l.Grace + time.Minute
	time.Sleep(took)
	return proc.Report{Took: took, Signals: []string{"SIGTERM", "SIGKILL"}, Forced: 1, Left: g.left}
}

func (stuckGroup) Kill() {}

// P-02: SIGKILL does not end a worker, and half of the GPU stays taken: all of it is named.
func TestP02StuckProcessIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := Spec{
			Start: "server", Grace: 20 * time.Second, Signal: syscall.SIGTERM, Clock: record.NewClock(),
			Ground: over(func() []Memory { return []Memory{device(1, 40*gigabyte, 1<<22+5)} }),
		}
		s := &Server{spec: spec.withDefaults(), over: make(chan struct{})}
		s.attend(stuckGroup{left: []proc.Survivor{{Process: proc.Process{ID: proc.ID{PID: 1<<22 + 5, Start: 7}, State: 'D'}, Command: "gpu worker 3"}}})
		began := time.Now()
		report, err := s.Stop(t.Context())
		if took := time.Since(began); took > 80*time.Second {
			t.Errorf("took %v; want 60 s after a grace of 20 s", took)
		}
		e := wantError(t, err, record.RunnerDirty)
		for _, part := range []string{"pid 4194309", "gpu worker 3", "state D", "GPU-1 holds 40.0 GiB of 80.0 GiB", "the runner needs a restart"} {
			if !strings.Contains(e.Text, part) {
				t.Errorf("%q lacks %q", e.Text, part)
			}
		}
		if report.Forced != 1 || len(report.Signals) != 2 {
			t.Errorf("report = %+v", report)
		}
		synctest.Wait()
	})
}
