package target

import (
	"cmp"
	"context"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Spec describes one server.
type Spec struct {
	// Start is the command line, run by bash -c in the foreground; Args are quoted and appended to it.
	Start string
	Args  []string
	// Dir is the working folder, Env the whole environment without PORT and TMPDIR, which are added.
	Dir string
	Env []string
	// Port fixes the port; 0 chooses a fresh one.
	Port int
	// ReadyPath must answer 2xx. Empty: only Probe is asked.
	ReadyPath string
	// ReadyTimeout bounds the whole start, 0 is 10 m. Grace is the time from asking to SIGKILL, 0 is 20 s.
	ReadyTimeout, Grace time.Duration
	// Signal asks the server to end. 0 is SIGTERM.
	Signal syscall.Signal
	// LogPath takes stdout and stderr, appended. Its folder must exist.
	LogPath string
	// Probe makes one real inference and returns an error unless content came back. Nil: none is made.
	Probe func(ctx context.Context, url string) error
	// Clock is the run's.
	Clock record.Clock
	// Mask hides secrets in what is shown, besides the secret values of Env, which are always hidden. It may be nil.
	Mask func(string) string
	// PortWait is how long the port may take to become free after the server's end. 0 is 60 s.
	PortWait time.Duration
	// StopCommand is a shell command that ends the server in place of Signal; empty for none. It runs in Dir with the server's
	// environment, and once more with its own Grace before SIGKILL. With it the start command may end and leave the server to
	// somebody else, as a container's client does: the port and the devices then prove its end. StopLog takes its output.
	StopCommand, StopLog string
	// PIDs is a shell command that prints pids of the host, one a line, which belong to the server too. They are observed, never
	// signalled. Empty for none.
	PIDs string
	// Ground is what the machine was before the session; nil when that is not known, and no GPU then counts as watched.
	Ground *Ground
	// Beside says that another server of the session is up, which may hold memory of the same devices: this one is then gone when
	// they are back at what they held before its own start.
	Beside bool
	// MemoryTimeout is how long the devices may take to be back at their level. 0 is 60 s.
	MemoryTimeout time.Duration
	// ExpectGPU says that a server which is ready must be seen on a watched device.
	ExpectGPU bool
	// CancelGrace replaces what is left of Grace when the context of Stop ends. 0 is 4 s, which a runner's SIGINT leaves
	// room for; a runner that sends SIGTERM at once leaves 1 s.
	CancelGrace time.Duration
	// Ledger is told what the start brings into the world. Nil: nobody is.
	Ledger Ledger
}

func (s Spec) withDefaults() Spec {
	s.ReadyTimeout = cmp.Or(s.ReadyTimeout, 10*time.Minute)
	s.Grace = cmp.Or(s.Grace, 20*time.Second)
	s.PortWait = cmp.Or(s.PortWait, time.Minute)
	s.MemoryTimeout = cmp.Or(s.MemoryTimeout, memoryTimeout)
	s.CancelGrace = cmp.Or(s.CancelGrace, 4*time.Second)
	if s.Mask == nil {
		s.Mask = func(text string) string { return text }
	}
	return s
}

// Error is what went wrong with a server, as an incident.
type Error struct {
	// ID is one of the incidents of runner/record, e.g. record.StartFailed.
	ID string
	// Text is one sentence: what happened and what to do.
	Text string
	// Exit is the server's exit code, nil while it lives or when it does not matter.
	Exit *int
	// Tail holds the last lines of its log, masked and cleaned; at most 50.
	Tail []string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }
