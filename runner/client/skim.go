package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
)

// What skimming an HTTP/2 connection looks for (RFC 9113, 4.1, 6.5 and 6.8).
const (
	frameHead      = 9
	frameReset     = 3
	frameSettings  = 4
	frameGoAway    = 7
	flagAck        = 1
	settingStreams = 3
	settingSize    = 6
	// codeProtocol is PROTOCOL_ERROR: net/http gives a connection up on which a stream was reset with it.
	codeProtocol = 1
	// maxPayload bounds what is kept of one frame, in bytes.
	maxPayload = 4 << 10
)

// skim is a connection whose incoming frames are glanced at, beside net/http, which reads them: for what that package does
// not tell. One goroutine reads.
type skim struct {
	net.Conn
	// met is closed when the server has shown what it is: with its settings, after which odd is nil, or otherwise.
	met chan struct{}
	odd error
	// leaving is true once the server or net/http gives the connection up for new requests; streams is how many the server takes
	// at a time, 0 while it names no number.
	leaving atomic.Bool
	streams atomic.Uint32
	// left is called once, when leaving becomes true.
	left func()

	greeted, known bool
	// begun is the beginning of the connection, for the word on a server that speaks no HTTP/2.
	begun []byte
	// head holds the head of the frame at hand as far as it came, rest how much of its payload is still to come; payload is
	// the payload of a frame of settings or of a reset.
	head    [frameHead]byte
	have    int
	rest    int
	payload []byte
}

func newSkim(c net.Conn) *skim {
	return &skim{Conn: c, met: make(chan struct{}), left: func() {}}
}

// Read reads for net/http. That it reads again shows that what came before has been taken in.
func (s *skim) Read(p []byte) (int, error) {
	if s.greeted {
		s.meet(nil)
	}
	n, err := s.Conn.Read(p)
	s.glance(p[:n])
	if err != nil {
		s.meet(s.foreign(err))
	}
	return n, err
}

func (s *skim) meet(odd error) {
	if !s.known {
		s.known, s.odd, s.begun = true, odd, nil
		close(s.met)
	}
}

// foreign words a connection that ended before the server's settings came.
func (s *skim) foreign(err error) error {
	first, _, _ := bytes.Cut(s.begun, []byte("\r\n"))
	switch {
	case bytes.HasPrefix(first, []byte("HTTP/")):
		return fmt.Errorf("the server answers in HTTP/1 (%s), not in HTTP/2", clean(string(first), 100))
	case len(first) > 0:
		return fmt.Errorf("the server answers in no HTTP/2: it begins with %q", clean(string(first), 40))
	case errors.Is(err, io.EOF):
		return errors.New("the server closed the connection instead of answering in HTTP/2")
	default:
		return err
	}
}

// glance looks at bytes that were read.
func (s *skim) glance(b []byte) {
	if !s.greeted && !s.known {
		s.begun = append(s.begun, b[:min(len(b), max(128-len(s.begun), 0))]...)
		if kind, ok := s.greeting(); ok && kind != frameSettings {
			s.meet(s.foreign(io.EOF))
		}
	}
	for len(b) > 0 {
		if s.have < frameHead {
			n := copy(s.head[s.have:], b)
			s.have, b = s.have+n, b[n:]
			if s.have < frameHead {
				return
			}
			s.rest = int(s.head[0])<<16 | int(s.head[1])<<8 | int(s.head[2])
		}
		n := min(s.rest, len(b))
		if kind := s.head[3]; (kind == frameSettings || kind == frameReset) && len(s.payload) < maxPayload {
			s.payload = append(s.payload, b[:n]...)
		}
		if s.rest, b = s.rest-n, b[n:]; s.rest == 0 {
			s.frame()
		}
	}
}

// greeting is the kind of the first frame, once its head is there.
func (s *skim) greeting() (kind byte, ok bool) {
	if len(s.begun) < frameHead {
		return 0, false
	}
	return s.begun[3], true
}

// frame takes a frame that is complete.
func (s *skim) frame() {
	switch kind := s.head[3]; {
	case kind == frameSettings && s.head[4]&flagAck == 0:
		for b := s.payload; len(b) >= settingSize; b = b[settingSize:] {
			if binary.BigEndian.Uint16(b) == settingStreams {
				s.streams.Store(binary.BigEndian.Uint32(b[2:]))
			}
		}
		s.greeted = true
	case kind == frameGoAway, kind == frameReset && len(s.payload) == 4 && binary.BigEndian.Uint32(s.payload) == codeProtocol:
		if !s.leaving.Swap(true) {
			s.left()
		}
	}
	s.have, s.payload = 0, s.payload[:0]
}
