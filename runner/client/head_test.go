package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// headOf reads a head by net/http; n is its length.
func headOf(b []byte) (h head, n int, err error) {
	r := bytes.NewReader(b)
	br := bufio.NewReader(r)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodPost})
	if err != nil {
		return head{}, 0, err
	}
	n = len(b) - r.Len() - br.Buffered()
	_ = resp.Body.Close()
	h = head{
		status: resp.StatusCode, length: resp.ContentLength, close: resp.Close, encoding: resp.Header.Get("Content-Encoding"),
		requestID: resp.Header.Get("X-Request-Id"), location: resp.Header.Get("Location"), binary: resp.Header.Get(binaryLength),
	}
	switch {
	case h.status == http.StatusNoContent, h.status == http.StatusNotModified, h.length == 0:
		h.kind = noBody
	case slices.Contains(resp.TransferEncoding, "chunked"):
		h.kind = framedByChunks
	case h.length > 0:
		h.kind = framedByLength
	default:
		h.kind = framedByClose
	}
	return h, n, nil
}

var headSeeds = []string{
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n",
	"HTTP/1.1 200 OK\r\ndate: Mon, 02 Jan 2006 15:04:05 GMT\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\nrest",
	"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200\r\nconnection: Keep-Alive\r\nX-Request-Id:  a b\t\r\n\r\n",
	"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1/x\r\nContent-Encoding: gzip\r\nInference-Header-Content-Length: 5\r\n\r\n",
	"HTTP/1.1 204 No Content\r\n\r\n",
	"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc",
	"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
	"HTTP/1.1 200 OK\nContent-Length: 3\n\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Y\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
	"HTTP/1.1 200 OK\r\n: a\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
	"HTTP/1.1 200 OK\r\nConnection: close, TE\r\n\r\n",
	"HTTP/1.1 2000 OK\r\n\r\n",
	"SSH-2.0-OpenSSH\r\n",
}

// checkHead holds the law of parseHead: what it calls plain, net/http reads the same, and of a plain head every beginning is
// cut.
func checkHead(t *testing.T, input []byte) verdict {
	t.Helper()
	got, n, v := parseHead(input)
	if v != plainHead {
		return v
	}
	want, length, err := headOf(input)
	if err != nil {
		t.Fatalf("net/http refuses a plain head: %v\n%q", err, input)
	}
	if got != want || n != length {
		t.Fatalf("%q:\n got %+v, %d bytes\nwant %+v, %d bytes", input, got, n, want, length)
	}
	for i := range n {
		if _, _, v := parseHead(input[:i]); v != cutHead {
			t.Fatalf("the first %d bytes of %q are no cut head", i, input)
		}
	}
	return v
}

func TestHeads(t *testing.T) {
	for i, s := range headSeeds {
		if v := checkHead(t, []byte(s)); (v == plainHead) != (i < 5) {
			t.Errorf("%q: verdict %d", s, v)
		}
	}
}

func FuzzHead(f *testing.F) {
	for _, s := range headSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) { checkHead(t, input) })
}

// However a head comes, and whoever reads it, what follows is read from its first byte on.
func TestBodyBeginsAfterTheHead(t *testing.T) {
	body := frame(helloEvent+finishEvent+doneEvent) + "0\r\n\r\n"
	for name, head := range map[string]string{
		"plain":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"odd":            "HTTP/1.1 200 OK\nX: a\n b\nTransfer-Encoding: chunked\n\n",
		"after 103":      "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"large":          "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 3*pageSize) + "\r\nTransfer-Encoding: chunked\r\n\r\n",
		"as a page":      "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", pageSize-51) + "\r\nTransfer-Encoding: chunked\r\n\r\n",
		"almost a page":  "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", pageSize-52) + "\r\nTransfer-Encoding: chunked\r\n\r\n",
		"plain of lines": "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Y: z\r\n", 1000) + "Transfer-Encoding: chunked\r\n\r\n",
	} {
		for _, piece := range []int{0, 1, 7, 4096, len(head), len(head) + 1} {
			if piece == 1 && len(head) > 1<<10 {
				continue
			}
			s := newServer(t, func(s *server, c net.Conn, br *bufio.Reader) {
				for s.next(br) {
					for rest := []byte(head + body); len(rest) > 0; {
						n := len(rest)
						if piece > 0 {
							n = min(piece, n)
						}
						if _, err := c.Write(rest[:n]); err != nil {
							return
						}
						rest = rest[n:]
					}
				}
			})
			c := s.client(t, nil)
			for i := range 2 {
				if got := send(t, c, 0); got.Class != record.OK || got.PayloadEvents != 1 || got.Reused != (i == 1) {
					t.Errorf("%s in pieces of %d: %s: %s", name, piece, got.Class, got.Detail)
				}
			}
		}
	}
}

// Both ways of reading a head agree through a connection too, whatever the pieces.
func TestOddHeadsThroughAConnection(t *testing.T) {
	for _, seed := range headSeeds {
		want, n, wantErr := headOf([]byte(seed))
		for _, piece := range []int{1, 5, len(seed)} {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				for b := []byte(seed); len(b) > 0; b = b[min(piece, len(b)):] {
					if _, err := theirs.Write(b[:min(piece, len(b))]); err != nil {
						return
					}
				}
			}()
			c := newConn(ours, ours, record.NewClock())
			c.begin(&watch{ctx: t.Context()})
			left := maxHead
			got, err := c.nextHead(&left)
			if (err == nil) != (wantErr == nil) || got != want {
				t.Errorf("%q in pieces of %d: %s %v, want error %v", seed, piece, cmp.Diff(want.status, got.status), err, wantErr)
			}
			rest := []byte{}
			for err == nil {
				var b []byte
				b, err = c.next()
				rest = append(rest, b...)
				if err != nil && (!errors.Is(err, io.EOF) || string(rest) != seed[n:]) {
					t.Errorf("%q in pieces of %d: rest %q, %v", seed, piece, rest, err)
				}
			}
			_ = c.Close()
		}
	}
}
