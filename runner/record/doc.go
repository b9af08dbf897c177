// Package record is the language the other packages speak: what was declared before a run, what was measured in it, and
// how both lie on disk.
//
// The runner writes a [Run], the judge (package gate) reads it, the scribe renders it, people open it with jq. They share
// the types of this package and nothing else. It is a leaf: it imports the standard library and hdrhistogram, nothing of
// ours, and it knows no statistics beyond the percentiles of one round.
//
// Three rules hold for every type here. Times are int64 nanoseconds on the monotonic clock since the run's epoch; other
// units stand in the JSON key's suffix. A missing number is a [Value] with a reason, never 0. A type has no behaviour
// beyond reading, writing and summarising.
package record
