// Package workload holds what is sent: a versioned, digested set of requests with their arrivals, conversations and
// output-length policy.
//
// Everything random is drawn when a workload is built, and stored; replay uses integer arithmetic only. One digest
// therefore means the same bytes at the same offsets in every round, on every machine, with every version of Go. A
// [Workload] is made by [Open] (a folder), [Import] (a trace), [Generate] (a distribution) or [New] (turns in memory), and is
// never changed afterwards. How requests are sent and timed is the business of packages client and pace.
//
// This room reads and writes workload folders and reads traces. It knows no server, no clock and no arm; of ours it
// imports runner/record, for the words of the report.
package workload
