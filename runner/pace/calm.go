package pace

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

const (
	// headroom bounds what may be allocated between two collections of a measured interval.
	leastHeadroom, mostHeadroom = 64 << 20, 1 << 30
	// unknownMemory stands in where the machine does not tell what is free.
	unknownMemory = 1 << 30
)

// Calm collects garbage now and then lets the heap grow by up to 1 GiB, a quarter of the free memory at most, before the
// collector runs again: a short interval sees no collection at all, a long one few. A memory limit of half the free memory
// bounds the growth, so that the server under test is not driven to swap. The returned function restores what held before;
// it may be called more than once.
func Calm() (restore func()) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	free := freeMemory()
	room := min(max(free/4, leastHeadroom), mostHeadroom)
	// The collector runs when the heap has grown by this share of what is live (and of its roots, which are small).
	percent := room * 100 / max(m.HeapAlloc, 1<<20)
	limit := debug.SetMemoryLimit(-1)
	ours := min(limit, int64(m.Sys-m.HeapReleased)+int64(max(free/2, leastHeadroom)))
	before := debug.SetGCPercent(int(max(percent, 100)))
	debug.SetMemoryLimit(ours)
	return sync.OnceFunc(func() {
		debug.SetGCPercent(before)
		debug.SetMemoryLimit(limit)
	})
}

// freeMemory is what this process may still take, bytes: what the kernel calls available, or what is left of the control
// group's limit if that is less.
func freeMemory() uint64 {
	free := uint64(unknownMemory)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if n, ok := available(string(text)); ok {
			free = n
		}
	}
	limit, err1 := os.ReadFile("/sys/fs/cgroup/memory.max")
	used, err2 := os.ReadFile("/sys/fs/cgroup/memory.current")
	if err1 != nil || err2 != nil {
		return free
	}
	return min(free, leftOf(string(limit), string(used)))
}

// available reads MemAvailable of /proc/meminfo, in bytes.
func available(meminfo string) (uint64, bool) {
	for line := range strings.Lines(meminfo) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(f[1], 10, 54)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// leftOf is what a control group may still take; no limit is the largest number.
func leftOf(limit, used string) uint64 {
	most, err1 := strconv.ParseUint(strings.TrimSpace(limit), 10, 64)
	now, err2 := strconv.ParseUint(strings.TrimSpace(used), 10, 64)
	switch {
	case err1 != nil || err2 != nil:
		return math.MaxUint64
	case now > most:
		return 0
	default:
		return most - now
	}
}
