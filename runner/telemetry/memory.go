package telemetry

import "github.com/tailgate-ci/tailgate/runner/record"

// Memory is the newest that a device said of its memory.
type Memory struct {
	// Dev is the device's UUID.
	Dev string
	// T is when UsedB was read; 0 when it never was.
	T record.Instant
	// UsedB and TotalB are bytes; n/a with the reason where the device does not say.
	UsedB, TotalB record.Value
	// PIDs are the processes the device listed at Listed, which is 0 where it gives no list that can be relied on.
	PIDs   []int
	Listed record.Instant
}

// Memory returns the newest readings of every device, in the order in which they were announced. The list of processes is as
// old as the last edge; see [Sampler.Edge].
func (s *Sampler) Memory() []Memory {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	var all []Memory
	for _, dev := range s.store.order {
		all = append(all, s.store.devices[dev].memory(dev))
	}
	return all
}

func (d *device) memory(dev string) Memory {
	m := Memory{Dev: dev, UsedB: record.NA("no reading"), TotalB: d.info.MemTotalB}
	if n := len(d.ticks); n > 0 {
		m.T, m.UsedB = d.ticks[n-1].T, value(d.ticks[n-1].MemUsedB)
	}
	if n := len(d.procs); n > 0 && (d.procs[n-1].Reliable == nil || *d.procs[n-1].Reliable) {
		m.Listed = d.procs[n-1].T
		for _, p := range d.procs[n-1].Procs {
			m.PIDs = append(m.PIDs, p.PID)
		}
	}
	return m
}
