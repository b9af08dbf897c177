package telemetry

import (
	"slices"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// reduce is [Sampler.Reduce] over what is stored.
func (s *store) reduce(from, to record.Instant, ours func(pid int) bool) record.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := record.State{Host: reduceHost(s.host, from, to)}
	if len(s.order) == 0 {
		st.GPUReason = s.reason
	}
	silence := "gap"
	if s.interval == 0 {
		silence = "off" // nothing is polled between edges
	}
	for _, dev := range s.order {
		d := s.devices[dev]
		st.GPUs = append(st.GPUs, d.reduce(dev, from, to, silence, ours))
		if s.interval > 0 {
			st.Gaps = append(st.Gaps, s.gaps(dev, d.ticks, gapAfter(s.interval), from, to)...)
		}
	}
	st.Gaps = append(st.Gaps, s.gaps("host", s.host, gapAfter(hostInterval), from, to)...)
	return st
}

// reduce sums up one device. A tick is loaded when a kernel ran in it, and where the device does not say (MIG): when it
// lies in the measured interval, in which requests are in flight. silence is the reason when there is no tick at all.
func (d *device) reduce(dev string, from, to record.Instant, silence string, ours func(pid int) bool) record.GPUState {
	ticks := within(d.ticks, from, to)
	g := record.GPUState{UUID: dev, Ticks: len(ticks)}
	missing := func(signal string) string { return d.missing(signal, len(ticks), silence) }
	for signal, get := range map[string]struct {
		to   *record.Spread
		from func(Reading) *float64
	}{
		"sm_mhz":     {&g.SMMHz, func(r Reading) *float64 { return r.SMMHz }},
		"mem_mhz":    {&g.MemMHz, func(r Reading) *float64 { return r.MemMHz }},
		"temp_c":     {&g.TempC, func(r Reading) *float64 { return r.TempC }},
		"power_mw":   {&g.PowerMW, func(r Reading) *float64 { return r.PowerMW }},
		"util_pct":   {&g.UtilPct, func(r Reading) *float64 { return r.UtilPct }},
		"mem_used_b": {&g.MemUsedB, func(r Reading) *float64 { return r.MemUsedB }},
	} {
		*get.to = spread(ticks, get.from, missing(signal))
	}
	reduceReasons(&g, ticks, missing("reasons"))
	d.reduceProcs(&g, from, to, missing("procs"), ours)
	return g
}

// missing is the reason why a signal has no reading among n ticks.
func (d *device) missing(signal string, n int, silence string) string {
	switch state := d.caps[signal]; {
	case n == 0:
		return silence
	case state != "" && state != "ok":
		return state
	default:
		return record.NotMeasured
	}
}

// The clock-event bits that are counted, with the names of [record.GPUState]. Source: NVML, nvmlClocksEventReasons.
func reasonBits() map[string]uint64 {
	return map[string]uint64{
		"power_cap": 0x4, "hw_slowdown": hwSlowdown, "thermal_sw": 0x20, "thermal_hw": 0x40, "power_brake": 0x80,
	}
}

const hwSlowdown = 0x8

// reduceReasons counts the clock-event bits over loaded ticks. An unloaded tick ends a run of hardware slowdown: the bit
// also shows while the device changes between idle and work.
func reduceReasons(g *record.GPUState, ticks []Reading, missing string) {
	read, run := false, 0
	counts := map[string]int{}
	for name := range reasonBits() {
		counts[name] = 0
	}
	for _, r := range ticks {
		loaded := r.UtilPct == nil || *r.UtilPct > 0
		if loaded {
			g.Loaded++
		}
		bits, _ := r.Bits() // checked when the line was parsed
		read = read || r.Reasons != ""
		if !loaded || bits&hwSlowdown == 0 {
			run = 0
		}
		if !loaded {
			continue
		}
		for name, bit := range reasonBits() {
			if bits&bit != 0 {
				counts[name]++
			}
		}
		if bits&hwSlowdown != 0 {
			run++
			g.SlowdownRun = max(g.SlowdownRun, run)
		}
	}
	if !read {
		g.ReasonsNA = missing
		return
	}
	g.Reasons = counts
}

// edgeMargin is how far outside an interval a process list still speaks for it: the lists of an interval are read at its
// edges, before its first request and after its last, so that no driver call falls into it.
const edgeMargin = 3 * time.Second

// reduceProcs joins the process lists of the interval. A list from before it would name the processes of another server.
func (d *device) reduceProcs(g *record.GPUState, from, to record.Instant, missing string, ours func(pid int) bool) {
	lists := within(d.procs, from-record.Instant(edgeMargin), to+record.Instant(edgeMargin))
	if len(lists) == 0 {
		g.ProcsNA = missing
		return
	}
	last := lists[len(lists)-1]
	switch {
	case last.Reliable != nil && !*last.Reliable:
		g.ProcsNA = "error"
		return
	case last.NS == "container":
		g.ProcsNA = "no_permission" // process ids of another namespace belong to nobody here
		return
	}
	seen := map[int]int{}
	for _, list := range lists {
		for _, p := range list.Procs {
			entry := record.GPUProc{PID: p.PID, MemB: value(p.MemB), Kind: p.Kind, Ours: ours != nil && ours(p.PID)}
			if i, found := seen[p.PID]; found {
				g.Procs[i].MemB = entry.MemB
				continue
			}
			seen[p.PID] = len(g.Procs)
			g.Procs = append(g.Procs, entry)
		}
	}
}

// spread is the lowest, middle and highest value; of an even count the middle is the mean of the two.
func spread(ticks []Reading, get func(Reading) *float64, missing string) record.Spread {
	var xs []float64
	for _, r := range ticks {
		if x := get(r); x != nil {
			xs = append(xs, *x)
		}
	}
	if len(xs) == 0 {
		na := record.NA(missing)
		return record.Spread{Min: na, Median: na, Max: na}
	}
	slices.Sort(xs)
	n := len(xs)
	middle := (xs[(n-1)/2] + xs[n/2]) / 2
	return record.Spread{Min: record.Of(xs[0]), Median: record.Of(middle), Max: record.Of(xs[n-1])}
}

// gaps lists the stretches of [from, to) in which no reading came for longer than limit.
func (s *store) gaps(source string, rs []Reading, limit time.Duration, from, to record.Instant) []record.Gap {
	var gaps []record.Gap
	i, _ := find(rs, from)
	previous := from // before the first reading of all nothing is known about the source
	if i > 0 {
		previous = rs[i-1].T
	}
	for ; ; i++ {
		next, last := to, i >= len(rs)
		if !last {
			next = rs[i].T
		}
		if next-previous > record.Instant(limit) {
			gap := record.Gap{Source: source, From: max(previous, from), To: min(next, to)}
			gap.Reason = s.explain(previous, next)
			gaps = append(gaps, gap)
		}
		if last || next >= to {
			return gaps
		}
		previous = next
	}
}

// explain names the last trouble of a stretch. It may have begun a little before the stretch ended its readings.
func (s *store) explain(from, to record.Instant) string {
	for _, t := range slices.Backward(s.troubles) {
		if t.at >= from && t.at <= to {
			return t.text
		}
	}
	if s.reason != "" {
		return s.reason
	}
	return "silent"
}

// within is the readings of [from, to).
func within(rs []Reading, from, to record.Instant) []Reading {
	i, _ := find(rs, from)
	j, _ := find(rs, to)
	return rs[i:max(i, j)]
}

// find is the index of the first reading at or after t.
func find(rs []Reading, t record.Instant) (int, bool) {
	return slices.BinarySearchFunc(rs, t, func(r Reading, t record.Instant) int { return int(r.T - t) })
}
