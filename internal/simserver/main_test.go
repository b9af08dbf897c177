package simserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// childEnv makes this test binary a server or a child of one.
const (
	childEnv = "SIMSERVER_TEST_ROLE"
	serveCfg = "SIMSERVER_TEST_CONFIG"
)

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "child":
		os.Exit(childMain())
	case "server":
		os.Exit(serveMain())
	}
}

// childMain lives as a child, for a minute at most.
func childMain() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := RunChild(ctx, os.Args[len(os.Args)-1], io.Discard); err != nil {
		return 1
	}
	return 0
}

// serveMain is what the command does: the configuration, Serve, and SIGTERM.
func serveMain() int {
	cfg, err := ParseConfig([]byte(os.Getenv(serveCfg)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err = Serve(ctx, cfg, Options{Addr: "127.0.0.1:0", Getenv: os.Getenv, Log: os.Stdout})
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// instance is a server under test in this process.
type instance struct {
	url  string
	log  *lockedBuffer
	stop context.CancelFunc
	l    net.Listener
	done chan error
}

// quick is a server whose work takes no time, so that tests of behaviour do not wait.
func quick(change ...func(*Config)) Config {
	c := Default()
	c.PrefillPerToken, c.DecodeBase, c.DecodePerSeq = 0, 0, 0
	for _, f := range change {
		f(&c)
	}
	return c
}

func start(t *testing.T, cfg Config, change ...func(*Options)) *instance {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	in := &instance{
		url: "http://" + l.Addr().String(), log: &lockedBuffer{}, stop: cancel, l: l, done: make(chan error, 1),
	}
	o := Options{Listener: l, Log: in.log, Now: func() time.Time { return time.Unix(1700000000, 0) }}
	for _, f := range change {
		f(&o)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in.done <- Serve(ctx, cfg, o)
	}()
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		<-ended
	})
	return in
}

// wait is Serve's result.
func (in *instance) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-in.done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the server did not end")
		return nil
	}
}

func (in *instance) do(t *testing.T, method, path, body string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, in.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return resp, string(data), err
}

func (in *instance) post(t *testing.T, path, body string) (*http.Response, string) {
	t.Helper()
	resp, text, err := in.do(t, http.MethodPost, path, body)
	if err != nil {
		t.Fatalf("POST %s: %v (body so far %q)", path, err, text)
	}
	return resp, text
}

func (in *instance) get(t *testing.T, path string) (int, string) {
	t.Helper()
	resp, text, err := in.do(t, http.MethodGet, path, "")
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return resp.StatusCode, text
}

// lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
