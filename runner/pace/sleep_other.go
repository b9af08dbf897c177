//go:build !linux

package pace

import "time"

// sleep blocks for d; the caller spins for the last stretch, so a late wake-up of less than that is harmless.
func sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // this system has no absolute sleep; bounded by the caller to a slice
}
