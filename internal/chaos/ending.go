package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

// endLimit is how long killing is repeated: a process may fork meanwhile.
const endLimit = 5 * time.Second

// aliveError says that processes of a session could not be killed.
type aliveError struct {
	// living are the processes, as people read them; err is what came of the signals, nil when they were taken.
	living []string
	err    error
}

// Error names the processes.
func (e *aliveError) Error() string {
	text := fmt.Sprintf("alive after %s of SIGKILL: %s", endLimit, strings.Join(e.living, ", "))
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

// Unwrap returns what came of the signals.
func (e *aliveError) Unwrap() error { return e.err }

// end kills what still lives of a session that is over: it was judged, and would disturb the sessions beside it. The processes
// are known by their environment alone. A command line may name the folder only to look into it.
func (s *session) end() error {
	for until := time.Now().Add(endLimit); ; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // other processes end meanwhile
		living, err := s.living()
		if err != nil || len(living) == 0 {
			return err
		}
		for _, p := range living {
			if signalErr := (proc.Table{}).Signal(p.ID, syscall.SIGKILL); !errors.Is(signalErr, os.ErrProcessDone) {
				err = errors.Join(err, signalErr)
			}
		}
		if time.Now().After(until) {
			e := &aliveError{err: err}
			for _, p := range living {
				e.living = append(e.living, fmt.Sprintf("%d (%s)", p.PID, proc.Table{}.Command(p.PID, nil)))
			}
			return e
		}
	}
}

// living lists the processes that were started with a path in the session's folder in their environment.
func (s *session) living() ([]proc.Process, error) {
	list, err := proc.Table{}.List(func(pid int) bool { return pid == os.Getpid() })
	var ours []proc.Process
	for _, p := range list {
		// The row was read first: a pid that is used again meanwhile has another start time, and is not signalled.
		environ, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "environ")) // gone, or another user's: not the session's
		if bytes.Contains(environ, []byte(s.Folder+"/")) {
			ours = append(ours, p)
		}
	}
	return ours, err
}
