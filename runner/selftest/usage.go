package selftest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// usage accounts for the CPU time of both processes over the measured interval, and for our memory over the whole run.
type usage struct {
	clock record.Clock
	pid   int

	mu     sync.Mutex
	opened bool
	closed bool
	timers []*time.Timer
	// began and ended are when the interval was really opened and closed.
	began, ended record.Instant
	own, server  time.Duration
	serverErr    error
	// machine is the CPU time of everybody on this machine.
	machine    time.Duration
	machineErr error

	rssBefore, rssPeak int64
	stop               chan struct{}
	watching           sync.WaitGroup
}

// rssEvery is how often our memory is looked at.
const rssEvery = 100 * time.Millisecond

// watch begins to look at our memory.
func (u *usage) watch() {
	debug.FreeOSMemory() // growth counts; what an earlier run left behind would hide it
	u.rssBefore = residentBytes()
	u.rssPeak, u.stop = u.rssBefore, make(chan struct{})
	u.watching.Go(func() {
		t := time.NewTicker(rssEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				u.rssPeak = max(u.rssPeak, residentBytes())
			case <-u.stop:
				return
			}
		}
	})
}

// measure opens the interval at m0 and closes it at m1, or when the run ends before.
func (u *usage) measure(m0, m1 record.Instant) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.timers = []*time.Timer{time.AfterFunc(u.clock.Until(m0), u.begin), time.AfterFunc(u.clock.Until(m1), u.end)}
}

func (u *usage) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.opened = true
	u.own = ownCPU()
	u.server, u.serverErr = serverCPU(u.pid)
	u.machine, u.machineErr = machineCPU()
	u.began = u.clock.Now()
}

func (u *usage) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.opened || u.closed {
		return
	}
	u.closed = true
	u.ended = u.clock.Now()
	u.own = ownCPU() - u.own
	if u.serverErr == nil {
		var now time.Duration
		now, u.serverErr = serverCPU(u.pid)
		u.server = now - u.server
	}
	if u.machineErr == nil {
		var now time.Duration
		now, u.machineErr = machineCPU()
		u.machine = now - u.machine
	}
}

// others is the CPU time that neither we nor the server took. What the kernel does for a socket it counts as nobody's.
func (u *usage) others() (time.Duration, error) {
	return max(u.machine-u.own-u.server, 0), errors.Join(u.serverErr, u.machineErr)
}

// close ends what still runs.
func (u *usage) close() {
	u.end()
	u.mu.Lock()
	for _, t := range u.timers {
		t.Stop()
	}
	u.mu.Unlock()
	if u.stop != nil {
		close(u.stop)
		u.watching.Wait()
	}
}

// seconds is the length of the interval, 0 when it was never opened.
func (u *usage) seconds() float64 { return time.Duration(u.ended - u.began).Seconds() }

// within reports whether an instant lies in the interval.
func (u *usage) within(at record.Instant) bool { return at >= u.began && at < u.ended }

func ownCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// serverCPU is the CPU time of another process so far, to a tick of the kernel's accounts (10 ms).
func serverCPU(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, fmt.Errorf("the server's process is not known")
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in brackets, may hold blanks; fields 14 and 15 of proc(5) are the 12th and 13th after it.
	_, rest, _ := bytes.Cut(text, []byte(") "))
	fields := bytes.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: too short", pid)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// machineCPU is the CPU time of all processes of this machine so far, without interrupts, to a tick of the kernel's
// accounts; time that a hypervisor took away is in it.
func machineCPU() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, errors.New("/proc/stat: not as proc(5) says")
	}
	var ticks int64
	for _, i := range []int{1, 2, 3, 8} { // user, nice, system, steal
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// residentBytes is our resident memory, 0 where the system does not say.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
