package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// pollEvery is the pause between two looks at a server that is not up.
	pollEvery = 250 * time.Millisecond
	// probeEvery is the pause after an inference that gave nothing.
	probeEvery = time.Second
	// healthLimit and probeLimit bound one look and one inference.
	healthLimit, probeLimit = 5 * time.Second, time.Minute
	// progressEvery is the pause between two lines of progress; progressLine bounds what they show of the log, in bytes.
	progressEvery, progressLine = 10 * time.Second, 160
)

// Ready waits until the ready path answers 2xx and one real inference returns content. progress, which may be nil, gets a
// line each 10 s. A server that exits, detaches, is not the one that answers, or takes too long is an [Error]; when ctx
// ends, its error is returned. Stop the server in every case.
func (s *Server) Ready(ctx context.Context, progress func(string)) error {
	w := waiter{
		limit: s.spec.ReadyTimeout, exited: s.Exited(), died: s.died, listening: s.listening,
		lastLine: s.lastLine, memory: s.spec.Ground.summary, progress: progress,
	}
	if s.spec.ReadyPath != "" {
		w.health = s.healthy
	}
	if s.spec.Probe != nil {
		w.probe = func(ctx context.Context) error { return s.spec.Probe(ctx, s.URL()) }
	}
	w.late = func(last string) error {
		return s.fault(record.StartTimeout, "the server was not ready within %v (%s); see its log, or raise target.ready.timeout",
			s.spec.ReadyTimeout, last)
	}
	if err := w.wait(ctx); err != nil {
		return err
	}
	s.up.Store(true)
	return s.onGPU(ctx)
}

// onGPU makes sure that a server which is expected to use a GPU does: what is measured otherwise is another machine.
func (s *Server) onGPU(ctx context.Context) error {
	if !s.spec.ExpectGPU || len(s.spec.Ground.memory()) == 0 {
		return nil
	}
	s.declare()
	ready, ours := s.spec.Clock.Now(), s.everyone()
	limit, tick := time.NewTimer(useLimit), time.NewTicker(freeEvery)
	defer limit.Stop()
	defer tick.Stop()
	for {
		switch s.spec.Ground.usage(s.level, ready, ours) {
		case onDevice:
			return nil
		case offDevice:
			return s.fault(record.GPUNotUsed, "the server is ready, but took memory on none of the watched devices (%s); "+
				"check its device settings, or set telemetry.expect_gpu: false", s.spec.Ground.summary())
		default:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			s.note("gpu_use_unknown", "whether the server uses a GPU is not known: no device told its memory after the server was ready")
			return nil
		case <-tick.C:
		}
	}
}

// Devices are the watched devices that the server, which must be ready, was seen on: those that list a process of its, and
// those whose memory grew with its start. doubt says why that is not all that can be said: a device gave no reading of after
// ready within 10 s. The error is that of ctx.
func (s *Server) Devices(ctx context.Context) (on []string, doubt string, err error) {
	ready := s.spec.Clock.Now()
	limit, tick := time.NewTimer(useLimit), time.NewTicker(freeEvery)
	defer limit.Stop()
	defer tick.Stop()
	for {
		on, doubt = s.spec.Ground.seen(s.level, ready, s.everyone())
		if doubt == "" {
			return on, "", nil
		}
		select {
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case <-limit.C:
			return on, doubt, nil
		case <-tick.C:
		}
	}
}

// healthClient makes one connection per look and follows no redirect, which would be another server's answer.
func healthClient() *http.Client {
	return &http.Client{
		Timeout:       healthLimit,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// healthy asks the ready path and returns the status.
func (s *Server) healthy(ctx context.Context) (int, error) {
	url := s.URL() + "/" + strings.TrimPrefix(s.spec.ReadyPath, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := s.health.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// waiter is the rule of readiness, without processes and sockets, so that hours of it can be tested in no time.
type waiter struct {
	limit     time.Duration
	exited    <-chan struct{}
	health    func(context.Context) (status int, err error) // nil: not asked
	probe     func(context.Context) error                   // nil: not asked
	listening func() (bool, error)
	died      func() error
	late      func(last string) error
	lastLine  func() string
	memory    func() string // empty where no GPU is watched; nil is the same
	progress  func(string)
}

// look is what one attempt saw.
type look struct {
	ready bool
	// err ends the wait; text says what was seen, again when to look next.
	err   error
	text  string
	again time.Duration
}

// wait looks again and again, one look at a time. The server's exit and ctx are noticed at once, also in a long look.
func (w *waiter) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began, last := time.Now(), "nothing has answered"
	limit, next, report := time.NewTimer(w.limit), time.NewTimer(0), time.NewTicker(progressEvery)
	defer limit.Stop()
	defer next.Stop()
	defer report.Stop()
	looks := make(chan look, 1) // with room for one, so that a look that is not waited for can end
	for {
		select {
		case <-w.exited:
			return w.died()
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return w.late(last)
		case <-report.C:
			w.say(time.Since(began), last)
		case <-next.C:
			go func() { looks <- w.look(ctx) }()
		case l := <-looks:
			if l.err != nil {
				return l.err
			}
			if l.ready {
				return w.still()
			}
			last = l.text
			next.Reset(l.again)
		}
	}
}

// say reports how the wait goes.
func (w *waiter) say(waited time.Duration, last string) {
	if w.progress == nil {
		return
	}
	text := fmt.Sprintf("%v: %s; ", waited.Round(time.Second), last)
	if w.memory != nil {
		if memory := w.memory(); memory != "" {
			text += memory + "; "
		}
	}
	w.progress(text + "log: " + w.lastLine())
}

// still makes sure that the server which answered has not ended since.
func (w *waiter) still() error {
	select {
	case <-w.exited:
		return w.died()
	default:
		return nil
	}
}

func (w *waiter) look(ctx context.Context) look {
	if w.health != nil {
		status, err := w.health(ctx)
		if err != nil {
			return look{text: "ready path: " + short(err), again: pollEvery}
		}
		if status < 200 || status > 299 {
			return w.unless(look{text: fmt.Sprintf("ready path: status %d", status), again: pollEvery})
		}
	}
	listening, err := w.listening()
	if err != nil {
		return look{err: err}
	}
	if !listening {
		return look{text: "nobody listens on the port", again: pollEvery}
	}
	if w.probe != nil {
		ctx, cancel := context.WithTimeout(ctx, probeLimit)
		defer cancel()
		if err := w.probe(ctx); err != nil {
			if final, ok := errors.AsType[*Error](err); ok {
				return look{err: final}
			}
			return look{text: "up, but one inference gave: " + short(err), again: probeEvery}
		}
	}
	return look{ready: true}
}

// unless returns l unless what answered is not ours.
func (w *waiter) unless(l look) look {
	_, l.err = w.listening()
	return l
}

// short keeps the cause of an error that wraps an address and a URL.
func short(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}
