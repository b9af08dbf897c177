package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// http2Command serves a chat in HTTP/2 without TLS, and nothing else, until the script ends: `http2 VARIABLE`.
func http2Command(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: http2 VARIABLE")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	s := &http.Server{
		Protocols: p, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				fmt.Fprintf(w, `{"data":[{"id":"m"}]}`)
				return
			}
			chat(w, r)
		}),
	}
	go func() { _ = s.Serve(l) }()
	ts.Defer(func() { _ = s.Close() })
	ts.Setenv(args[0], "http://"+l.Addr().String())
}

// chat answers with as many tokens as are allowed, a millisecond apart.
func chat(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		MaxTokens int `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.ProtoMajor != 2 {
		http.Error(w, r.Proto, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	say := func(event string) {
		_, _ = io.WriteString(w, "data: "+event+"\n\n")
		_ = flush.Flush()
	}
	n := min(max(asked.MaxTokens, 1), 4)
	for range n {
		say(`{"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}`)
		time.Sleep(time.Millisecond)
	}
	say(`{"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	say(fmt.Sprintf(`{"model":"m","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, 3, n))
	say("[DONE]")
}
