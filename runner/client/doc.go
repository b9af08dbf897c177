// Package client is the instrument: it sends one request once, stamps the bytes of the answer as they arrive, and says
// how it ended.
//
// It owns its connections. Nothing here goes through [net/http.Transport], because each comfort of that type bends a
// measurement: it may send a request twice, follow a redirect, obey a proxy variable, inflate a body, or dial while the
// clock runs. A request is serialised before it is due and written with one Write, over a connection that stamps each read
// of the socket before anybody looks at the bytes; the answer's head is parsed as [net/http.ReadResponse] does, and by it
// where there is anything odd; the
// body is taken apart by small decoders that are pushed the bytes of one read at a time, so that an event carries the
// stamp of the read that completed it and of no later one.
//
// The path of a byte: conn stamps it, framing (chunks, length, close) strips the transfer coding, sse cuts the body into
// events, answer reads from an event what it must know at once (payload, finish, usage, error), and conclude turns the
// whole into one outcome class. Each stage is a file and knows only the next one.
//
// The package touches the network and its own clock, nothing else: no environment, no log, and of files only those in
// which the kernel names its local ports (preflight.go). It imports runner/record for its results and, in encode.go alone,
// runner/workload for the requests it serialises.
package client
