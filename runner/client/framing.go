package client

import (
	"errors"
	"fmt"
)

// framing says where a body ends.
type framing int

const (
	framedByClose framing = iota
	framedByLength
	framedByChunks
	noBody
)

var errBadChunk = errors.New("malformed chunked encoding")

// unframer strips the transfer coding of a body. It is pushed the bytes of one read at a time.
//
// The standard library's chunked reader is not used because it may hold decoded bytes back while it waits for a chunk
// whose header it has already seen; the events in them would then carry a later read's stamp.
type unframer struct {
	kind framing
	// left counts the bytes to come of the body (length) or of the current chunk.
	left  int64
	state chunkState
	// digits counts the hex digits of the chunk header read so far, line the bytes of the current header line.
	digits, line int
	trailer      int
}

type chunkState int

const (
	chunkSize chunkState = iota
	chunkExtension
	chunkData
	chunkCR
	chunkLF
	trailerStart
	trailerLine
	chunksOver
)

const (
	maxChunkLine = 4 << 10
	maxTrailer   = 64 << 10
)

// over reports whether the body is complete.
func (u *unframer) over() bool {
	switch u.kind {
	case noBody:
		return true
	case framedByLength:
		return u.left == 0
	case framedByChunks:
		return u.state == chunksOver
	default:
		return false
	}
}

// push decodes b and calls body with each stretch of it. extra counts bytes after the end of the body.
func (u *unframer) push(b []byte, body func([]byte)) (extra int, err error) {
	for len(b) > 0 && !u.over() {
		switch {
		case u.kind == framedByClose:
			body(b)
			return 0, nil
		case u.kind == framedByLength, u.state == chunkData:
			n := int(min(int64(len(b)), u.left))
			u.left -= int64(n)
			if u.kind == framedByChunks && u.left == 0 {
				u.state = chunkCR
			}
			body(b[:n])
			b = b[n:]
		default:
			if err := u.control(b[0]); err != nil {
				return len(b), err
			}
			b = b[1:]
		}
	}
	return len(b), nil
}

// control advances the chunk states by one byte that is not data.
func (u *unframer) control(c byte) error {
	switch u.state {
	case chunkSize, chunkExtension:
		return u.sizeLine(c)
	case chunkCR:
		if c == '\r' {
			u.state = chunkLF
			return nil
		}
		return u.expect(c, '\n', chunkSize)
	case chunkLF:
		return u.expect(c, '\n', chunkSize)
	default:
		return u.trailerByte(c)
	}
}

func (u *unframer) expect(c, want byte, next chunkState) error {
	if c != want {
		return fmt.Errorf("%w: %q where %q was due", errBadChunk, c, want)
	}
	u.state = next
	u.digits, u.line, u.left = 0, 0, 0
	return nil
}

func (u *unframer) sizeLine(c byte) error {
	if u.line++; u.line > maxChunkLine {
		return fmt.Errorf("%w: header line too long", errBadChunk)
	}
	switch {
	case c == '\n' && u.digits > 0:
		u.state = chunkData
		if u.left == 0 {
			u.state = trailerStart
		}
		return nil
	case u.state == chunkExtension && c != '\r', c == '\r':
		return nil
	case u.state == chunkSize && (c == ';' || c == ' ' || c == '\t') && u.digits > 0:
		u.state = chunkExtension
		return nil
	}
	digit, ok := unhex(c)
	if !ok || u.state != chunkSize || u.digits >= 15 {
		return fmt.Errorf("%w: bad size", errBadChunk)
	}
	u.left, u.digits = u.left<<4|digit, u.digits+1
	return nil
}

// trailerByte skips the trailer section: lines up to an empty one. Trailers are read to keep the connection usable; no
// dialect puts anything into them.
func (u *unframer) trailerByte(c byte) error {
	if u.trailer++; u.trailer > maxTrailer {
		return fmt.Errorf("%w: trailer too long", errBadChunk)
	}
	switch {
	case c == '\n' && u.state == trailerStart:
		u.state = chunksOver
	case c == '\n':
		u.state = trailerStart
	case c != '\r':
		u.state = trailerLine
	}
	return nil
}

func unhex(c byte) (int64, bool) {
	switch {
	case '0' <= c && c <= '9':
		return int64(c - '0'), true
	case 'a' <= c && c <= 'f':
		return int64(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return int64(c-'A') + 10, true
	default:
		return 0, false
	}
}
