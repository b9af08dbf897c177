package client

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Request is one request, serialised before it is due. The exported fields may be set until [Client.Do] is called.
type Request struct {
	// Seq numbers the request within its round.
	Seq   int
	Phase record.Phase
	// Sched is when the request is due. The connection is sought [DialAhead] before.
	Sched record.Instant
	// Ahead, when set, is asked [DialAhead] before the request is due whether a connection may be sought before the release:
	// a request that will wait for a place in flight must not hold one meanwhile.
	Ahead func() bool
	// Early, when set, lets the releaser write the request.
	Early *Handover
	// Wire is head and body as they are written. The head names the server's port, which differs between rounds; Body, a
	// part of Wire, is equal in all. Over HTTP/2 the head is put in other words and only Body is written as it is.
	Wire, Body []byte
	// Tap, when set, is called on the reading goroutine for each payload event, with the stamp of the event before it (0
	// for the first) and its own. It must be quick.
	Tap func(prev, now record.Instant)
	// Ended, when set, is called once by [Client.Do], on its goroutine, as soon as the outcome is known: for a stream that is
	// at its end marker, up to 100 ms before Do returns, since Do then waits for the connection to become clean. end is the
	// sample's End, 0 when the answer did not get there; ok says that its class is "ok". It must be quick.
	Ended func(end record.Instant, ok bool)

	id, conv, path string
	turn           int
	// inPlanned and outPlanned are the workload's token counts, 0 when it has none.
	inPlanned, outPlanned int
	allowEmpty            bool
	checks                []check
	want                  expectation
	bodySHA               string
}

// maxRequestID bounds an id a server gave to an answer.
const maxRequestID = 80

// maxModelName bounds the model name that an answer gives, in bytes.
const maxModelName = 200

// serialise makes the bytes of a request. Header fields are in a fixed order, so that equal requests are equal bytes.
func (c *Client) serialise(body []byte, path string) (wire, tail []byte) {
	method := cmp.Or(c.o.Method, http.MethodPost)
	var b bytes.Buffer
	b.Grow(512 + len(body))
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tailgate\r\nAccept-Encoding: identity\r\n", method, path, c.to.hostPort)
	if method != http.MethodGet {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	for _, name := range slices.Sorted(maps.Keys(c.o.Header)) {
		for _, v := range c.o.Header[name] {
			fmt.Fprintf(&b, "%s: %s\r\n", name, v)
		}
	}
	b.WriteString("\r\n")
	head := b.Len()
	b.Write(body)
	return b.Bytes(), b.Bytes()[head:]
}

// sha16 is the first 16 hex digits of SHA-256.
func sha16(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
