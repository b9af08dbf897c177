// Package runner is the conductor: it measures the arms of one session in their declared order and leaves a complete
// record behind.
//
// It starts a fresh server for every round (or keeps one of each arm up, where that was declared), waits for a real answer, warms it up by the declared rule, offers the measured
// interval in an open loop, stops the server and has it proven gone. It knows no statistics: whether a round is void and
// whether the session may stop are asked of two functions that the command hands in, so that the judge is never imported
// here. It uses its own sub-packages and nothing else of ours.
package runner
