package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/canary"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/selftest"
)

// canaryName is the hidden command of the process that the load generator listens to all round long.
const canaryName = "canary"

// program is the path of this very program, for the processes it starts of itself; empty in a test binary, which is not
// tailgate.
var program string

var errNoProgram = errors.New("the path of the tailgate program is not known")

// canaryCommand writes a stream of known stamps. It says its address on standard output and runs until it is told to stop.
func (a *app) canaryCommand() *cobra.Command {
	return &cobra.Command{
		Use: canaryName, Short: "Write a stream of known stamps", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "http://%s\n", l.Addr())
			return canary.Serve(cmd.Context(), l)
		},
	}
}

const (
	// witnessStart is how long a witness may take to say its address, witnessGrace how long to leave.
	witnessStart = 10 * time.Second
	witnessGrace = 2 * time.Second
)

// witness is a process of ours that the load generator measures itself against. It inherits no secret and starts nothing.
type witness struct {
	url   string
	group *proc.Group
}

// witness starts this program again with other arguments and waits for the address it says.
func (a *app) witness(ctx context.Context, args ...string) (*witness, error) {
	if program == "" {
		return nil, errNoProgram
	}
	said := &firstLine{line: make(chan string, 1)}
	group, err := proc.Start(ctx, proc.Command{
		Path: program, Args: args, Dir: "/", Env: proc.Environ(a.lookup, a.environ, proc.Sensor, nil, nil), Stdout: said, Alone: true,
	})
	if err != nil {
		return nil, err
	}
	w := &witness{group: group}
	limit := time.NewTimer(witnessStart)
	defer limit.Stop()
	select {
	case w.url = <-said.line:
		return w, nil
	case <-group.Exited():
		err = fmt.Errorf("it ended before it said its address (%s)", group.Wait().Text)
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = fmt.Errorf("it said no address within %v", witnessStart)
	}
	return nil, errors.Join(err, w.stop())
}

// stop ends the process and says so when it does not go.
func (w *witness) stop() error {
	report := w.group.Stop(syscall.SIGTERM, witnessGrace)
	if len(report.Left) > 0 {
		return fmt.Errorf("process %d does not end", report.Left[0].PID)
	}
	return nil
}

// firstLine hands on the first line written to it and drops the rest. Writes come from one goroutine.
type firstLine struct {
	line chan string
	buf  []byte
	once sync.Once
}

func (f *firstLine) Write(p []byte) (int, error) {
	if f.buf = append(f.buf, p[:min(len(p), 200)]...); len(f.buf) > 400 {
		f.buf = f.buf[:400]
	}
	if line, _, whole := bytes.Cut(f.buf, []byte{'\n'}); whole {
		f.once.Do(func() { f.line <- strings.TrimSpace(string(line)) })
	}
	return len(p), nil
}

// vouch gives a plan its witnesses: the canary of every round and, where one was declared, the server of the self-tests. The
// returned function ends them and must be called; what does not end is said in its error. A witness that does not start
// leaves its reason in each round and stops nothing.
func (a *app) vouch(ctx context.Context, p *runner.Plan) (stop func() error) {
	bird, err := a.witness(ctx, canaryName)
	p.Canary = func(ctx context.Context) (func() record.CanaryReport, error) {
		if err != nil {
			return nil, fmt.Errorf("the canary did not start: %w", err)
		}
		return canary.Listen(ctx, bird.url, p.Clock)
	}
	var truth *truthServer
	if length := p.Run.Declared.SelfTest; length > 0 {
		var err error
		truth, err = a.startTruthServer(ctx)
		p.Floor = func(ctx context.Context, streams int) (record.Floor, error) {
			if err != nil {
				return record.Floor{}, err
			}
			return floor(ctx, truth, p.Clock, streams, length)
		}
	}
	return func() error {
		var errs []error
		if bird != nil {
			if err := bird.stop(); err != nil {
				errs = append(errs, fmt.Errorf("canary: %w", err))
			}
		}
		if truth != nil {
			if err := truth.stop(); err != nil {
				errs = append(errs, fmt.Errorf("truth server: %w", err))
			}
		}
		return errors.Join(errs...)
	}
}

// floorRate is the pace of a stream in a self-test, events per second: that of a service that writes a token each 50 ms.
const floorRate = 20

// floor measures the load generator's own error at so many streams.
func floor(ctx context.Context, s *truthServer, clock record.Clock, streams int, length time.Duration) (record.Floor, error) {
	r, err := selftest.Run(ctx, selftest.Options{
		URL: s.URL, Truth: s.truth, Clock: clock, Streams: streams, EventsPerS: floorRate, StreamFor: length / 2, Length: length,
	})
	if err != nil {
		return record.Floor{}, err
	}
	if r.OK < r.Measured {
		return record.Floor{}, fmt.Errorf("%d of %d requests failed: %s", r.Measured-r.OK, r.Measured, r.FirstFailure)
	}
	return record.Floor{
		Streams: streams, Seconds: length.Seconds(), TTFTP50: r.TTFTError.P50.Value, TTFTP99: r.TTFTError.P99.Value,
		GapP50: r.GapError.P50.Value, GapP99: r.GapError.P99.Value,
	}, nil
}
