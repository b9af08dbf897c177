// Package canary shows whether the load generator still reads when it should. A second process writes a stream of events
// at a slow, steady pace, each carrying the CLOCK_MONOTONIC time read just before its write; the load generator reads that
// stream with the client it measures servers with. Both processes share the machine's clock, so our stamp of an event minus
// the one it carries is our own lateness: no server under test and no network is in between.
//
// It is an honest witness at next to no cost: 20 events a second, kept out of every sample and count. What makes it late
// makes the tokens of a server late by as much.
package canary
