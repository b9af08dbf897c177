package runner

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// sampleBytes and eventBytes are what a request and one of its tokens take on disk at most; tests of runner/record hold
	// them.
	sampleBytes, eventBytes = 700, 2.5
	// fixedBytes is what a round takes whatever its requests: windows, telemetry, a server's log.
	fixedBytes = 256 << 10
)

// needed estimates the disk space of the rounds that were declared, warm-up traffic as long as the interval included,
// twice over.
func needed(run *record.Run) uint64 {
	w := run.Workload
	perRound := 2*float64(w.Requests)*(sampleBytes+eventBytes*float64(w.OutTokens.P90)) + fixedBytes
	return uint64(2 * perRound * float64(len(run.Declared.Order)))
}

// lowWater is the free space below which a round stops while its files, and run.json, can still be written.
const lowWater = 8 << 20

// spaceLeft is the error of a disk that is about to be full, asked once a second while a round is measured.
func spaceLeft(dir string) error {
	free, ok := freeSpace(dir)
	if !ok || free >= lowWater {
		return nil
	}
	return fmt.Errorf("%w: %d KiB free in %s, a round stops below %d MiB so that what it has can be written; free some space and run again",
		record.ErrDiskFull, free>>10, dir, lowWater>>20)
}

// freeSpace is what unprivileged writers may still take, bytes; ok is false for a file system that does not tell.
func freeSpace(dir string) (bytes uint64, ok bool) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, false
	}
	return fs.Bavail * uint64(fs.Bsize), true
}

// checkSpace refuses a session that would fill the disk: better nothing measured than half of it.
func checkSpace(dir string, run *record.Run) error {
	// A file system that does not tell its size is no reason not to measure; a full one shows when it is written.
	free, ok := freeSpace(dir)
	want := needed(run)
	if !ok || free >= want {
		return nil
	}
	return fmt.Errorf("%w: %d MiB free in %s, this session may need %d MiB", record.ErrDiskFull, free>>20, dir, (want>>20)+1)
}
