package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// logTail is how many lines of the log an error carries.
	logTail = 50
	// stolenLooks is how often a listener must look foreign before it is called so: a worker may end between two looks.
	stolenLooks = 3
)

// Server is one start of one arm's server. Its methods are safe for concurrent use.
type Server struct {
	spec    Spec
	group   *proc.Group
	mask    *proc.Mask
	port    int
	tmp     string
	spawned record.Instant
	health  *http.Client
	over    chan struct{} // closed when the server was stopped

	mu      sync.Mutex // guards what follows; held while a stop goes on
	stopped bool
	report  record.StopReport
	stopErr error
}

// Start starts the server on a fresh port, in a session and with a TMPDIR of its own. ctx bounds the start only. A server
// that was started must be stopped by [Server.Stop], whatever happens in between. A port that is taken is an [Error];
// other errors are the machine's.
func Start(ctx context.Context, spec Spec) (*Server, error) {
	s := &Server{spec: spec.withDefaults(), mask: proc.NewMask(spec.Env), port: spec.Port, over: make(chan struct{})}
	shell, _, err := proc.Shell(spec.Env)
	if err != nil {
		return nil, err
	}
	if s.port == 0 {
		s.port, err = choosePort("/proc/sys", pickRandom)
	} else {
		err = takePort(s.port)
	}
	if err != nil {
		return nil, err
	}
	if s.tmp, err = proc.PrivateDir(""); err != nil {
		return nil, err
	}
	if spec.Ledger != nil {
		if err := spec.Ledger.Starting(s.beginning()); err != nil {
			return nil, errors.Join(fmt.Errorf("state file: %w", err), os.RemoveAll(s.tmp))
		}
	}
	s.spawned = spec.Clock.Now()
	s.group, err = proc.Start(ctx, proc.Command{
		Path: shell, Args: []string{"-c", commandLine(spec)}, Dir: spec.Dir, Log: spec.LogPath, Private: s.tmp,
		Env: append(append([]string{}, spec.Env...), "PORT="+strconv.Itoa(s.port), "TMPDIR="+s.tmp),
	})
	if err != nil {
		err = errors.Join(fmt.Errorf("start: %w", err), os.RemoveAll(s.tmp))
		s.endLedger(true)
		return nil, err
	}
	s.keepLedger()
	s.health = healthClient()
	return s, nil
}

// commandLine is the start command with the arm's own arguments. A single simple command replaces its shell.
func commandLine(spec Spec) string {
	var line strings.Builder
	line.WriteString(strings.TrimSpace(spec.Start))
	for _, arg := range spec.Args {
		line.WriteString(" " + proc.Quote(arg))
	}
	return line.String()
}

// URL is the server's address without a path.
func (s *Server) URL() string { return "http://127.0.0.1:" + strconv.Itoa(s.port) }

// Port is the server's port.
func (s *Server) Port() int { return s.port }

// Spawned is the instant just before the process was made.
func (s *Server) Spawned() record.Instant { return s.spawned }

// Exited is closed when the start command's process has ended, by itself or by Stop.
func (s *Server) Exited() <-chan struct{} { return s.group.Exited() }

// Exit says how the server ended: its exit code, 128 + n after signal n, and a text such as "signal: killed". While it
// lives the code is -1 and the text empty.
func (s *Server) Exit() (code int, text string) {
	select {
	case <-s.group.Exited():
		exit := s.group.Wait()
		return exit.Code, exit.Text
	default:
		return -1, ""
	}
}

// PIDs lists the living processes of the server by rising pid.
func (s *Server) PIDs() []int {
	var pids []int
	for _, p := range s.group.Living() {
		pids = append(pids, p.PID)
	}
	return pids
}

// LogTail returns the last 50 lines of the server's log, masked and cleaned.
func (s *Server) LogTail() []string { return s.lines(logTail) }

func (s *Server) lines(n int) []string {
	lines := proc.Tail(s.spec.LogPath, n, s.mask)
	for i, line := range lines {
		lines[i] = s.spec.Mask(line)
	}
	return lines
}

// Kill sends SIGKILL to everything of the server's and returns within 0.3 s. It proves nothing; it may be called while
// another goroutine is in [Server.Stop].
func (s *Server) Kill() { s.group.Kill() }

// fault makes an error with the server's last words.
func (s *Server) fault(id, format string, args ...any) *Error {
	e := &Error{ID: id, Text: s.spec.Mask(fmt.Sprintf(format, args...)), Tail: s.LogTail()}
	if code, text := s.Exit(); text != "" {
		e.Exit = &code
	}
	return e
}

// died explains an exit before the server was ready.
func (s *Server) died() error {
	code, text := s.Exit()
	living := s.group.Living()
	if code != 0 || len(living) == 0 {
		return s.fault(record.StartFailed, "the server ended before it was ready: %s", text)
	}
	command := proc.Table{}.Command(living[0].PID, s.mask)
	return s.fault(record.Daemonised, "the start command ended while pid %d (%s) goes on in the background; start the server in the foreground",
		living[0].PID, command)
}

// listening reports whether a process of ours listens on the port. When somebody else does, that is an [Error]: what
// answers is not what was built.
func (s *Server) listening() (bool, error) {
	var strange proc.Listener
	for range stolenLooks {
		// The listeners come first: whoever holds one of them was there before the processes are counted.
		listeners, err := reachable(s.port)
		if err != nil || len(listeners) == 0 {
			return false, err
		}
		living := s.group.Living()
		foreign := false
		for _, l := range listeners {
			if !holds(living, l) {
				strange, foreign = l, true
			}
		}
		if !foreign {
			return true, nil
		}
	}
	return false, s.fault(record.PortStolen, "port %d is answered by %s, which this run did not start", s.port, proc.Table{}.Holder(strange))
}

// holds reports whether one of our processes holds the listener. One whose files may not be read gets the benefit of the
// doubt.
func holds(living []proc.Process, l proc.Listener) bool {
	doubt := false
	for _, p := range living {
		held, err := proc.Table{}.Holds(p.PID, l.Inode)
		if held {
			return true
		}
		doubt = doubt || (err != nil && errors.Is(err, fs.ErrPermission))
	}
	return doubt
}

// lastLine is the log's last line, for progress.
func (s *Server) lastLine() string {
	lines := s.lines(1)
	if len(lines) == 0 {
		return "the log is empty"
	}
	return proc.Clean(cmp.Or(lines[0], "…"), progressLine)
}
