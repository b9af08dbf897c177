// Package selftest measures the instrument: the client and the pacer of a round, against a server that knows when it
// wrote what. What they add to a latency, how late they are, how much they can take and what that costs is the error of
// every figure that tailgate reports.
//
// It sends requests as a round does (serialised ahead, a goroutine and a connection ready, released by the pacer, read by
// the client), keeps no files, and joins samples with the server's stamps by the header x-request-id. The server is a
// process of its own that shares our clock's rate; only differences of its stamps are used. The package touches the
// network address it is given, the process's own resource usage, and /proc.
package selftest
