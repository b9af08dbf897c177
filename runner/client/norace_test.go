//go:build !race

package client

// raceEnabled says that the race detector watches.
const raceEnabled = false
