package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/internal/simserver"
	"github.com/tailgate-ci/tailgate/runner/selftest"
)

// truthServer is a plain simulated server in a process of its own: what it does costs us no goroutine and no garbage
// collection, and its CPU time can be told from ours.
type truthServer struct {
	// URL is where it listens; PID its process.
	URL string
	PID int

	group *proc.Group
	dir   string
}

const (
	truthStart = 10 * time.Second
	truthGrace = 3 * time.Second
)

// startTruthServer starts one on a port of the kernel's choice. It inherits no secret and dies with us, and stop must be
// called.
func (a *app) startTruthServer(ctx context.Context) (_ *truthServer, err error) {
	if program == "" {
		return nil, errNoProgram
	}
	s := &truthServer{}
	if s.dir, err = os.MkdirTemp("", "tailgate-truth-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("truth server: %w", errors.Join(err, s.stop()))
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
	file, log := filepath.Join(s.dir, "truth.json"), filepath.Join(s.dir, "log")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	s.group, err = proc.Start(ctx, proc.Command{
		Path: program, Args: []string{"sim", "--config", file, "--port", "0"}, Dir: "/", Log: log, Alone: true,
		Env: proc.Environ(a.lookup, a.environ, proc.Sensor, nil, nil),
	})
	if err != nil {
		return nil, err
	}
	s.PID = s.group.PID()
	s.URL, err = listeningAt(ctx, log, s.group.Exited())
	return s, err
}

// listeningAt waits for the line of a simulated server's log that says its address.
func listeningAt(ctx context.Context, log string, exited <-chan struct{}) (string, error) {
	limit := time.NewTimer(truthStart)
	defer limit.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		text, err := os.ReadFile(log)
		if err != nil {
			return "", err
		}
		if _, rest, ok := strings.Cut(string(text), "listening on "); ok && strings.Contains(rest, "\n") {
			return strings.Fields(rest)[0], nil
		}
		select {
		case <-look.C:
		case <-exited:
			return "", fmt.Errorf("it ended before it listened: %q", proc.Clean(string(text), 200))
		case <-limit.C:
			return "", fmt.Errorf("it does not listen after %v", truthStart)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// stop ends the process, proves it gone, and removes its files. It may be called twice.
func (s *truthServer) stop() error {
	var err error
	if s.group != nil {
		if report := s.group.Stop(syscall.SIGTERM, truthGrace); len(report.Left) > 0 {
			err = fmt.Errorf("process %d does not end", report.Left[0].PID)
		}
		s.group = nil
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
		s.dir = ""
	}
	return err
}

// simulatorSeen asks a simulated server how many requests it has read to their last byte.
func simulatorSeen(ctx context.Context, url string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/sim/truth", http.NoBody)
	if err != nil {
		return 0, err
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: nil}}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("/sim/truth: %s", resp.Status)
	}
	var counts simserver.Counts
	if err := json.NewDecoder(resp.Body).Decode(&counts); err != nil {
		return 0, fmt.Errorf("/sim/truth: %w", err)
	}
	return counts.Requests, nil
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
