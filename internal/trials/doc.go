// Package trials runs gate sessions whose right verdict is known, and counts how often the gate and the rules of its peers
// reach it. Each session is `tailgate run` as anybody starts it, a process of its own, on a scratch repository whose two commits
// start the simulated server with different configurations. Results are appended to a file, one line a session, so that hours
// of sessions can be collected in pieces.
//
// The package is part of no build of tailgate: the command scripts/trials and tests use it. It may start processes, write below a
// scratch folder and read /proc/stat; it judges nothing itself but by the peers' rules in peer.go, which exist here only.
package trials
