package client

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// script is a parsed script.txt: what a server does, and when.
type script struct {
	name            string
	dialect, path   string
	request         string
	expect, headers []string
	client          map[string]string
	status          int
	framing         string
	steps           []step
}

// step is one line of the timeline: a write, or the end.
type step struct {
	at   time.Duration
	what string
	data []byte
	hold time.Duration
}

func loadScripts(tb testing.TB) []script {
	tb.Helper()
	paths, err := filepath.Glob("testdata/streams/*/script.txt")
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no scripts: %v", err)
	}
	var all []script
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			tb.Fatal(err)
		}
		s, err := parseScript(string(text))
		if err != nil {
			tb.Fatalf("%s: %v", p, err)
		}
		s.name = filepath.Base(filepath.Dir(p))
		all = append(all, s)
	}
	return all
}

func parseScript(text string) (script, error) {
	s := script{framing: "chunked", client: map[string]string{}}
	for n, line := range strings.Split(text, "\n") {
		var err error
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "+"):
			err = s.timeline(line[1:])
		case strings.HasPrefix(line, " ") && len(s.steps) > 0:
			last := &s.steps[len(s.steps)-1]
			var more []byte
			more, err = terms(line)
			last.data = append(last.data, more...)
		default:
			err = s.head(line)
		}
		if err != nil {
			return s, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	return s, nil
}

func (s *script) head(line string) error {
	key, value, ok := strings.Cut(line, ": ")
	if !ok {
		return fmt.Errorf("want key: value, got %q", line)
	}
	switch key {
	case "stream", "case":
	case "method":
		if value != http.MethodPost {
			return fmt.Errorf("method %s", value)
		}
	case "dialect":
		s.dialect = value
	case "path":
		s.path = value
	case "request":
		s.request = value
	case "expect":
		s.expect = append(s.expect, value)
	case "header":
		s.headers = append(s.headers, value)
	case "client":
		name, setting, _ := strings.Cut(value, "=")
		s.client[name] = setting
	case "status":
		var err error
		s.status, err = strconv.Atoi(value)
		return err
	case "framing":
		s.framing = value
	default:
		return fmt.Errorf("unknown key %q", key)
	}
	return nil
}

func (s *script) timeline(line string) error {
	ms, what, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(ms)
	if err != nil {
		return err
	}
	st := step{at: time.Duration(n) * time.Millisecond}
	word, arg, _ := strings.Cut(strings.TrimSpace(what), " ")
	switch word {
	case "close", "cut", "reset":
		st.what = word
	case "hold":
		h, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		st.what, st.hold = word, time.Duration(h)*time.Millisecond
	default:
		st.what = "write"
		if st.data, err = terms(what); err != nil {
			return err
		}
	}
	s.steps = append(s.steps, st)
	return nil
}

// terms joins Go string literals, each with an optional count before it.
func terms(line string) ([]byte, error) {
	var out []byte
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		times := 1
		if count, rest, ok := strings.Cut(line, "*"); ok && !strings.ContainsAny(count, "\"`") {
			var err error
			if times, err = strconv.Atoi(count); err != nil {
				return nil, err
			}
			line = rest
		}
		literal, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, fmt.Errorf("%w: %.40q", err, line)
		}
		text, err := strconv.Unquote(literal)
		if err != nil {
			return nil, err
		}
		out = append(out, bytes.Repeat([]byte(text), times)...)
		line = line[len(literal):]
	}
	return out, nil
}

// body is everything the script writes, for parsers that need no times.
func (s *script) body() []byte {
	var b []byte
	for _, st := range s.steps {
		b = append(b, st.data...)
	}
	return b
}

// playback is what the server saw and did.
type playback struct {
	requests int
	wrong    []string
	// at maps the script's times to those of the writes, both from the moment the request had been read.
	at map[time.Duration]time.Duration
}

// play serves the script to one connection, each write cut into pieces of at most piece bytes (0: uncut), and then counts
// what else the client sends. reset makes the peer see a reset.
func (s *script) play(c net.Conn, piece int, reset func()) *playback {
	p := &playback{at: map[time.Duration]time.Duration{}}
	defer c.Close()
	br := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return p
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			p.wrong = append(p.wrong, "request body: "+err.Error())
		}
		if p.requests++; p.requests > 1 {
			return p
		}
		p.checkRequest(s, req, body)
		if !s.answer(c, br, piece, reset, p) {
			return p
		}
	}
}

func (p *playback) checkRequest(s *script, req *http.Request, body []byte) {
	if req.Method != http.MethodPost || req.URL.Path != s.path {
		p.wrong = append(p.wrong, req.Method+" "+req.URL.Path)
	}
	for _, e := range s.expect {
		name, value, _ := strings.Cut(e, ": ")
		if got := req.Header.Get(name); got != value {
			p.wrong = append(p.wrong, fmt.Sprintf("header %s: %q", name, got))
		}
	}
	if !bytes.HasPrefix(body, []byte("{")) {
		p.wrong = append(p.wrong, "body is no object")
	}
}

// answer plays the timeline and reports whether the connection stays usable.
func (s *script) answer(c net.Conn, br *bufio.Reader, piece int, reset func(), p *playback) bool {
	start, headSent := time.Now(), false
	send := func(data []byte) {
		if !headSent {
			data = append(s.headBytes(), data...)
			headSent = true
		}
		_, _ = c.Write(data)
	}
	for _, st := range s.steps {
		time.Sleep(time.Until(start.Add(st.at)))
		switch st.what {
		case "write":
			if _, seen := p.at[st.at]; !seen {
				p.at[st.at] = time.Since(start)
			}
			for _, part := range cut(st.data, piece) {
				send(s.frame(part))
			}
		case "reset":
			reset()
			return false
		case "cut":
			return false
		case "hold":
			_ = c.SetReadDeadline(time.Now().Add(st.hold))
			if _, err := br.Peek(1); err == nil {
				return true
			}
			return false
		case "close":
			if s.framing == "chunked" {
				send([]byte("0\r\n\r\n"))
			} else {
				send(nil)
			}
			return s.framing != "close"
		}
	}
	return false
}

func (s *script) headBytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n", s.status, http.StatusText(s.status))
	sized := false
	for _, h := range s.headers {
		sized = sized || strings.HasPrefix(h, "Content-Length:")
		b.WriteString(h + "\r\n")
	}
	switch {
	case s.framing == "chunked":
		b.WriteString("Transfer-Encoding: chunked\r\n")
	case s.framing == "length" && !sized:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(s.body()))
	case s.framing == "close":
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

func (s *script) frame(part []byte) []byte {
	if s.framing != "chunked" {
		return part
	}
	return fmt.Appendf(nil, "%x\r\n%s\r\n", len(part), part)
}

func cut(b []byte, piece int) [][]byte {
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
