package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// sharedDir is where named shared memory and semaphores live.
const sharedDir = "/dev/shm"

// Segment is a System V shared memory segment.
type Segment struct {
	// ID is its shmid; the kernel uses a number again.
	ID int
	// Bytes is its size, Creator the pid that made it.
	Bytes   int64
	Creator int
}

// Mapped lists the files below /dev/shm that a process has mapped, sorted: named shared memory, and semaphores as sem.NAME. What
// was unlinked already is left out. A process that may not be read has none.
func (t Table) Mapped(pid int) []string {
	text, err := os.ReadFile(t.path(strconv.Itoa(pid), "maps"))
	if err != nil {
		return nil
	}
	var paths []string
	for line := range strings.Lines(string(text)) {
		_, name, found := strings.Cut(strings.TrimSuffix(line, "\n"), " "+sharedDir+"/")
		if found && !strings.HasSuffix(name, " (deleted)") {
			paths = append(paths, filepath.Join(sharedDir, name))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Segments lists the System V segments there are. A kernel without them has none.
func (t Table) Segments() []Segment {
	text, err := os.ReadFile(t.path("sysvipc", "shm"))
	if err != nil {
		return nil
	}
	head, rest, _ := strings.Cut(string(text), "\n")
	names := strings.Fields(head)
	id, size, creator := slices.Index(names, "shmid"), slices.Index(names, "size"), slices.Index(names, "cpid")
	if id < 0 || size < 0 || creator < 0 {
		return nil
	}
	var all []Segment
	for line := range strings.Lines(rest) {
		fields := strings.Fields(line)
		if len(fields) <= max(id, size, creator) {
			continue
		}
		n, errID := strconv.Atoi(fields[id])
		bytes, errSize := strconv.ParseInt(fields[size], 10, 64)
		pid, errPID := strconv.Atoi(fields[creator])
		if errID == nil && errSize == nil && errPID == nil {
			all = append(all, Segment{ID: n, Bytes: bytes, Creator: pid})
		}
	}
	return all
}
