// Package proc runs other people's programs: builds, servers and sensors.
//
// It decides which environment variables they see ([Environ]), hides secrets in what they print ([Mask], [Tail]), starts
// them in a session of their own ([Start]), remembers every process they leave behind, and ends all of those and nothing
// else ([Group.End]).
//
// A process is ours if it is in the child's process group or session, if it descends from the child by the recorded tree
// of (pid, start time), if it is an orphan that the kernel hung below us and that no other child can have left, or if its
// environment holds the temporary folder that only this child was given. Name, port and user alone never make a process
// ours. No signal is sent to a pid of 1 or below, to our own group, to a pid whose start time is not the recorded one, or to
// a process of the [Census] that was taken before.
//
// The package works on Linux, imports nothing of ours and reads no environment of its own.
package proc
