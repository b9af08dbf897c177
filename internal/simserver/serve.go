package simserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Options is what [Serve] takes from its surroundings.
type Options struct {
	// Listener is where to serve; [Serve] closes it, and closing it from outside ends [Serve]. Nil: listen on Addr.
	Listener net.Listener
	// Addr is a TCP address such as "127.0.0.1:8000", used when Listener is nil. Port 0 takes a free one.
	Addr string
	// Getenv looks an environment variable up; needed for SpeedByStart only. Nil finds nothing.
	Getenv func(name string) string
	// Log takes the lines a server prints, "listening on http://HOST:PORT" once the port is open. Nil drops them.
	Log io.Writer
	// Now gives wall time, for the field "created" of answers. Nil means time.Now.
	Now func() time.Time
	// Spawn starts one child process, see [Config.Children] and [Respawn]. Nil with children configured is an error.
	Spawn func(context.Context, Child) error
}

// ExitError is an end that the configuration asked for. The command exits with Code.
type ExitError struct {
	// Code is the exit code, 0 to 255.
	Code int
	// Reason is one line without trailing newline.
	Reason string
}

// Error implements error.
func (e *ExitError) Error() string { return fmt.Sprintf("%s (exit code %d)", e.Reason, e.Code) }

// Serve runs a server as cfg says until ctx is cancelled, which is how the command tells it of SIGTERM; then it returns
// nil. A crash or a refusal that cfg asks for is an [*ExitError]. Other errors are of the address, the state folder, the
// truth log or an invalid cfg.
func Serve(ctx context.Context, cfg Config, o Options) (err error) {
	if err := cfg.check(); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if o.Listener != nil {
		defer func() { _ = o.Listener.Close() }() // whichever way this ends; once more does no harm
	}
	if cfg.IgnoreSIGTERM {
		ctx = context.WithoutCancel(ctx)
	}
	if cfg.Plain != nil {
		return servePlain(ctx, cfg, o)
	}
	s := newServer(cfg, o)
	if cfg.RefuseStart != nil {
		return s.refuseStart(ctx)
	}
	factor, err := s.startFactor(o.Getenv)
	if err != nil {
		return err
	}
	if err := s.spawnChildren(ctx, o.Spawn); err != nil {
		return err
	}
	if !pause(ctx, time.Duration(cfg.Start.ListenAfter)) {
		return nil
	}
	l, err := listen(ctx, o)
	if err != nil {
		return err
	}
	if err := s.truth.open(cfg.TruthLog); err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, s.truth.close()) }()
	s.driver, err = newDriver(newEngine(cfg.Engine, s.truth.ready, factor), s.clock)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return s.run(ctx, l)
}

// server is one running instance.
type server struct {
	cfg     Config
	log     *log.Logger
	now     func() time.Time
	clock   clock
	started time.Time
	truth   *truth
	meters  *meters
	driver  *driver

	dying chan struct{} // closed when running requests must end
	crash chan *ExitError
}

func newServer(cfg Config, o Options) *server {
	s := &server{
		cfg: cfg, clock: newClock(), truth: &truth{}, meters: newMeters(), now: o.Now,
		dying: make(chan struct{}), crash: make(chan *ExitError, 1),
	}
	if s.now == nil {
		s.now = time.Now
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	s.log = log.New(o.Log, "", 0)
	s.started = s.now()
	s.truth.start = s.clock.now()
	s.truth.ready = s.truth.start + int64(max(cfg.Start.InferenceAfter, cfg.Start.ListenAfter))
	return s
}

func listen(ctx context.Context, o Options) (net.Listener, error) {
	if o.Listener != nil {
		return o.Listener, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// run serves until something ends it, and leaves nothing running.
func (s *server) run(ctx context.Context, l net.Listener) error {
	hs := &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: time.Minute,
		IdleTimeout:       time.Duration(s.cfg.IdleTimeout),
		ErrorLog:          log.New(io.Discard, "", 0),
		ConnContext:       withConn,
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.driver.stop()
	wg.Go(s.driver.run)
	s.log.Printf("listening on http://%s model=%s revision=%s", l.Addr(), s.cfg.Model, s.cfg.Revision)

	served := make(chan error, 1)
	wg.Go(func() { served <- hs.Serve(&stampedListener{Listener: l, clock: s.clock, truth: s.truth}) })
	if s.cfg.Exit != nil && s.cfg.Exit.After > 0 {
		timer := time.AfterFunc(time.Duration(s.cfg.Exit.After), func() { s.exit("crashed after its time") })
		defer timer.Stop()
	}
	select {
	case <-ctx.Done():
		s.stop(ctx, hs)
		return nil
	case e := <-s.crash:
		for _, line := range s.cfg.Exit.Log {
			s.log.Print(line)
		}
		s.abandon(hs)
		return e
	case err := <-served:
		s.abandon(hs)
		if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serve: %w", err)
	}
}

// stop closes the port and lets running requests end, within Drain.
func (s *server) stop(ctx context.Context, hs *http.Server) {
	s.log.Print("stopping")
	ctx = context.WithoutCancel(ctx)
	pause(ctx, time.Duration(s.cfg.StopAfter))
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.cfg.Drain))
	defer cancel()
	_ = hs.Shutdown(ctx) // what is left after the limit is closed next
	s.abandon(hs)
}

// abandon ends what still runs at once, and gives the handlers a moment to notice, so that the truth log has their lines.
func (s *server) abandon(hs *http.Server) {
	close(s.dying)
	_ = hs.Close() // everything ends here; there is nobody to tell
	for i := 0; i < 500 && s.truth.inFlight.Load() > 0; i++ {
		pause(context.Background(), time.Millisecond)
	}
}

// exit asks for the configured crash; the first reason stands.
func (s *server) exit(reason string) {
	select {
	case s.crash <- &ExitError{Code: s.cfg.Exit.Code, Reason: reason}:
	default:
	}
}

// finish closes the books on a request and crashes the server if that was the last it may serve.
func (s *server) finish(e *Entry) {
	s.truth.ended(e)
	x := s.cfg.Exit
	if x != nil && x.AfterRequests > 0 && s.truth.answered.Load() >= int64(x.AfterRequests) {
		s.exit(fmt.Sprintf("crashed after %d requests", x.AfterRequests))
	}
}

func (s *server) refuseStart(ctx context.Context) error {
	r := s.cfg.RefuseStart
	for _, line := range r.Log {
		s.log.Print(line)
	}
	if !pause(ctx, time.Duration(r.After)) {
		return nil
	}
	return &ExitError{Code: r.Code, Reason: "refused to start"}
}

func (s *server) startFactor(getenv func(string) string) (float64, error) {
	if len(s.cfg.SpeedByStart) == 0 {
		return 1, nil
	}
	dir := ""
	if getenv != nil {
		dir = getenv(s.cfg.StateEnv)
	}
	if dir == "" {
		return 0, fmt.Errorf("speed_by_start: the environment variable %s names no folder", s.cfg.StateEnv)
	}
	n, err := countStart(dir)
	if err != nil {
		return 0, fmt.Errorf("speed_by_start: %w", err)
	}
	factor := s.cfg.SpeedByStart[(n-1)%len(s.cfg.SpeedByStart)]
	s.log.Printf("start %d: every duration times %g", n, factor)
	return factor, nil
}

// countStart counts one more start in a folder and says which it is, from 1. Appending one byte and asking where it
// landed is atomic across processes: the kernel moves to the end and writes under one lock.
func countStart(dir string) (int, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }() // nothing is written through it
	f, err := root.OpenFile("starts", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = f.WriteString(".")
	if err != nil {
		return 0, errors.Join(err, f.Close())
	}
	at, err := f.Seek(0, io.SeekCurrent)
	return int(at), errors.Join(err, f.Close())
}

// pause waits, and reports whether it waited in full.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
