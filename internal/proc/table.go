package proc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// commandLimit is the longest command shown, in bytes.
const commandLimit = 200

// ID names one process for good: the kernel uses a pid again, but not with the same start time.
type ID struct {
	PID int
	// Start is field 22 of /proc/PID/stat: clock ticks since boot.
	Start uint64
}

// Process is one row of the process table.
type Process struct {
	ID
	PPID, PGID, SID int
	// State is the kernel's letter: R, S, D (cannot be killed while it lasts), Z (dead, not reaped) …
	State byte
	// Comm is the short name, hostile text of at most 15 bytes.
	Comm string
}

// Dead reports whether the process has ended and only waits to be reaped.
func (p Process) Dead() bool { return p.State == 'Z' || p.State == 'X' || p.State == 'x' }

// Table reads the process table. The zero value reads /proc; tests set Root to a folder of the same shape.
type Table struct{ Root string }

func (t Table) path(elem ...string) string {
	return filepath.Join(append([]string{cmp.Or(t.Root, "/proc")}, elem...)...)
}

// Read returns the process with this pid, or an error that wraps fs.ErrNotExist when there is none.
func (t Table) Read(pid int) (Process, error) {
	data, err := os.ReadFile(t.path(strconv.Itoa(pid), "stat"))
	if err != nil {
		return Process{}, err
	}
	return parseStat(data)
}

// List returns the processes whose pid skip does not refuse, by rising pid. Those that end while it reads are left out.
func (t Table) List(skip func(pid int) bool) ([]Process, error) {
	dir, err := os.Open(t.path())
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	var list []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || (skip != nil && skip(pid)) {
			continue
		}
		p, err := t.Read(pid)
		if err != nil && !vanished(err) {
			return nil, fmt.Errorf("process table: %w", err) // a short list would pass for "all gone"
		}
		if err == nil {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return list, nil
}

// vanished reports whether a process ended while it was read, or is another user's and hidden from us.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, fs.ErrPermission)
}

// Command returns the command line of a process, masked, cleaned and at most 200 bytes; its short name in brackets when the
// command line is empty, as for a kernel thread or a zombie; "" when there is no such process.
func (t Table) Command(pid int, m *Mask) string {
	data, err := os.ReadFile(t.path(strconv.Itoa(pid), "cmdline"))
	if line := string(bytes.TrimRight(bytes.ReplaceAll(data, []byte{0}, []byte{' '}), " ")); err == nil && line != "" {
		return Clean(m.String(line), commandLimit)
	}
	if p, err := t.Read(pid); err == nil {
		return Clean("["+p.Comm+"]", commandLimit)
	}
	return ""
}

// hasVariable reports whether the environment that a process was started with holds the entry NAME=value. False when it
// may not be read.
func (t Table) hasVariable(pid int, entry string) bool {
	data, err := os.ReadFile(t.path(strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	for have := range bytes.SplitSeq(data, []byte{0}) {
		if string(have) == entry {
			return true
		}
	}
	return false
}

var errStat = errors.New("malformed stat line")

// parseStat reads /proc/PID/stat (proc(5)): "pid (comm) state ppid pgrp session …". The short name may itself hold spaces
// and parentheses, so fields are counted from the last one.
func parseStat(data []byte) (Process, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return Process{}, errStat
	}
	fields := bytes.Fields(data[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 || !isLetter(fields[0][0]) {
		return Process{}, errStat
	}
	p := Process{State: fields[0][0], Comm: string(data[open+1 : end])}
	for _, f := range []struct {
		to   *int
		from []byte
	}{
		{&p.PID, bytes.TrimSpace(data[:open])}, {&p.PPID, fields[1]}, {&p.PGID, fields[2]}, {&p.SID, fields[3]},
	} {
		n, err := strconv.Atoi(string(f.from))
		if err != nil {
			return Process{}, errStat
		}
		*f.to = n
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return Process{}, errStat
	}
	p.Start = start
	return p, nil
}

// isLetter reports whether a state is one the kernel prints.
func isLetter(b byte) bool { return 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z' }
