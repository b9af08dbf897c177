package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// smallAnswer is a whole answer of an engine that does not stream.
const smallAnswer = `{"id":"cmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":` +
	`{"role":"assistant","content":"Hello there, how can I help you today?"},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":12,"completion_tokens":9,"total_tokens":21}}`

// tokenEvent is one streamed token as engines write it.
const tokenEvent = `data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n"

// serveRaw serves until its standard input ends, with as little of its own between the sockets as Go allows. It prints its
// address first. The kinds:
//
//	answers            a small JSON answer to each request
//	stream N EVERY     N token events, one write each, EVERY apart, then the end
//	body N             an answer whose one event holds N bytes of text
func serveRaw(kind string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveConn(c, kind)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

func serveConn(c net.Conn, kind string) {
	defer c.Close()
	word := strings.Fields(kind)
	answer := func() error { return errors.New("unknown kind " + kind) }
	switch {
	case kind == "answers":
		whole := wholeAnswer()
		answer = func() error { _, err := c.Write(whole); return err }
	case len(word) == 3 && word[0] == "stream":
		n, _ := strconv.Atoi(word[1])
		every, _ := time.ParseDuration(word[2])
		answer = func() error { return writeStream(c, n, every) }
	case len(word) == 2 && word[0] == "body":
		n, _ := strconv.Atoi(word[1])
		whole := longAnswer(n)
		answer = func() error { _, err := c.Write(whole); return err }
	}
	buf, held := make([]byte, 4<<10), 0
	for {
		n, err := c.Read(buf[held:])
		if err != nil {
			return
		}
		held += n
		for {
			size := requestSize(buf[:held])
			if size == 0 || size > held {
				if size > len(buf) {
					buf = append(buf, make([]byte, size-len(buf))...)
				}
				break
			}
			held = copy(buf, buf[size:held])
			if answer() != nil {
				return
			}
		}
	}
}

// wholeAnswer is smallAnswer with its head, longAnswer a stream whose one token has n bytes.
func wholeAnswer() []byte {
	return []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Length: " +
		strconv.Itoa(len(smallAnswer)) + "\r\n\r\n" + smallAnswer)
}

func longAnswer(n int) []byte {
	event := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", n) + `"}}]}` + "\n\n"
	return []byte(okAnswer + frame(event+finishEvent+doneEvent) + "0\r\n\r\n")
}

// requestSize is the length of the request that b begins with, 0 while its head is incomplete.
func requestSize(b []byte) int {
	head, _, ok := bytes.Cut(b, []byte("\r\n\r\n"))
	if !ok {
		return 0
	}
	_, after, ok := bytes.Cut(head, []byte("Content-Length: "))
	if !ok {
		return len(head) + 4
	}
	length, _, _ := bytes.Cut(after, []byte("\r\n"))
	n, err := strconv.Atoi(string(length))
	if err != nil {
		return 0
	}
	return len(head) + 4 + n
}

func writeStream(c net.Conn, n int, every time.Duration) error {
	if _, err := io.WriteString(c, okAnswer); err != nil {
		return err
	}
	event := []byte(frame(tokenEvent))
	for due := time.Now().Add(every); n > 0; n, due = n-1, due.Add(every) {
		if every > 0 {
			time.Sleep(time.Until(due))
		}
		if _, err := c.Write(event); err != nil {
			return err
		}
	}
	_, err := io.WriteString(c, frame(finishEvent+doneEvent)+"0\r\n\r\n")
	return err
}

func frame(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
