package simserver

import "net"

// receiver reads a connection and says when what it read had arrived.
type receiver interface {
	// read is like [net.Conn.Read]; at is the instant at which the last of the bytes was there to be read.
	read(b []byte) (n int, at int64, err error)
}

// reads is a receiver that knows no better than the end of its reads.
type reads struct {
	conn  net.Conn
	clock clock
}

func (r reads) read(b []byte) (int, int64, error) {
	n, err := r.conn.Read(b)
	return n, r.clock.now(), err
}
