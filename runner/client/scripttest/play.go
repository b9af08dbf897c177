package scripttest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Playback is what the server saw and did.
type Playback struct {
	// Requests counts the requests of the connection; Wrong says what was not as the script demands.
	Requests int
	Wrong    []string
	// At maps the script's times to those of the writes, both from the moment the request had been read.
	At map[time.Duration]time.Duration
}

// Play serves the script to one connection, each write cut into pieces of at most piece bytes (0: uncut), and then counts
// what else the client sends. reset makes the peer see a reset.
func (s *Script) Play(c net.Conn, piece int, reset func()) *Playback {
	p := &Playback{At: map[time.Duration]time.Duration{}}
	defer func() { _ = c.Close() }()
	br := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return p
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			p.Wrong = append(p.Wrong, "request body: "+err.Error())
		}
		if p.Requests++; p.Requests > 1 {
			return p
		}
		p.checkRequest(s, req, body)
		if !s.answer(c, br, piece, reset, p) {
			return p
		}
	}
}

func (p *Playback) checkRequest(s *Script, req *http.Request, body []byte) {
	if req.Method != s.Method || req.URL.Path != s.Path {
		p.Wrong = append(p.Wrong, req.Method+" "+req.URL.Path)
	}
	for _, e := range s.Expect {
		name, value, _ := strings.Cut(e, ": ")
		if got := req.Header.Get(name); got != value {
			p.Wrong = append(p.Wrong, fmt.Sprintf("header %s: %q", name, got))
		}
	}
	if !bytes.HasPrefix(body, []byte("{")) {
		p.Wrong = append(p.Wrong, "body is no object")
	}
}

// answer plays the timeline and reports whether the connection stays usable.
func (s *Script) answer(c net.Conn, br *bufio.Reader, piece int, reset func(), p *Playback) bool {
	start, headSent := time.Now(), false
	send := func(data []byte) {
		if !headSent {
			data = append(s.headBytes(), data...)
			headSent = true
		}
		_, _ = c.Write(data)
	}
	for _, st := range s.Steps {
		if at := s.HeadersAt; at != nil && !headSent && st.At >= *at {
			waitUntil(start.Add(*at))
			send(nil)
		}
		waitUntil(start.Add(st.At))
		switch st.What {
		case "write":
			if _, seen := p.At[st.At]; !seen {
				p.At[st.At] = time.Since(start)
			}
			for _, part := range Cut(st.Data, piece) {
				send(s.Frame(part))
			}
		case "reset":
			reset()
			return false
		case "cut":
			return false
		case "hold":
			_ = c.SetReadDeadline(time.Now().Add(st.Hold))
			if _, err := br.Peek(1); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
				return err == nil
			}
			_ = c.SetReadDeadline(time.Time{})
			return s.end(send)
		case "close":
			return s.end(send)
		}
	}
	return false
}

// waitUntil waits on an absolute clock; a script is over in seconds, so nothing needs to cut it short.
func waitUntil(at time.Time) {
	if d := time.Until(at); d > 0 {
		<-time.After(d)
	}
}

// end ends the body in order and reports whether the connection stays usable.
func (s *Script) end(send func([]byte)) bool {
	if s.Framing == "chunked" {
		send([]byte("0\r\n\r\n"))
	} else {
		send(nil)
	}
	return s.Framing != "close"
}

func (s *Script) headBytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n", s.Status, http.StatusText(s.Status))
	sized := false
	for _, h := range s.Headers {
		sized = sized || strings.HasPrefix(h, "Content-Length:")
		b.WriteString(h + "\r\n")
	}
	switch {
	case s.Framing == "chunked":
		b.WriteString("Transfer-Encoding: chunked\r\n")
	case s.Framing == "length" && !sized:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(s.Body()))
	case s.Framing == "close":
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// Frame is a part of the body as it goes over the wire.
func (s *Script) Frame(part []byte) []byte {
	if s.Framing != "chunked" {
		return part
	}
	return fmt.Appendf(nil, "%x\r\n%s\r\n", len(part), part)
}

// Cut cuts b into pieces of at most piece bytes; 0 leaves it whole.
func Cut(b []byte, piece int) [][]byte {
	if piece == 0 {
		return [][]byte{b}
	}
	var parts [][]byte
	for len(b) > 0 {
		n := min(piece, len(b))
		parts = append(parts, b[:n])
		b = b[n:]
	}
	return parts
}
