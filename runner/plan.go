package runner

import (
	"context"
	"net/http"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/target"
	"github.com/tailgate-ci/tailgate/runner/telemetry"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// Plan is everything a session needs. What was declared before slot 0 stands in Run.Declared; the rest is how to do it.
type Plan struct {
	// Run is filled in as the session goes; Writer keeps it on disk.
	Run    *record.Run
	Writer *record.Writer
	Clock  record.Clock

	Workload *workload.Workload
	Arms     map[record.Arm]Target
	// API says how requests are sent: dialect, model, headers.
	API API

	// Telemetry may be nil: nothing is observed then, and each round says so.
	Telemetry *telemetry.Sampler
	// Devices are the GPUs that the servers see and that Telemetry watches; the zero value is all, as the environment has it.
	Devices Devices
	Rules   Rules
	// Floor measures the load generator against a server of known truth at so many streams, just before a round; nil when
	// it is not done. Its error is kept as the reason why there is no floor, and stops nothing.
	Floor func(ctx context.Context, streams int) (record.Floor, error)
	// Canary begins to listen to a stream of known stamps from another process; stop ends that and says how late our
	// stamps were. Nil when there is none; an error is kept as the reason, and stops nothing.
	Canary func(ctx context.Context) (stop func() record.CanaryReport, err error)
	// Seen asks the server at url how many requests it has received so far, or since whenever it counts. Nil where the
	// server does not tell. It is called outside the measured interval.
	Seen func(ctx context.Context, url string) (int64, error)
	// Deadline is when the session must be over; 0 for never. No pair is begun that would not be, see [Session.Run].
	Deadline record.Instant
	// Progress is called for each step, from one goroutine at a time; nil for silence.
	Progress func(Progress)
}

// Target is how the server of one arm is started and stopped, or where it already runs.
type Target struct {
	// URL is the address of a server that somebody else runs, in a run of kind url; all other fields are unused then.
	URL string
	// Start is a shell command; Args are quoted and appended to it.
	Start string
	Args  []string
	// Dir is the arm's worktree. Env is the complete environment but for PORT and TMPDIR, which are fresh for each round.
	Dir string
	Env []string
	// Port is fixed when not 0.
	Port int
	// ReadyPath answers 2xx when the server is up, e.g. /health.
	ReadyPath    string
	ReadyTimeout time.Duration
	// Signal asks the server to stop; Grace is how long it may take.
	Signal syscall.Signal
	Grace  time.Duration
	// StopCommand stops the server in place of Signal, PIDs prints pids of the host that belong to it; both are shell commands,
	// empty for none.
	StopCommand, PIDs string
	// CleanStop makes a stop that was slow or needed force an incident.
	CleanStop bool
	// MemoryTimeout is how long the memory of the GPUs may take to be free after the stop; 0 is 60 s.
	MemoryTimeout time.Duration
	// ExpectGPU says that a server which is ready must be seen on a watched GPU.
	ExpectGPU bool
	// Mask hides secret values in everything that is shown.
	Mask func(string) string
	// Ledger is told of every start and of what it leaves; nil: nobody is.
	Ledger target.Ledger
}

// API is how a server is spoken to, equal for both arms.
type API struct {
	Dialect string
	// Model is sent with each request; empty asks the server for its first model.
	Model  string
	Header http.Header
	// Settings are those of the dialect; the zero value is the usual service.
	Settings client.Settings
	// Example is a body the service can answer, for the readiness probe of services whose requests cannot be made up; nil for
	// none.
	Example []byte
}

// Rules are the judge's answers the runner acts on, handed in as values.
type Rules struct {
	// Void lists the rounds that do not count, decided without a latency. It is asked after every round.
	Void func(*record.Run) []record.Void
	// Next says whether the session may stop. It is asked after every round.
	Next func(*record.Run) record.Next
}

// Uncounted is the number of planned requests of a closed loop: how many there will be is up to the server.
const Uncounted = -1

// Progress is one step of a session, for a live view or a log.
type Progress struct {
	T    record.Instant
	Slot int
	// Slots counts the rounds planned so far, re-runs included.
	Slots int
	Arm   record.Arm
	Pair  int
	// Phase is one of conditioning, cooldown, self-test, start, ready, wait, reset, warmup, measure, drain, stop, done, void, look, incident.
	Phase string
	Text  string
	// Done and Planned count measured requests; Failed those that failed. Planned is [Uncounted] where nobody can say.
	Done    int
	Planned int
	Failed  int
	// InFlight counts requests that were released and are not over; n/a outside the measured interval.
	InFlight record.Value
	// P50 and P99 are of TTFT so far, ms (of the whole answer for services that do not stream); n/a before the first.
	P50 record.Value
	P99 record.Value
}

// say reports a step; it never blocks a round for long because callers keep their callback short.
func (p *Plan) say(s Progress) {
	if p.Progress != nil {
		s.T = p.Clock.Now()
		p.Progress(s)
	}
}

// observing reports whether a GPU is watched: only then do the pauses around the measured interval serve a purpose.
func (p *Plan) observing() bool {
	if p.Telemetry == nil {
		return false
	}
	gpus, _, _ := p.Telemetry.GPUs()
	return len(gpus) > 0
}

// pause waits for d or until ctx ends, and returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
