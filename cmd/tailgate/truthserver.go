package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/internal/simserver"
	"github.com/tailgate-ci/tailgate/runner/selftest"
)

// truthServer is a plain simulated server in a process of its own: what it does costs us no goroutine and no garbage
// collection, and its CPU time can be told from ours.
type truthServer struct {
	// URL is where it listens; PID its process.
	URL string
	PID int

	cmd *exec.Cmd
	dir string
}

const (
	truthStart = 10 * time.Second
	truthGrace = 3 * time.Second
)

// startTruthServer starts one on a port of the kernel's choice. It dies with us, and stop must be called.
func (a *app) startTruthServer(ctx context.Context) (_ *truthServer, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &truthServer{}
	if s.dir, err = os.MkdirTemp("", "tailgate-truth-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.stop()
			err = fmt.Errorf("truth server: %w", err)
		}
	}()
	cfg := simserver.Default()
	cfg.Model, cfg.Plain = "plain", &simserver.Plain{
		First: simserver.Duration(50 * time.Millisecond), Gap: simserver.Duration(10 * time.Millisecond),
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.dir, "truth.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), self, "sim", "--config", file, "--port", "0")
	s.cmd.Env = a.environ
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is ours to pass on
	said, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.PID = s.cmd.Process.Pid
	s.URL, err = listeningAt(said)
	return s, err
}

// listeningAt reads the first line that a simulated server prints.
func listeningAt(said io.Reader) (string, error) {
	type answer struct {
		url string
		err error
	}
	got := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(said).ReadString('\n')
		_, rest, ok := strings.Cut(line, "listening on ")
		if !ok {
			got <- answer{err: errors.Join(fmt.Errorf("it said %q and does not listen", strings.TrimSpace(line)), err)}
			return
		}
		address, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		got <- answer{url: address}
		_, _ = io.Copy(io.Discard, said) // so that it never waits for us
	}()
	select {
	case a := <-got:
		return a.url, a.err
	case <-time.After(truthStart):
		return "", fmt.Errorf("it does not listen after %v", truthStart)
	}
}

// stop ends the process and removes its files. It may be called twice.
func (s *truthServer) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		killer := time.AfterFunc(truthGrace, func() { _ = s.cmd.Process.Kill() })
		_ = s.cmd.Wait() // how it ends is of no interest
		killer.Stop()
		s.cmd = nil
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
		s.dir = ""
	}
}

// truth asks for what the server knows of a run; the server forgets it. It is a [selftest.Options.Truth].
func (s *truthServer) truth(ctx context.Context, run string) ([]selftest.Truth, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+simserver.PlainTakePath+"?run="+url.QueryEscape(run), nil)
	if err != nil {
		return nil, err
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: nil}}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var truths []selftest.Truth
	for dec := json.NewDecoder(resp.Body); ; {
		var e simserver.Entry
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return truths, nil
		} else if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(truths)+1, err)
		}
		truths = append(truths, selftest.Truth{ID: e.ID, Arrived: e.ArrivedNS, Wrote: e.WroteNS, OK: e.Outcome == "ok"})
	}
}
