package client

import (
	"bufio"
	"bytes"
	"io"
	"net/http/httputil"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/client/scripttest"
)

// unframe decodes a chunked body pushed in pieces of n bytes.
func unframe(input []byte, n int) (body []byte, over bool, extra int, err error) {
	u := unframer{kind: framedByChunks}
	for _, part := range scripttest.Cut(input, n) {
		k, err := u.push(part, func(b []byte) { body = append(body, b...) })
		extra += k
		if err != nil {
			return body, false, extra, err
		}
	}
	return body, u.over(), extra, nil
}

func TestChunks(t *testing.T) {
	tests := []struct {
		name, input, want string
		over, bad         bool
		extra             int
	}{
		{name: "two chunks", input: "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", want: "abcde", over: true},
		{name: "extensions, upper case, leading zeros", input: "00A;x=y\r\n0123456789\r\n0;z\r\n\r\n", want: "0123456789", over: true},
		{name: "bare LF", input: "1\na\n0\n\n", want: "a", over: true},
		{name: "trailers", input: "1\r\na\r\n0\r\nX: y\r\nZ: w\r\n\r\n", want: "a", over: true},
		{name: "bytes after the end", input: "0\r\n\r\nHTTP", over: true, extra: 4},
		{name: "cut before the last chunk", input: "3\r\nabc\r\n", want: "abc"},
		{name: "cut inside the trailer", input: "3\r\nabc\r\n0\r\n", want: "abc"},
		{name: "no size", input: "\r\n", bad: true},
		{name: "no hex", input: "xyz\r\n", bad: true},
		{name: "size that overflows", input: "fffffffffffffffff\r\n", bad: true},
		{name: "chunk longer than its size", input: "1\r\nabc", want: "a", bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for n := 0; n <= len(tt.input); n++ {
				body, over, extra, err := unframe([]byte(tt.input), n)
				if string(body) != tt.want || over != tt.over || (err != nil) != tt.bad {
					t.Fatalf("in pieces of %d: body %q, over %t, error %v", n, body, over, err)
				}
				if !tt.bad && extra != tt.extra {
					t.Fatalf("in pieces of %d: %d extra bytes", n, extra)
				}
			}
		})
	}
}

// FuzzChunks compares with the standard library wherever that accepts the input.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("1;x\r\na\r\n0\r\nT: u\r\n\r\nrest"))
	f.Fuzz(func(t *testing.T, input []byte) {
		whole, over, _, err := unframe(input, 0)
		bytewise, over1, _, err1 := unframe(input, 1)
		if diff := cmp.Diff(whole, bytewise); diff != "" || over != over1 || (err == nil) != (err1 == nil) {
			t.Fatalf("pieces differ: %s", diff)
		}
		std, stdErr := io.ReadAll(httputil.NewChunkedReader(bufio.NewReader(bytes.NewReader(input))))
		if stdErr == nil && err == nil && !bytes.Equal(std, whole) {
			t.Fatalf("the standard library reads %q, we %q", std, whole)
		}
	})
}
