//go:build !linux

package simserver

import "time"

// clock reads the monotonic clock in nanoseconds since the process began to count: without a kernel clock that other
// processes share, stamps compare within this server only.
type clock struct{ base time.Time }

func newClock() clock { return clock{base: time.Now()} }

func (c clock) now() int64 { return 1 + int64(time.Since(c.base)) }
