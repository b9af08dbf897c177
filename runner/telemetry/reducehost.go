package telemetry

import "github.com/tailgate-ci/tailgate/runner/record"

// reduceHost sums up the host over [from, to). CPU shares are differences of counters between the last reading at or before
// from and the first at or after to, or the nearest inside where there is none.
func reduceHost(rs []Reading, from, to record.Instant) record.HostState {
	first, _ := find(rs, from+1)
	first = max(first-1, 0)
	last, _ := find(rs, to)
	last = min(last, len(rs)-1)
	inside := within(rs, from, to)
	st := record.HostState{
		Ticks: len(inside), Busy: record.NA("gap"), Steal: record.NA("gap"), IOWait: record.NA("gap"),
		Load1: record.NA("gap"), MemAvailableMinB: record.NA("gap"),
	}
	if last <= first {
		return st
	}
	a, b := rs[first].Host, rs[last].Host
	st.Busy = share(a, b, Ticks.busy)
	st.Steal = share(a, b, func(t Ticks) float64 { return t.Steal })
	st.IOWait = share(a, b, func(t Ticks) float64 { return t.IOWait })
	st.Load1 = present(b.Load1)
	for _, r := range rs[first : last+1] {
		free := present(r.Host.MemAvailableB)
		lowest, some := st.MemAvailableMinB.Get()
		if x, found := free.Get(); !some || found && x < lowest {
			st.MemAvailableMinB = free
		}
	}
	return st
}

// share is the part of all CPU time between two readings that get tells, a fraction. A counter that went back is a reset.
func share(a, b *Ticks, get func(Ticks) float64) record.Value {
	part, total := get(*b)-get(*a), b.total()-a.total()
	if part < 0 || total <= 0 {
		return record.NA("reset")
	}
	return record.Of(part / total)
}

func present(p *float64) record.Value {
	if p == nil {
		return record.NA("error")
	}
	return record.Of(*p)
}
