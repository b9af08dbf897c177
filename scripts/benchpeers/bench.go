package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/internal/simserver"
)

// bench holds the folder everything lives in.
type bench struct {
	dir    string
	log    io.Writer
	rounds int
	// versions and failed say, per peer, what was installed or why not.
	versions, failed map[string]string
}

func (b *bench) path(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}

func (b *bench) tailgate() string { return b.path("tailgate") }

// prepare builds tailgate: the client under test and the server of known truth.
func (b *bench) prepare(ctx context.Context) error {
	b.versions, b.failed = map[string]string{}, map[string]string{}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	_, err := b.sh(ctx, "go", "build", "-trimpath", "-o", b.tailgate(), "./cmd/tailgate")
	return err
}

func (b *bench) install(ctx context.Context, peers []peer) {
	for _, p := range peers {
		fmt.Fprintf(b.log, "installing %s: %s\n", p.name, p.source)
		if err := p.install(ctx, b); err != nil {
			b.failed[p.name] = "not installed: " + err.Error()
			continue
		}
		b.versions[p.name] = p.version
	}
}

// machine says what the figures were measured on.
func (b *bench) machine() string {
	model := "unknown CPU"
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%d cores for client and server together, %s, %s/%s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH)
}

// measure runs one scenario with each client, each against a fresh server.
func (b *bench) measure(ctx context.Context, s scenario, peers []peer) ([]row, error) {
	var rows []row
	for _, p := range peers {
		r := row{name: p.name, version: b.versions[p.name], missing: b.failed[p.name]}
		if p.plain != s.plain && !p.ours {
			continue
		}
		if r.missing == "" && p.command == nil {
			continue
		}
		if r.missing == "" {
			fmt.Fprintf(b.log, "%s: %s\n", s.name, p.name)
			worst, err := b.worst(ctx, s, p)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				worst.missing = err.Error()
			}
			worst.name, worst.version = r.name, r.version
			r = worst
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// worst runs a client as often as asked and keeps the round with the largest error, or the lowest rate.
func (b *bench) worst(ctx context.Context, s scenario, p peer) (row, error) {
	var worst row
	for i := range b.rounds {
		r, err := b.round(ctx, s, p)
		if err != nil {
			return r, err
		}
		bad := math.Abs(r.said.ttft.minus(r.truth.ttft).mean) > math.Abs(worst.said.ttft.minus(worst.truth.ttft).mean)
		if s.plain {
			bad = r.said.rate < worst.said.rate
		}
		if i == 0 || bad {
			worst = r
		}
	}
	return worst, nil
}

func (b *bench) round(ctx context.Context, s scenario, p peer) (row, error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return row{}, err
	}
	url, stop, err := b.serve(ctx, s, dir)
	if err != nil {
		return row{}, err
	}
	defer stop() //nolint:errcheck // asked again below; a second stop does nothing
	limit, cancel := context.WithTimeout(ctx, 3*time.Minute+4*s.seconds())
	defer cancel()
	args := p.command(b, s, url, dir)
	cmd := exec.CommandContext(limit, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "VLLM_LOGGING_LEVEL=ERROR", "NO_COLOR=1") //nolint:forbidigo // a script of the repository, at its caller's hands
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	runErr := cmd.Run()
	r := row{said: figures{ttft: unknown(), gap: unknown(), rate: math.NaN()}}
	if state := cmd.ProcessState; state != nil {
		r.cpuSeconds = (state.UserTime() + state.SystemTime()).Seconds()
		if u, ok := state.SysUsage().(*syscall.Rusage); ok {
			r.rssMiB = float64(u.Maxrss) / 1024
		}
	}
	_ = os.WriteFile(filepath.Join(dir, "output.txt"), append(out.Bytes(), errs.Bytes()...), 0o600)
	if runErr != nil {
		return r, fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), runErr, lastLines(out.String()+errs.String()))
	}
	if r.seen, err = seen(ctx, url); err != nil {
		return r, err
	}
	truth, err := take(ctx, url)
	if err != nil && !s.plain {
		return r, err
	}
	_ = os.WriteFile(filepath.Join(dir, "truth.jsonl"), truth, 0o600)
	if err := stop(); err != nil {
		return r, err
	}
	said, counts, err := p.read(s, dir, out.Bytes())
	if err != nil {
		return r, fmt.Errorf("its figures: %w", err)
	}
	r.said = said
	if s.plain {
		return r, nil
	}
	entries, err := simserver.ReadTruth(truth)
	if err != nil {
		return r, err
	}
	r.truth = truthOf(entries, s.tokens, counts)
	if r.truth.requests == 0 {
		return r, errors.New("the server saw none of its requests")
	}
	return r, nil
}

// serve starts the server of known truth and waits until it answers. The returned function stops it.
func (b *bench) serve(ctx context.Context, s scenario, dir string) (url string, stop func() error, err error) {
	config := filepath.Join(dir, "server.json")
	if err := os.WriteFile(config, []byte(s.server()), 0o600); err != nil {
		return "", nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, b.tailgate(), "sim", "--config", config, "--port", fmt.Sprint(port))
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return "", nil, err
	}
	defer log.Close() //nolint:errcheck // the child has its own copy
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		_ = cmd.Process.Signal(syscall.SIGTERM)
		return cmd.Wait()
	}
	url = fmt.Sprintf("http://127.0.0.1:%d", port)
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err = seen(ctx, url); err == nil {
			return url, stop, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			_ = stop()
			return "", nil, fmt.Errorf("the server does not come up: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close() //nolint:errcheck // only its number was wanted
	return l.Addr().(*net.TCPAddr).Port, nil
}

// seen asks the server how many requests reached it.
func seen(ctx context.Context, url string) (int64, error) {
	text, err := get(ctx, url+"/sim/truth")
	if err != nil {
		return 0, err
	}
	var counts simserver.Counts
	if err := json.Unmarshal(text, &counts); err != nil {
		return 0, err
	}
	return counts.Requests, nil
}

// take asks the server for the stamps it kept.
func take(ctx context.Context, url string) ([]byte, error) {
	return get(ctx, url+simserver.PlainTakePath+"?run="+kept)
}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	return io.ReadAll(resp.Body)
}

// sh runs a command of the preparation and returns its standard output.
func (b *bench) sh(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, lastLines(errs.String()))
	}
	return out.String(), nil
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}
