package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// The test program plays the server too: with role set it serves on PORT instead of testing.
const role = "TARGET_TEST_ROLE"

// mark is carried by every process these tests start.
var mark = "TARGET_TEST_RUN=" + strconv.Itoa(os.Getpid())

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		os.Exit(serve())
	}
	code := m.Run()
	if left := marked(); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "processes left behind:", strings.Join(left, "; "))
		code = 1
	}
	os.Exit(code)
}

// serve answers on PORT until SIGTERM. HEALTH_MS and INFER_MS say when health and inference come up.
func serve() int {
	began := time.Now()
	up := func(name string) bool {
		ms, _ := strconv.Atoi(os.Getenv(name))
		return time.Since(began) >= time.Duration(ms)*time.Millisecond
	}
	for _, entry := range os.Environ() {
		fmt.Println("env", entry)
	}
	fmt.Println("args", os.Args[1:])
	if name := os.Getenv("SHARE"); name != "" {
		if err := share(name); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	mux := http.NewServeMux()
	for path, name := range map[string]string{"/health": "HEALTH_MS", "/infer": "INFER_MS"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if !up(name) {
				http.Error(w, "loading", http.StatusServiceUnavailable)
			}
		})
	}
	server := http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), Handler: mux, ReadHeaderTimeout: time.Second}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Println(err)
		return 1
	}
	return 0
}

// infer is the probe that fits serve.
func infer(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/infer", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d, %w", resp.StatusCode, err)
	}
	return nil
}

// serving is the spec of a server that works.
func serving(t *testing.T, env ...string) Spec {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := scripted(t, proc.Quote(exe), append(env, role+"=serve")...)
	spec.ReadyPath, spec.Probe = "/health", infer
	return spec
}

// scripted is the spec of a shell script.
func scripted(t *testing.T, script string, env ...string) Spec {
	t.Helper()
	return Spec{
		Start: script, Dir: t.TempDir(), Env: append([]string{"PATH=" + os.Getenv("PATH"), mark}, env...),
		LogPath: filepath.Join(t.TempDir(), "server.log"), Clock: record.NewClock(),
		ReadyTimeout: 20 * time.Second, Grace: 2 * time.Second,
	}
}

func start(t *testing.T, spec Spec) *Server {
	t.Helper()
	s, err := Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if _, err := s.Stop(context.Background()); err != nil {
			t.Logf("cleanup: %v", err)
		}
	})
	return s
}

// marked lists the living processes these tests started.
func marked() []string {
	var table proc.Table
	list, err := table.List(nil)
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for _, p := range list {
		environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "environ"))
		if err == nil && !p.Dead() && bytes.Contains(environ, []byte(mark+"\x00")) {
			left = append(left, fmt.Sprint(p.PID, " ", table.Command(p.PID, nil)))
		}
	}
	return left
}

// wantError fails unless err is an Error with this ID, and returns it.
func wantError(t *testing.T, err error, id string) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.ID != id {
		t.Fatalf("error %v (%T), want %s", err, err, id)
	}
	return e
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
