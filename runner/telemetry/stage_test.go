package telemetry

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// boot is what CLOCK_MONOTONIC of a stage read when the run's clock started.
const boot = int64(5000 * time.Second)

// actor is a sensor process that a test plays. The play runs in a goroutine; when it returns, the process has ended.
type actor struct {
	args   []string
	mono   func() int64
	stdin  *bufio.Scanner
	stdout io.Writer
	stderr io.Writer
	killed <-chan struct{}
}

// say prints a protocol line, stamped with the stage's clock, ahead of the given fields.
func (a *actor) say(kind, fields string) {
	if fields != "" {
		fields = "," + fields
	}
	_, _ = fmt.Fprintf(a.stdout, "{\"v\":1,\"type\":%q,\"t_ns\":%d%s}\n", kind, a.mono(), fields)
}

// open prints what every sensor begins with.
func (a *actor) open() {
	a.say("hello", `"sensor":"actor","version":"1.2.3"`)
	a.say("device", `"dev":"GPU-1","name":"Stub"`)
	a.say("caps", `"dev":"GPU-1","caps":{"sm_mhz":"ok"}`)
}

// sample prints one sample under load.
func (a *actor) sample() {
	a.say("sample", `"dev":"GPU-1","util_pct":90,"sm_mhz":1980,"temp_c":60,"reasons":"0x0"`)
}

// wait returns when stdin is closed or the process is killed.
func (a *actor) wait() exit {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for a.stdin.Scan() {
		}
	}()
	select {
	case <-closed:
		return exit{}
	case <-a.killed:
		return exit{signal: syscall.SIGKILL}
	}
}

// measure samples every second for n seconds, or until it is asked to leave.
func (a *actor) measure(n int) {
	for range n {
		select {
		case <-a.killed:
			return
		case <-time.After(time.Second):
		}
		a.sample()
	}
}

// stage starts actors instead of processes. Life number n plays play(n, …).
type stage struct {
	play func(life int, a *actor) exit
	mono func() int64
	// immortal processes do not die of SIGKILL.
	immortal bool

	mu    sync.Mutex
	lives [][]string
}

func (s *stage) launch(args []string) (*process, error) {
	s.mu.Lock()
	life := len(s.lives)
	s.lives = append(s.lives, args)
	s.mu.Unlock()

	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	errR, errW := io.Pipe()
	killed := make(chan struct{})
	ended := make(chan exit, 1)
	a := &actor{args: args, mono: s.mono, stdin: bufio.NewScanner(inR), stdout: outW, stderr: errW, killed: killed}
	go func() {
		how := s.play(life, a)
		_, _, _ = outW.Close(), errW.Close(), inR.Close()
		ended <- how
	}()
	return &process{
		stdin: inW, stdout: outR, stderr: errR, wait: func() exit { return <-ended },
		kill: sync.OnceFunc(func() {
			if !s.immortal {
				close(killed)
			}
		}),
	}, nil
}

// starts is with which arguments each life began.
func (s *stage) starts() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lives
}

// perform starts a sampler over a play. It must run in a bubble of fake time; the sampler is closed at the end of the test,
// and every goroutine must have ended then.
func perform(t *testing.T, o Options, st *stage) (*Sampler, error) {
	t.Helper()
	begin := time.Now()
	o.Clock = record.NewClock()
	o.ProcRoot, o.SysRoot = "testdata/proc", "testdata/sys"
	if o.Mode == "" {
		o.Mode, o.Sensor, o.Interval = Optional, "actor", time.Second
	}
	st.mono = func() int64 { return boot + int64(time.Since(begin)) }
	s, err := start(context.Background(), o, &boundedLog{}, st.launch, st.mono)
	if err == nil {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	synctest.Wait()
	return s, err
}
