package client

import (
	"bufio"
	"bytes"
	"net/http"
	"slices"
	"strconv"
)

// head is what is kept of a response head.
type head struct {
	// status is 0 while no head was read.
	status int
	kind   framing
	// length is that of a body framed by length.
	length int64
	// close says that the connection ends with this answer.
	close bool
	// Values of header fields, empty when absent.
	encoding, requestID, location, binary string
}

// verdict is what parseHead makes of the bytes so far.
type verdict int

const (
	// plainHead: complete, and nothing in it that two parsers could read differently.
	plainHead verdict = iota
	// cutHead: plain as far as it goes.
	cutHead
	// oddHead: for net/http to decide.
	oddHead
)

const statusLine = "HTTP/1.1 200"

// parseHead reads the head that b begins with; n is its length when it is plain. It knows the heads that servers send day in,
// day out, and leaves everything else (HTTP/1.0, folded lines, doubled fields, odd bytes, statuses without a body) to
// [http.ReadResponse]; a fuzz test holds it to that parser's results. Reading a head by the standard library costs as much
// as reading a small answer whole.
func parseHead(b []byte) (h head, n int, v verdict) {
	h.length = -1
	var seen fieldSet
	for first := true; ; first = false {
		end := bytes.IndexByte(b[n:], '\n')
		if end < 0 {
			return head{}, 0, cutHead
		}
		line := b[n : n+end]
		n += end + 1
		if len(line) == 0 || line[len(line)-1] != '\r' {
			return head{}, 0, oddHead
		}
		line = line[:len(line)-1]
		switch {
		case first && h.parseStatus(line):
		case first:
			return head{}, 0, oddHead
		case len(line) == 0:
			return h, n, h.frame(seen)
		case !h.parseField(line, &seen):
			return head{}, 0, oddHead
		}
	}
}

// parseStatus takes the status line of a final answer that has a body.
func (h *head) parseStatus(line []byte) bool {
	if len(line) < len(statusLine) || string(line[:9]) != statusLine[:9] || len(line) > len(statusLine) && line[len(statusLine)] != ' ' {
		return false
	}
	for _, c := range line[9:len(statusLine)] {
		if c < '0' || c > '9' {
			return false
		}
		h.status = 10*h.status + int(c-'0')
	}
	return h.status >= 200 && h.status <= 599 && h.status != http.StatusNoContent && h.status != http.StatusNotModified && plainText(line)
}

// fieldSet notes which of the fields that matter were seen.
type fieldSet uint8

const (
	sawLength fieldSet = 1 << iota
	sawChunked
	sawConnection
	sawEncoding
	sawRequestID
	sawLocation
	sawBinary
)

// add reports whether a field is seen for the first time.
func (s *fieldSet) add(f fieldSet) bool {
	first := *s&f == 0
	*s |= f
	return first
}

// parseField takes one header line.
func (h *head) parseField(line []byte, seen *fieldSet) bool {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || !plainText(line) {
		return false
	}
	name := line[:colon]
	for _, c := range name {
		if !nameByte(c) {
			return false
		}
	}
	value := bytes.Trim(line[colon+1:], " \t")
	// The length tells most names apart before a byte is compared.
	switch {
	case is(name, "Content-Length"):
		n, err := strconv.ParseUint(string(value), 10, 50)
		h.length = int64(n)
		return err == nil && seen.add(sawLength)
	case is(name, "Transfer-Encoding"):
		return is(value, "chunked") && seen.add(sawChunked)
	case is(name, "Connection"):
		h.close = is(value, "close")
		return (h.close || is(value, "keep-alive")) && seen.add(sawConnection)
	case is(name, "Content-Encoding"):
		h.encoding = string(value)
		return seen.add(sawEncoding)
	case is(name, headerRequestID):
		h.requestID = string(value)
		return seen.add(sawRequestID)
	case is(name, "Location"):
		h.location = string(value)
		return seen.add(sawLocation)
	case is(name, binaryLength):
		h.binary = string(value)
		return seen.add(sawBinary)
	default:
		return !is(name, "Trailer")
	}
}

const headerRequestID = "X-Request-Id"

// frame settles how the body ends.
func (h *head) frame(seen fieldSet) verdict {
	switch {
	case seen&sawLength != 0 && seen&sawChunked != 0:
		return oddHead
	case seen&sawChunked != 0:
		h.kind = framedByChunks
	case h.length == 0:
		h.kind = noBody
	case h.length > 0:
		h.kind = framedByLength
	default:
		h.kind, h.close = framedByClose, true
	}
	return plainHead
}

// is compares a name with a known one without regard to case.
func is(b []byte, name string) bool {
	if len(b) != len(name) {
		return false
	}
	for i := range b {
		if b[i]|0x20 != name[i]|0x20 {
			return false
		}
	}
	return true
}

// plainText reports whether b is printable ASCII and tabs.
func plainText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// nameByte reports whether c is one of the bytes that header names are made of in practice.
func nameByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// readOddHead lets net/http read one head from the connection, at most left bytes, and gives back what it read too much.
func (c *conn) readOddHead(left *int) (head, error) {
	br := bufio.NewReaderSize(&headSource{c, left}, 4<<10)
	//nolint:bodyclose // the body is read from the connection itself; closing it would wait for its end
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodPost})
	if err != nil {
		return head{}, err
	}
	// The read that brought the head's last byte was the last one: what lies in the reader still lies in the page too.
	c.lo -= br.Buffered()
	h := head{
		status: resp.StatusCode, length: resp.ContentLength, close: resp.Close, encoding: resp.Header.Get("Content-Encoding"),
		requestID: resp.Header.Get(headerRequestID), location: resp.Header.Get("Location"), binary: resp.Header.Get(binaryLength),
	}
	switch {
	case resp.StatusCode == http.StatusNoContent, resp.StatusCode == http.StatusNotModified, resp.ContentLength == 0:
		h.kind = noBody
	case slices.Contains(resp.TransferEncoding, "chunked"):
		h.kind = framedByChunks
	case resp.ContentLength > 0:
		h.kind = framedByLength
	default:
		h.kind = framedByClose
	}
	return h, nil
}

// headSource reads a connection for readOddHead.
type headSource struct {
	c    *conn
	left *int
}

func (s *headSource) Read(p []byte) (int, error) {
	if *s.left <= 0 {
		return 0, errHeadTooLarge
	}
	if s.c.lo == s.c.hi {
		if err := s.c.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p[:min(len(p), *s.left)], s.c.page[s.c.lo:s.c.hi])
	s.c.lo += n
	*s.left -= n
	return n, nil
}
