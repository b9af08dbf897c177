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

// checkSpace refuses a session that would fill the disk: better nothing measured than half of it.
func checkSpace(dir string, run *record.Run) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		// A file system that does not tell its size is no reason not to measure; a full one shows when it is written.
		return nil //nolint:nilerr // see above
	}
	free, want := fs.Bavail*uint64(fs.Bsize), needed(run)
	if free >= want {
		return nil
	}
	return fmt.Errorf("%w: %d MiB free in %s, this session may need %d MiB", record.ErrDiskFull, free>>20, dir, (want>>20)+1)
}
