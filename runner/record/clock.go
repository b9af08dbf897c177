package record

import "time"

// Instant is a point in time: nanoseconds on the monotonic clock since the run's epoch. Zero means "not reached"; a
// [Clock] never returns it.
type Instant int64

// Reached reports whether the instant happened.
func (i Instant) Reached() bool { return i != 0 }

// Clock gives instants of one run. It is safe for concurrent use. On Linux its readings are CLOCK_MONOTONIC minus the
// epoch; inside a testing/synctest bubble they are the bubble's fake time.
type Clock struct{ epoch time.Time }

// NewClock starts the clock of a run now.
func NewClock() Clock { return Clock{epoch: time.Now()} }

// Epoch is the wall time at which the clock started; it joins our instants to other people's logs.
func (c Clock) Epoch() time.Time { return c.epoch }

// Now is the current instant. The first nanosecond is 1, so that no reading is "not reached".
func (c Clock) Now() Instant { return Instant(time.Since(c.epoch)) + 1 }

// Until is the time left until i; negative when i has passed.
func (c Clock) Until(i Instant) time.Duration { return time.Duration(i - c.Now()) }

// At is the moment of i as a time.Time with a monotonic reading, for deadlines of connections and contexts.
func (c Clock) At(i Instant) time.Time { return c.epoch.Add(time.Duration(i - 1)) }
