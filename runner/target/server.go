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
	"sync/atomic"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// logTail is how many lines of the log an error carries.
	logTail = 50
	// stolenLooks is how often a listener must look foreign before it is called so: a worker may end between two looks.
	stolenLooks = 3
)

// group is the processes of a server: a [proc.Group], or what a test makes up.
type group interface {
	PID() int
	Exited() <-chan struct{}
	Wait() proc.Exit
	Living() []proc.Process
	Seen() []proc.Process
	End(ctx context.Context, l proc.Ladder) proc.Report
	Kill()
}

// Server is one start of one arm's server. Its methods are safe for concurrent use.
type Server struct {
	spec    Spec
	group   group
	mask    *proc.Mask
	port    int
	tmp     string
	spawned record.Instant
	health  *http.Client
	// level is what the devices held before the start.
	level map[string]float64
	// ended is closed when the server is gone, over when its stop is.
	ended <-chan struct{}
	over  chan struct{}
	// up is set once the server was ready.
	up atomic.Bool
	// declared are the pids that the user's command named.
	declared atomic.Pointer[[]int]

	remarks sync.Mutex // guards notes
	notes   []record.Note

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
	s.level = levels(spec.Ground.memory())
	s.spawned = spec.Clock.Now()
	g, err := proc.Start(ctx, proc.Command{
		Path: shell, Args: []string{"-c", commandLine(spec)}, Dir: spec.Dir, Log: spec.LogPath, Private: s.tmp,
		Env: s.environ(s.tmp), Before: spec.Ground.before(), Adopt: true,
	})
	if err != nil {
		err = errors.Join(fmt.Errorf("start: %w", err), os.RemoveAll(s.tmp))
		s.endLedger(true)
		return nil, err
	}
	s.attend(g)
	s.keepLedger()
	return s, nil
}

// attend takes a started group as the server's.
func (s *Server) attend(g group) {
	s.group, s.health, s.ended = g, healthClient(), g.Exited()
	if s.spec.StopCommand != "" {
		ended := make(chan struct{})
		s.ended = ended
		go s.follow(ended)
	}
	go s.keepLog(&logbook{path: s.spec.LogPath, most: logMost, kept: logKept})
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

// Exited is closed when the start command's process has ended, by itself or by Stop. Of a server with a stop command whose
// start command ended well, it is closed when nobody listens on the port any more.
func (s *Server) Exited() <-chan struct{} { return s.ended }

// Exit says how the server ended: its exit code, 128 + n after signal n, and a text such as "signal: killed". While it
// lives the code is -1 and the text empty.
func (s *Server) Exit() (code int, text string) {
	select {
	case <-s.ended:
	default:
		return -1, ""
	}
	if s.detached() {
		return -1, "nobody listens on its port any more"
	}
	select {
	case <-s.group.Exited():
		exit := s.group.Wait()
		return exit.Code, exit.Text
	default: // it could not be ended
		return -1, ""
	}
}

// PIDs lists the living processes of the server by rising pid, and after them those that the user's command names.
func (s *Server) PIDs() []int {
	var pids []int
	for _, p := range s.group.Living() {
		pids = append(pids, p.PID)
	}
	s.declare()
	return append(pids, s.named()...)
}

// named are the pids that the user's command named when it was last asked.
func (s *Server) named() []int {
	if pids := s.declared.Load(); pids != nil {
		return *pids
	}
	return nil
}

// everyone lists the pids of every process that was ever seen to be the server's.
func (s *Server) everyone() []int {
	pids := s.named()
	for _, p := range s.group.Seen() {
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
	return s.fault(record.Daemonised, "the start command ended while pid %d (%s) goes on in the background; start the server in the foreground, "+
		"or say with target.stop_command how it is stopped", living[0].PID, command)
}

// listening reports whether a process of ours listens on the port. When somebody else does, that is an [Error]: what
// answers is not what was built. A server with a stop command may listen through somebody else, as a container does: the port
// was free before its start, which has to do.
func (s *Server) listening() (bool, error) {
	var strange proc.Listener
	for range stolenLooks {
		// The listeners come first: whoever holds one of them was there before the processes are counted.
		listeners, err := reachable(s.port)
		if err != nil || len(listeners) == 0 || s.spec.StopCommand != "" {
			return err == nil && len(listeners) > 0, err
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
