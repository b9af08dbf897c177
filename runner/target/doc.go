// Package target starts a server, finds out when it is ready, stops it, and proves that it is gone.
//
// One [Server] is one start: [Start] gives it a fresh port and TMPDIR, [Server.Ready] waits for a real answer,
// [Server.Stop] ends the whole process tree and shows that its port is free and that the GPUs are back at the level of the
// [Ground]. What goes wrong is an [Error] whose ID is an
// incident of runner/record; whose fault that is, the judge decides. The package knows no API dialect: the readiness probe
// is handed in. It may use runner/record and internal/proc.
package target
