package target

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

var errLate, errDied = errors.New("late"), errors.New("died")

// imagined is a waiter on a server that exists only in time: each part answers well from its moment on.
func imagined(began time.Time, health, infer time.Duration, exited <-chan struct{}) *waiter {
	up := func(at time.Duration) bool { return time.Since(began) >= at }
	return &waiter{
		limit: 10 * time.Minute, exited: exited,
		health: func(context.Context) (int, error) {
			if !up(health) {
				return http.StatusServiceUnavailable, nil
			}
			return http.StatusOK, nil
		},
		probe: func(context.Context) error {
			if !up(infer) {
				return errors.New("empty answer")
			}
			return nil
		},
		listening: func() (bool, error) { return true, nil },
		died:      func() error { return errDied },
		late:      func(last string) error { return fmt.Errorf("%w: %s", errLate, last) },
		lastLine:  func() string { return "loading" },
	}
}

// A probe that knows that the server will never be ready ends the wait.
func TestProbeThatIsSure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := imagined(began, 0, time.Hour, nil)
		probe := w.probe
		w.probe = func(ctx context.Context) error {
			if time.Since(began) >= 3*time.Second {
				return &Error{ID: "probe_failed", Text: "another dialect"}
			}
			return probe(ctx)
		}
		err := w.wait(t.Context())
		if sure, ok := errors.AsType[*Error](err); !ok || sure.ID != "probe_failed" || time.Since(began) > 4*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestReadyWithinOnePoll(t *testing.T) {
	tests := []struct {
		name          string
		health, infer time.Duration
		limit         time.Duration
		want, poll    time.Duration
	}{
		{"at once", 0, 0, time.Minute, 0, 0},
		{"P-04 (a) health 503 until 20 s", 20 * time.Second, 0, time.Minute, 20 * time.Second, pollEvery},
		{"P-04 (b) health at once, inference from 15 s", 0, 15 * time.Second, time.Minute, 15 * time.Second, probeEvery},
		{"P-06 (b) ready after 25 min with a limit of 30 min", 25 * time.Minute, 25 * time.Minute, 30 * time.Minute, 25 * time.Minute, pollEvery},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w := imagined(began, tt.health, tt.infer, nil)
				w.limit = tt.limit
				if err := w.wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < tt.want || took > tt.want+tt.poll {
					t.Errorf("took %v, want %v plus at most one poll of %v", took, tt.want, tt.poll)
				}
			})
		})
	}
}

// P-04 (c): the list of models answers at once, the ready path 503 until 20 s. Only the ready path and an inference count, over
// real connections.
func TestP04HealthyIsNotReady(t *testing.T) {
	spec := serving(t, "HEALTH_MS=1000", "INFER_MS=1300")
	asked := 0
	spec.Probe = func(ctx context.Context, url string) error { asked++; return infer(ctx, url) }
	s := start(t, spec)
	began := time.Now()
	if err := s.Ready(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	// The server's own clock starts a little after ours.
	if took := time.Since(began); took < 1300*time.Millisecond-200*time.Millisecond {
		t.Errorf("ready after %v, before an inference succeeds", took)
	}
	if asked == 0 {
		t.Error("no inference was asked")
	}
}

func TestReadyEndsEarly(t *testing.T) {
	stolen := &Error{ID: record.PortStolen}
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name string
		edit func(*waiter)
		want error
		took time.Duration
	}{
		{"exit in a long inference", func(w *waiter) { w.probe = hang }, errDied, 7 * time.Second},
		{"exit while loading", func(w *waiter) { w.health = func(context.Context) (int, error) { return 0, errors.New("refused") } }, errDied, 7 * time.Second},
		{"too late", func(w *waiter) { w.limit = 3 * time.Second; w.probe = hang }, errLate, 3 * time.Second},
		{"nobody listens", func(w *waiter) { w.limit, w.listening = time.Second, func() (bool, error) { return false, nil } }, errLate, time.Second},
		{"somebody else answers 200", func(w *waiter) { w.listening = func() (bool, error) { return false, stolen } }, stolen, 0},
		{"somebody else answers 404", func(w *waiter) {
			w.health = func(context.Context) (int, error) { return http.StatusNotFound, nil }
			w.listening = func() (bool, error) { return false, stolen }
		}, stolen, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				exited, began := make(chan struct{}), time.Now()
				time.AfterFunc(7*time.Second, func() { close(exited) })
				w := imagined(began, 0, time.Hour, exited)
				tt.edit(w)
				if err := w.wait(t.Context()); !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("noticed after %v, want %v", took, tt.took)
				}
			})
		})
	}
}

func TestReadyExitBetweenAnswerAndReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exited := make(chan struct{})
		w := imagined(time.Now(), 0, 0, exited)
		w.probe = func(context.Context) error { close(exited); return nil }
		if err := w.wait(t.Context()); !errors.Is(err, errDied) {
			t.Errorf("error %v, want %v", err, errDied)
		}
	})
}

func TestReadyProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		var lines []string
		w := imagined(time.Now(), time.Hour, 0, nil)
		w.progress = func(s string) { lines = append(lines, s) }
		w.memory = func() string { return "GPU-1 holds 1.0 GiB" }
		if err := w.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if len(lines) != 3 || lines[0] != "10s: ready path: status 503; GPU-1 holds 1.0 GiB; log: loading" {
			t.Errorf("progress = %q", lines)
		}
	})
}

func TestReady(t *testing.T) {
	spec := serving(t, "HEALTH_MS=300", "INFER_MS=600")
	s := start(t, spec)
	began := time.Now()
	if err := s.Ready(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("ready after %v, before health was", took)
	}
	if pids := s.PIDs(); len(pids) != 1 || !s.Spawned().Reached() {
		t.Errorf("pids %v: a simple command replaces its shell", pids)
	}
	if code, text := s.Exit(); code != -1 || text != "" {
		t.Errorf("exit of a living server: %d %q", code, text)
	}
}

// P-06: exit 1 with 200 log lines, noticed within a second, tail attached, secret masked.
func TestReadyServerExits(t *testing.T) {
	spec := scripted(t, `echo $(date) starting; seq 200; echo "loading with $HF_TOKEN"; exit 1`, "HF_TOKEN=hf_canary_1234")
	spec.ReadyPath = "/health"
	spec.Mask = func(s string) string { return strings.ReplaceAll(s, "loading", "LOADING") }
	s := start(t, spec)
	began := time.Now()
	e := wantError(t, s.Ready(t.Context(), nil), record.StartFailed)
	if took := time.Since(began); took > time.Second {
		t.Errorf("noticed after %v", took)
	}
	if e.Exit == nil || *e.Exit != 1 || !strings.Contains(e.Text, "exit status 1") {
		t.Errorf("error = %+v", e)
	}
	if len(e.Tail) != 50 || e.Tail[49] != "LOADING with ***" || e.Tail[48] != "200" {
		t.Errorf("tail of %d lines: %q", len(e.Tail), e.Tail)
	}
}

func TestReadyTimeout(t *testing.T) {
	spec := serving(t, "HEALTH_MS=600000")
	spec.ReadyTimeout = 600 * time.Millisecond
	s := start(t, spec)
	// A busy machine may take longer than that to bring the process up, and then there is no log yet to show the tail of.
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(spec.LogPath); err == nil && len(text) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the server says nothing")
		}
	}
	e := wantError(t, s.Ready(t.Context(), nil), record.StartTimeout)
	if !strings.Contains(e.Text, "600ms") || e.Exit != nil || len(e.Tail) == 0 {
		t.Errorf("error = %+v", e)
	}
}

func TestReadyDaemonised(t *testing.T) {
	spec := serving(t)
	spec.Start = "setsid " + spec.Start + " & sleep 0.3; exit 0"
	s := start(t, spec)
	e := wantError(t, func() error { <-s.Exited(); return s.Ready(t.Context(), nil) }(), record.Daemonised)
	if !strings.Contains(e.Text, "foreground") {
		t.Errorf("no hint: %s", e.Text)
	}
	report, err := s.Stop(t.Context())
	if err != nil || len(report.Escaped) != 1 || len(s.PIDs()) != 0 {
		t.Errorf("stop: %+v, %v, left %v", report, err, s.PIDs())
	}
}

func TestReadyPortStolen(t *testing.T) {
	s := start(t, func() Spec { spec := scripted(t, "sleep 300"); spec.ReadyPath = "/health"; return spec }())
	l := listen(t, strings.TrimPrefix(s.URL(), "http://"))
	foreign := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	go foreign.Serve(l)
	defer foreign.Close()
	e := wantError(t, s.Ready(t.Context(), nil), record.PortStolen)
	if !strings.Contains(e.Text, fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("the holder is not named: %s", e.Text)
	}
}

func TestReadyCancelled(t *testing.T) {
	s := start(t, serving(t, "HEALTH_MS=600000"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Ready(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v", err)
	}
}
