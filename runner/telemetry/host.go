package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/procfs"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// hostInterval is the time between readings of the host.
const hostInterval = time.Second

// host reads CPU time, load and free memory from procfs. It implements [Source].
type host struct {
	root  string
	clock record.Clock
	store *store
}

// Name is "host".
func (h *host) Name() string { return "host" }

// Run reads once at once and then every second.
func (h *host) Run(ctx context.Context) {
	tick := time.NewTicker(hostInterval)
	defer tick.Stop()
	for {
		h.read()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// read takes one reading. Without CPU times there is none; the gap shows in the reduction.
func (h *host) read() {
	fs, err := procfs.NewFS(h.root)
	if err != nil {
		return
	}
	stat, err := fs.Stat()
	if err != nil {
		return
	}
	now := h.clock.Now()
	t := Ticks{
		User: stat.CPUTotal.User, Nice: stat.CPUTotal.Nice, System: stat.CPUTotal.System, Idle: stat.CPUTotal.Idle,
		IOWait: stat.CPUTotal.Iowait, IRQ: stat.CPUTotal.IRQ, SoftIRQ: stat.CPUTotal.SoftIRQ, Steal: stat.CPUTotal.Steal,
	}
	if load, err := fs.LoadAvg(); err == nil {
		t.Load1 = &load.Load1
	}
	if mem, err := fs.Meminfo(); err == nil && mem.MemAvailableBytes != nil {
		b := float64(*mem.MemAvailableBytes)
		t.MemAvailableB = &b
	}
	h.store.add(Reading{T: now, Source: "host", Type: "host", Host: &t})
}
