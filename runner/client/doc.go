// Package client is the instrument: it sends one request once, stamps the bytes of the answer as they arrive, and says
// how it ended.
//
// It owns its connections. Nothing that is measured over HTTP/1.1 goes through [net/http.Transport], because each comfort of
// that type bends a measurement: it may send a request twice, follow a redirect, obey a proxy variable, inflate a body, or dial while the
// clock runs. A request is serialised before it is due and written with one Write, over a connection that stamps each read
// of the socket before anybody looks at the bytes; the answer's head is parsed as [net/http.ReadResponse] does, and by it
// where there is anything odd; the
// body is taken apart by small decoders that are pushed the bytes of one read at a time, so that an event carries the
// stamp of the read that completed it and of no later one.
//
// The path of a byte: conn stamps it, framing (chunks, length, close) strips the transfer coding, sse or lines cuts the body
// into events, the dialect reads one event by walking over it, answer keeps what must be known at once (payload, finish,
// usage, error), and conclude turns the whole into one outcome class. Each stage is a file and knows only the next one; an
// event of an answer no longer than planned allocates nothing.
//
// With Options.HTTP2 requests are streams of one connection instead (trunk.go, stream.go), over a [net/http.ClientConn]: that
// type sends a request once or not at all, follows nothing, asks for no compression and knows no proxy. Outcomes, parsers and
// limits are the same. Stamps are taken when net/http hands the bytes on, after its reader of frames: first and last are late
// by a turn of the scheduler, frames that came close together are one read, and a stream can wait for another one's bytes,
// for flow control, or for its turn where the server bounds how many it takes at a time. Of a request and an answer only the
// body's bytes are counted.
//
// A dialect is a file with one function and a line in the table of dialect.go. It says where and in which words a request is
// put, and fills an event from a walk; what an event then means is the same for all of them.
//
// The package touches the network and its own clock, nothing else: no environment, no log, and of files only those in
// which the kernel names its local ports (preflight.go). It imports runner/record for its results and, in encode.go alone,
// runner/workload for the requests it serialises.
package client
