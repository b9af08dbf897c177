package simserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// plainRequest is one request as a plain server understands it. Its slices lie in the reader's buffer.
type plainRequest struct {
	method, path, rawQuery []byte
	body                   []byte
	// run is the value of X-Truth-Run.
	run string
	// first and gap are negative when the request does not say.
	first, gap time.Duration
	// arrived is the instant at which the last byte was there to be read.
	arrived int64
	size    int
}

func (q *plainRequest) query(name string) string {
	values, err := url.ParseQuery(string(q.rawQuery))
	if err != nil {
		return ""
	}
	return values.Get(name)
}

// plainReader cuts the bytes of one connection into requests.
type plainReader struct {
	conn  receiver
	books *books
	buf   []byte
	n     int
	// read is when what the last read brought had arrived.
	read int64
	q    plainRequest
}

var (
	errNotHTTP  = errors.New("not a request this server understands")
	errTooLarge = errors.New("request too large")
)

// next reads a request to its last byte. The result is valid until drop.
func (r *plainReader) next() (*plainRequest, error) {
	head := -1
	for head < 0 {
		if r.n > 0 {
			head = bytes.Index(r.buf[:r.n], []byte("\r\n\r\n"))
		}
		if head < 0 {
			if err := r.fill(); err != nil {
				return nil, err
			}
		}
	}
	length, err := r.parse(r.buf[:head])
	if err != nil {
		return nil, err
	}
	size, before := head+4+length, len(r.buf)
	for r.n < size {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	if len(r.buf) != before { // it moved while the body came, and the request's slices lie in it
		if _, err := r.parse(r.buf[:head]); err != nil {
			return nil, err
		}
	}
	r.q.size, r.q.body, r.q.arrived = size, r.buf[head+4:size], r.read
	return &r.q, nil
}

// fill reads once.
func (r *plainReader) fill() error {
	if r.n == len(r.buf) {
		if len(r.buf) > maxBody {
			return errTooLarge
		}
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	n, at, err := r.conn.read(r.buf[r.n:])
	if n == 0 {
		return err
	}
	r.read = at
	r.books.bytesIn.Add(int64(n))
	r.n += n
	return nil
}

// drop forgets a request that was answered.
func (r *plainReader) drop(q *plainRequest) { r.n = copy(r.buf, r.buf[q.size:r.n]) }

// parse reads a head and returns the length of the body that follows.
func (r *plainReader) parse(head []byte) (int, error) {
	line, rest, _ := bytes.Cut(head, []byte("\r\n"))
	method, line, ok1 := bytes.Cut(line, []byte(" "))
	target, version, ok2 := bytes.Cut(line, []byte(" "))
	if !ok1 || !ok2 || !bytes.HasPrefix(version, []byte("HTTP/1.")) {
		return 0, errNotHTTP
	}
	r.q = plainRequest{method: method, run: r.q.run, first: -1, gap: -1}
	r.q.path, r.q.rawQuery, _ = bytes.Cut(target, []byte("?"))
	run, length := []byte(nil), 0
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return 0, errNotHTTP
		}
		value = bytes.TrimSpace(value)
		var err error
		switch {
		case asciiFold(name, "content-length"):
			length, err = strconv.Atoi(string(value))
			if length < 0 || length > maxBody {
				return 0, errTooLarge
			}
		case asciiFold(name, "transfer-encoding"):
			return 0, errNotHTTP // a sized body is what clients of such APIs send
		case asciiFold(name, "x-truth-run"):
			run = value
		case asciiFold(name, "x-truth-first"):
			r.q.first, err = time.ParseDuration(string(value))
		case asciiFold(name, "x-truth-gap"):
			r.q.gap, err = time.ParseDuration(string(value))
		}
		if err != nil {
			return 0, errNotHTTP
		}
	}
	if r.q.run != string(run) { // one connection usually serves one run
		r.q.run = plainName(run)
	}
	return length, nil
}

// asciiFold reports whether name is lower, whatever its case.
func asciiFold(name []byte, lower string) bool {
	return len(name) == len(lower) && strings.EqualFold(string(name), lower)
}

// plainName takes the name of a run if it may stand in a header and in an id.
func plainName(b []byte) string {
	if len(b) > 40 || bytes.ContainsFunc(b, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
		return ""
	}
	return string(b)
}

// plainCall is what a plain server reads of a request's body.
type plainCall struct {
	Stream              bool `json:"stream"`
	MaxTokens           int  `json:"max_tokens"`
	MaxCompletionTokens int  `json:"max_completion_tokens"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// tokens is how many events the answer has.
func (c plainCall) tokens(otherwise int) int {
	n := otherwise
	switch {
	case c.MaxCompletionTokens > 0:
		n = c.MaxCompletionTokens
	case c.MaxTokens > 0:
		n = c.MaxTokens
	}
	return min(n, maxOutput)
}

func parsePlain(body []byte) (plainCall, error) {
	var c plainCall
	err := json.Unmarshal(body, &c)
	return c, err
}
