package telemetry

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// What stays in memory. A round is reduced when it ends, so this only has to exceed its length: 65,536 readings of a device
// are 18 hours at the default interval and 3.6 at the smallest.
const (
	maxReadings = 1 << 16
	maxTroubles = 1 << 10
)

// store holds what the sources said, for [Sampler.Reduce]. Safe for concurrent use.
type store struct {
	mu       sync.Mutex
	order    []string
	devices  map[string]*device
	interval time.Duration
	// only holds the devices that are watched; nil for all. Lines of others are left out without a word.
	only map[string]bool
	host []Reading
	// reason says why there is no GPU, or why its readings ended; empty while all is well.
	reason string
	// troubles explain gaps.
	troubles []trouble
	ready    chan struct{}
	once     sync.Once

	// out guards sink alone and is held while it runs: after SetSink returned, the former sink is never called again.
	out  sync.Mutex
	sink func([]byte)
}

// device is one GPU: what it is, what it can say and what it said.
type device struct {
	info  record.GPU
	caps  map[string]string
	ticks []Reading
	procs []Reading
}

// trouble is an instant at which a source failed us, and how.
type trouble struct {
	at   record.Instant
	text string
}

func newStore(interval time.Duration) *store {
	return &store{devices: map[string]*device{}, interval: interval, ready: make(chan struct{})}
}

// announce adds a device or updates it. It is false when there are too many.
func (s *store) announce(l Line) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passes(l.Dev) {
		return true
	}
	d, known := s.devices[l.Dev]
	if !known {
		if len(s.devices) == maxDevices {
			return false
		}
		d = &device{caps: map[string]string{}}
		s.devices[l.Dev], s.order = d, append(s.order, l.Dev)
	}
	d.info = record.GPU{
		UUID: l.Dev, Name: l.Name, Vendor: l.Vendor, Driver: l.Driver, PCI: l.PCI, CUDA: l.CUDA,
		MemTotalB: value(l.MemTotalB), PowerLimitMW: value(l.Limits.PowerMW), PowerDefault: value(l.Limits.PowerDefaultMW),
		SMMaxMHz: value(l.Limits.SMMaxMHz), Persistence: l.Modes.Persistence, ComputeMode: l.Modes.Compute,
		ECC: l.Modes.ECC, MIG: l.Modes.MIG,
	}
	return true
}

// capable notes which fields a device can give. It is false for a device that was never announced.
func (s *store) capable(dev string, caps map[string]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passes(dev) {
		return true
	}
	d, known := s.devices[dev]
	if known {
		maps.Copy(d.caps, caps)
	}
	return known
}

// left reports whether a reading is of a device that is not watched.
func (s *store) left(dev string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return dev != "" && s.passes(dev)
}

// passes reports whether a device is one that is not watched. The caller holds mu.
func (s *store) passes(dev string) bool { return s.only != nil && !s.only[dev] }

// watch forgets every device but these, which come in this order from now on. Those that were never announced are left out.
func (s *store) watch(devices []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.only, s.order = map[string]bool{}, nil
	for _, dev := range devices {
		if _, known := s.devices[dev]; known && !s.only[dev] {
			s.only[dev], s.order = true, append(s.order, dev)
		}
	}
	maps.DeleteFunc(s.devices, func(dev string, _ *device) bool { return !s.only[dev] })
}

// add keeps a reading and passes it on. It is false for a device that was never announced, and for a reading older than the
// one before it.
func (s *store) add(r Reading) bool {
	if s.left(r.Dev) {
		return true
	}
	if !s.file(r) {
		return false
	}
	if r.Type == "sample" {
		s.settle()
	}
	s.out.Lock()
	defer s.out.Unlock()
	if s.sink == nil {
		return true
	}
	if line, err := r.line(); err == nil {
		s.sink(line)
	}
	return true
}

// file puts a reading where it belongs. Counters are not kept: they go to the sink only.
func (s *store) file(r Reading) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Host != nil {
		return push(&s.host, r)
	}
	d, known := s.devices[r.Dev]
	switch {
	case !known:
		return false
	case r.Type == "sample":
		return push(&d.ticks, r)
	case r.Type == "procs":
		return push(&d.procs, r)
	default:
		return true
	}
}

// settle ends the wait for the sensor: it measures, or it never will.
func (s *store) settle() { s.once.Do(func() { close(s.ready) }) }

// trouble notes why readings may be missing from now on; a lost source gives none any more.
func (s *store) trouble(at record.Instant, text string, lost bool) {
	s.mu.Lock()
	if len(s.troubles) == maxTroubles {
		s.troubles = s.troubles[1:]
	}
	s.troubles = append(s.troubles, trouble{at, text})
	if lost {
		s.reason = text
	}
	s.mu.Unlock()
	if lost {
		s.settle()
	}
}

// gpus returns the devices in the order they were announced, their capabilities, and why there are none.
func (s *store) gpus() ([]record.GPU, map[string]map[string]string, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == 0 {
		return nil, nil, s.reason
	}
	caps := make(map[string]map[string]string, len(s.order))
	var gpus []record.GPU
	for _, dev := range s.order {
		gpus = append(gpus, s.devices[dev].info)
		caps[dev] = maps.Clone(s.devices[dev].caps)
	}
	return gpus, caps, ""
}

// push appends a reading in order of time. A full slice loses its older half at once, so that readings are moved rarely.
func push(rs *[]Reading, r Reading) bool {
	n := len(*rs)
	if n > 0 && r.T < (*rs)[n-1].T {
		return false
	}
	if n == maxReadings {
		*rs = slices.Clone((*rs)[n/2:])
	}
	*rs = append(*rs, r)
	return true
}

// value is the record's form of an optional number.
func value(p *float64) record.Value {
	if p == nil {
		return record.NA("unsupported")
	}
	return record.Of(*p)
}
