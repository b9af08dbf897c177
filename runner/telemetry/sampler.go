package telemetry

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// The modes: whether a session may go on without the state of the GPU.
const (
	Required = "required"
	Optional = "optional"
	Off      = "off"
)

// notFound is the reason when no sensor was installed.
const notFound = "no sensor: tailgate-nvml not found beside the tailgate binary"

// openTimeout is how long [Start] waits for the sensor's first reading.
const openTimeout = openingLimit + 5*time.Second

// Source yields readings until its context ends. Each source has one file; [Start] holds the list.
type Source interface {
	// Name is what readings and gaps call the source.
	Name() string
	// Run blocks until ctx ends or the source is lost for good, and leaves no goroutine behind.
	Run(ctx context.Context)
}

// Options say what to watch. The zero value watches the host alone, without a GPU.
type Options struct {
	// Mode is Required, Optional or Off; empty means Off.
	Mode string
	// Interval is the time between readings of the GPU; 0 means that it is read at edges only.
	Interval time.Duration
	// Sensor is the path of the sensor program; empty means that none was found.
	Sensor string
	// Version is the release a sensor must be of; empty accepts any.
	Version string
	// Env is the sensor's whole environment; see proc.Environ. LD_BIND_NOW is removed, the protocol's own names are added.
	Env []string
	// Devices are the UUIDs to watch; none means all.
	Devices []string
	Clock   record.Clock
	// Dir is the folder for the sensor's stderr, <sensor>.log; it is made if need be. Empty keeps none.
	Dir string
	// ProcRoot and SysRoot stand for /proc and /sys; empty means those.
	ProcRoot string
	SysRoot  string
}

// Sampler watches the machine from [Start] to Close. Safe for concurrent use.
type Sampler struct {
	store  *store
	host   *host
	sensor *sensor
	facts  record.Host
	clock  record.Clock
	cancel context.CancelFunc
	wait   sync.WaitGroup
	log    *boundedLog
}

// UnavailableError says that the GPU cannot be observed although it is required. Reason is a sentence for people.
type UnavailableError struct{ Reason string }

// Error is the sentence with the reason.
func (e *UnavailableError) Error() string {
	return "GPU state is required but not available: " + e.Reason
}

// Start begins to watch and returns after the first reading of the GPU, or once it is clear that there will be none. In
// mode Required that is an *[UnavailableError]. Sources run until ctx ends or Close.
func Start(ctx context.Context, o Options) (*Sampler, error) {
	if o.Mode != "" && o.Mode != Required && o.Mode != Optional && o.Mode != Off {
		return nil, fmt.Errorf("telemetry mode %q: want %s, %s or %s", o.Mode, Required, Optional, Off)
	}
	log, err := openLog(o.Dir, o.Sensor)
	if err != nil {
		return nil, fmt.Errorf("sensor log: %w", err)
	}
	return start(ctx, o, log, execSensor(o.Sensor, sensorEnv(o.Env, o.Interval, o.Devices)), monotonic)
}

// start is Start with the outside world as parameters: the log, how a sensor is started and CLOCK_MONOTONIC in ns.
func start(ctx context.Context, o Options, log *boundedLog, l launch, mono func() int64) (*Sampler, error) {
	ctx, cancel := context.WithCancel(ctx)
	st := newStore(o.Interval)
	s := &Sampler{
		store: st, clock: o.Clock, cancel: cancel, log: log, facts: hostFacts(o.ProcRoot, o.SysRoot),
		host: &host{root: or(o.ProcRoot, "/proc"), clock: o.Clock, store: st},
	}
	sources := []Source{s.host}
	switch {
	case o.Mode == "" || o.Mode == Off:
		st.trouble(o.Clock.Now(), "off by configuration", true)
	case o.Sensor == "":
		st.trouble(o.Clock.Now(), notFound, true)
	default:
		s.sensor = &sensor{
			name: filepath.Base(o.Sensor), version: o.Version, launch: l, clock: o.Clock, mono: mono, log: log,
			store: st, edges: make(chan string, 16), offset: offset(o.Clock, mono),
		}
		sources = append(sources, s.sensor)
	}
	for _, source := range sources {
		s.wait.Go(func() { source.Run(ctx) })
	}
	if err := s.open(ctx, o.Mode == Required); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open waits until the sensor measures or is known not to.
func (s *Sampler) open(ctx context.Context, required bool) error {
	timeout := time.NewTimer(openTimeout)
	defer timeout.Stop()
	select {
	case <-s.store.ready:
	case <-timeout.C:
		s.store.trouble(s.clock.Now(), fmt.Sprintf("no reading within %v", openTimeout), true)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if gpus, _, reason := s.store.gpus(); required && len(gpus) == 0 {
		return &UnavailableError{Reason: reason}
	}
	return nil
}

// GPUs returns the devices, per UUID which fields the sensor can read ("ok" or a reason), and why there are none.
func (s *Sampler) GPUs() (gpus []record.GPU, caps map[string]map[string]string, reason string) {
	return s.store.gpus()
}

// Watch leaves all devices but these out of everything that follows, and puts these in the given order: of GPUs, Memory,
// Latest and Reduce, and of what goes to the sink. A UUID that was never announced is passed over. It may be called again to
// watch fewer.
func (s *Sampler) Watch(devices []string) { s.store.watch(devices) }

// Host describes the machine as it was at Start.
func (s *Sampler) Host() record.Host { return s.facts }

// SetSink makes every following reading go to sink too, as one JSON line without a newline, called from the goroutines of
// the sources, one at a time. It marks the begin of a round: the sensor's restarts are counted anew. nil stops it. Once
// SetSink has returned, the former sink is not called again.
func (s *Sampler) SetSink(sink func(line []byte)) {
	s.store.out.Lock()
	s.store.sink = sink
	s.store.out.Unlock()
	if s.sensor != nil && sink != nil {
		s.sensor.round.Store(0)
	}
}

// Edge asks the sensor for its counters and process lists now, marked with token ([a-z0-9.-], at most 40). It never
// blocks; a sensor that does not listen leaves the edge out.
func (s *Sampler) Edge(token string) {
	if s.sensor == nil {
		return
	}
	select {
	case s.sensor.edges <- token:
	default:
	}
}

// Latest is the temperature of the hottest device, degrees Celsius, n/a when no reading is younger than a gap.
func (s *Sampler) Latest() (tempC record.Value) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	oldest := s.clock.Now() - record.Instant(gapAfter(s.store.interval))
	best := record.NA("gap")
	if len(s.store.order) == 0 {
		best = record.NA(s.store.reason)
	}
	for _, d := range s.store.devices {
		if len(d.ticks) == 0 || d.ticks[len(d.ticks)-1].T < oldest {
			continue
		}
		temp := d.ticks[len(d.ticks)-1].TempC
		if hottest, found := best.Get(); temp != nil && (!found || *temp > hottest) {
			best = record.Of(*temp)
		}
	}
	return best
}

// Reduce is the state of the machine over [from, to). ours tells whether a process belongs to the measured server. Call it
// soon after to: the host is read once more for it.
func (s *Sampler) Reduce(from, to record.Instant, ours func(pid int) bool) record.State {
	s.host.read()
	return s.store.reduce(from, to, ours)
}

// Close asks the sensor to leave, kills it when it does not, and returns once every source ended. Calling it twice is
// harmless.
func (s *Sampler) Close() error {
	s.cancel()
	s.wait.Wait()
	return s.log.Close()
}

// offset is what to subtract from CLOCK_MONOTONIC to get an instant of the run.
func offset(clock record.Clock, mono func() int64) int64 {
	before := clock.Now()
	now := mono()
	after := clock.Now()
	return now - int64(before+(after-before)/2)
}

// monotonic reads CLOCK_MONOTONIC, ns: the clock that sensors stamp with.
func monotonic() int64 {
	var ts unix.Timespec
	// It cannot fail: the clock id is fixed and the pointer is valid.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
