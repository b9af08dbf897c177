package simserver

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server's children outlive it, deaf to SIGTERM; SIGKILL ends them.
func TestChildrenOutliveTheServer(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childEnv, "child") // what this process starts from here on is a child
	before := childrenOf(t, os.Getpid())
	in := start(t, quick(func(c *Config) { c.Children = Children{Count: 2, IgnoreSIGTERM: true, OwnSession: true} }),
		func(o *Options) { o.Spawn = Respawn(exe) })
	in.get(t, "/health")
	var pids []int
	for pid := range childrenOf(t, os.Getpid()) {
		if !before[pid] {
			pids = append(pids, pid)
		}
	}
	if len(pids) != 2 {
		t.Fatalf("children %v, want two", pids)
	}
	t.Cleanup(func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	in.stop()
	if err := in.wait(t); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		in.until(t, "deafness", func() bool { return ignoresTerm(t, pid) })
		if sid, err := sessionOf(pid); err != nil || sid != pid {
			t.Errorf("child %d is in session %d, %v", pid, sid, err)
		}
		_ = syscall.Kill(pid, syscall.SIGTERM)
		time.Sleep(20 * time.Millisecond)
		if err := syscall.Kill(pid, 0); err != nil {
			t.Errorf("child %d died of SIGTERM: %v", pid, err)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		in.until(t, "death", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
}

func TestRunChild(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var log bytes.Buffer
	if err := RunChild(ctx, `{"index":3}`, &log); err != nil || log.String() != "child 3 lives\n" {
		t.Errorf("%v, %q", err, log.String())
	}
	if err := RunChild(ctx, `3`, &log); err == nil {
		t.Error("a number is no child")
	}
}

// childrenOf lists the living children of a process, from procfs.
func childrenOf(t *testing.T, pid int) map[int]bool {
	t.Helper()
	found := map[int]bool{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("no procfs here")
	}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if fields := statOf(child); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			found[child] = true
		}
	}
	return found
}

// statOf is /proc/PID/stat behind the command's name: state, parent, group, session …
func statOf(pid int) []string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return strings.Fields(rest)
}

func sessionOf(pid int) (int, error) {
	fields := statOf(pid)
	if len(fields) < 4 {
		return 0, os.ErrProcessDone
	}
	return strconv.Atoi(fields[3])
}

// ignoresTerm reads the mask of ignored signals; a child is deaf only once it runs.
func ignoresTerm(t *testing.T, pid int) bool {
	t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "SigIgn:")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err == nil && mask&(1<<(uint(syscall.SIGTERM)-1)) != 0
}
