package telemetry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const gpu = "GPU-1"

const second = record.Instant(time.Second)

// watching is a store at one reading a second that knows one device.
func watching(t *testing.T, caps map[string]string) *store {
	t.Helper()
	s := newStore(time.Second)
	if !s.announce(Line{Dev: gpu}) || !s.capable(gpu, caps) {
		t.Fatal("the device is not known")
	}
	return s
}

// tick is a sample under load at second at.
func tick(at record.Instant, edit func(*Signals)) Reading {
	r := Reading{T: at * second, Type: "sample", Dev: gpu, Signals: Signals{UtilPct: new(90.0), Reasons: "0x0"}}
	if edit != nil {
		edit(&r.Signals)
	}
	return r
}

func reasons(bits string, util float64) func(*Signals) {
	return func(s *Signals) { s.Reasons, s.UtilPct = bits, new(util) }
}

func one(t *testing.T, st record.State) record.GPUState {
	t.Helper()
	if len(st.GPUs) != 1 {
		t.Fatalf("%d devices", len(st.GPUs))
	}
	return st.GPUs[0]
}

func TestReduceSpreads(t *testing.T) {
	s := watching(t, map[string]string{"power_mw": "no_permission", "sm_mhz": "ok"})
	for i, mhz := range []float64{9999, 1900, 1980, 1700, 1800, 9999} {
		s.add(tick(record.Instant(i), func(s *Signals) { s.SMMHz = &mhz }))
	}
	g := one(t, s.reduce(second, 5*second, nil)) // [from, to): the first and the last do not count
	want := record.Spread{Min: record.Of(1700), Median: record.Of(1850), Max: record.Of(1980)}
	if diff := cmp.Diff(want, g.SMMHz); diff != "" {
		t.Error(diff)
	}
	if g.Ticks != 4 || g.Loaded != 4 {
		t.Errorf("%d ticks, %d loaded", g.Ticks, g.Loaded)
	}
	if got := g.PowerMW.Median; !got.Equal(record.NA("no_permission")) {
		t.Errorf("power is %v", got)
	}
	if got := g.TempC.Max; !got.Equal(record.NA(record.NotMeasured)) {
		t.Errorf("temperature is %v", got)
	}
}

// A sensor that says nothing must not read as a clean device.
func TestReduceWithoutReadingsIsNotZero(t *testing.T) {
	g := one(t, watching(t, nil).reduce(0, 10*second, nil))
	if g.Reasons != nil || g.ReasonsNA != "gap" || g.ProcsNA != "gap" || !g.TempC.Median.Equal(record.NA("gap")) {
		t.Errorf("%+v", g)
	}
	edges := newStore(0)
	edges.announce(Line{Dev: gpu})
	st := edges.reduce(0, 10*second, nil)
	if g := one(t, st); g.ReasonsNA != "off" {
		t.Errorf("without polling reasons are n/a (%s)", g.ReasonsNA)
	}
	for _, gap := range st.Gaps {
		if gap.Source == gpu {
			t.Errorf("without polling there is a gap: %+v", gap)
		}
	}
}

func TestReduceCountsReasonsOverLoadedTicks(t *testing.T) {
	for name, c := range map[string]struct {
		ticks []func(*Signals)
		want  map[string]int
		run   int
	}{
		"clean": {[]func(*Signals){nil, nil}, map[string]int{}, 0},
		"all bits at once, unknown ones too": {
			[]func(*Signals){reasons("0xf00ec", 90)},
			map[string]int{"power_cap": 1, "hw_slowdown": 1, "thermal_sw": 1, "thermal_hw": 1, "power_brake": 1},
			1,
		},
		"idle ticks do not count": {[]func(*Signals){reasons("0x4", 0), reasons("0x4", 1)}, map[string]int{"power_cap": 1}, 0},
		// Case G-01: power cap and software heat in one tick; in the variant hardware heat.
		"power cap and heat": {[]func(*Signals){reasons("0x24", 90)}, map[string]int{"power_cap": 1, "thermal_sw": 1}, 0},
		"hardware heat":      {[]func(*Signals){reasons("0x44", 90)}, map[string]int{"power_cap": 1, "thermal_hw": 1}, 0},
		"one slowdown is a change of state": {
			[]func(*Signals){reasons("0x8", 90), nil, reasons("0x8", 90)}, map[string]int{"hw_slowdown": 2}, 1,
		},
		"two in a row": {
			[]func(*Signals){nil, reasons("0x8", 90), reasons("0x48", 90), nil},
			map[string]int{"hw_slowdown": 2, "thermal_hw": 1},
			2,
		},
		"an idle tick between ends the row": {
			[]func(*Signals){reasons("0x8", 90), reasons("0x8", 0), reasons("0x8", 90)}, map[string]int{"hw_slowdown": 2}, 1,
		},
		// Case G-03: a MIG slice has no utilisation.
		"without utilisation every tick is loaded": {
			[]func(*Signals){func(s *Signals) { s.Reasons, s.UtilPct = "0x40", nil }}, map[string]int{"thermal_hw": 1}, 0,
		},
	} {
		s := watching(t, nil)
		for i, edit := range c.ticks {
			s.add(tick(record.Instant(i+1), edit))
		}
		for bit := range reasonBits() {
			if _, set := c.want[bit]; !set {
				c.want[bit] = 0
			}
		}
		g := one(t, s.reduce(0, 100*second, nil))
		if diff := cmp.Diff(c.want, g.Reasons); diff != "" || g.SlowdownRun != c.run || g.ReasonsNA != "" {
			t.Errorf("%s: run %d, n/a %q, %s", name, g.SlowdownRun, g.ReasonsNA, diff)
		}
	}
}

func TestReduceReasonsThatWereNeverRead(t *testing.T) {
	s := watching(t, map[string]string{"reasons": "unsupported"})
	s.add(tick(1, func(s *Signals) { s.Reasons = "" }))
	if g := one(t, s.reduce(0, 2*second, nil)); g.Reasons != nil || g.ReasonsNA != "unsupported" || g.Loaded != 1 {
		t.Errorf("%+v", g)
	}
}

func TestReduceProcesses(t *testing.T) {
	list := func(at record.Instant, procs ...Proc) Reading {
		return Reading{T: at * second, Type: "procs", Dev: gpu, Procs: procs, NS: "host", Reliable: new(true)}
	}
	ours := func(pid int) bool { return pid == 10 }
	s := watching(t, nil)
	s.add(tick(10, nil))
	s.add(list(1, Proc{PID: 99, Kind: "compute"})) // before the interval: another server
	s.add(list(13, Proc{PID: 10, MemB: new(1e9), Kind: "compute"}))
	s.add(list(14, Proc{PID: 10, MemB: new(2e9), Kind: "compute"}, Proc{PID: 11, Kind: "mps"}))
	want := []record.GPUProc{
		{PID: 10, MemB: record.Of(2e9), Kind: "compute", Ours: true},
		{PID: 11, MemB: record.NA("unsupported"), Kind: "mps"},
	}
	if diff := cmp.Diff(want, one(t, s.reduce(10*second, 15*second, ours)).Procs); diff != "" {
		t.Error(diff)
	}
	empty := one(t, s.reduce(18*second, 19*second, ours))
	if empty.Procs != nil || empty.ProcsNA == "" {
		t.Errorf("without a list: %+v, n/a %q", empty.Procs, empty.ProcsNA)
	}
	for reason, edit := range map[string]func(*Reading){
		"error":         func(r *Reading) { r.Reliable = new(false) }, // drivers of the early 535 line
		"no_permission": func(r *Reading) { r.NS = "container" },
	} {
		s, r := watching(t, nil), list(1, Proc{PID: 10})
		edit(&r)
		s.add(r)
		if g := one(t, s.reduce(0, 2*second, ours)); g.Procs != nil || g.ProcsNA != reason {
			t.Errorf("%+v, n/a %q, want %q", g.Procs, g.ProcsNA, reason)
		}
	}
}

func TestReduceFindsGaps(t *testing.T) {
	at := func(times ...record.Instant) *store {
		s := watching(t, nil)
		for _, x := range times {
			s.add(tick(x, nil))
		}
		return s
	}
	gap := func(from, to record.Instant, reason string) record.Gap {
		return record.Gap{Source: gpu, From: from * second, To: to * second, Reason: reason}
	}
	troubled := at(10, 20)
	troubled.trouble(16*second, "tailgate-nvml: silent for 10s, killed", false)
	for name, c := range map[string]struct {
		s    *store
		want []record.Gap
	}{
		"none at the limit":         {at(8, 13, 18, 23), nil},
		"within":                    {at(9, 10, 16, 20), []record.Gap{gap(10, 16, "silent")}},
		"before the first reading":  {at(16, 20), []record.Gap{gap(10, 16, "silent")}},
		"after the last":            {at(9, 14), []record.Gap{gap(14, 20, "silent")}},
		"clipped to the interval":   {at(2, 15, 24), []record.Gap{gap(10, 15, "silent"), gap(15, 20, "silent")}},
		"spans the interval":        {at(2, 30), []record.Gap{gap(10, 20, "silent")}},
		"explained by what we know": {troubled, []record.Gap{gap(10, 20, "tailgate-nvml: silent for 10s, killed")}},
	} {
		var got []record.Gap
		for _, g := range c.s.reduce(10*second, 20*second, nil).Gaps {
			if g.Source == gpu {
				got = append(got, g)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func hostTick(at record.Instant, idle, user, steal float64) Reading {
	return Reading{T: at * second, Type: "host", Host: &Ticks{Idle: idle, User: user, Steal: steal, Load1: new(1.5)}}
}

func TestReduceHost(t *testing.T) {
	s := newStore(time.Second)
	s.trouble(1, "off by configuration", true)
	for i, free := range []float64{1, 5, 3, 4, 2} {
		r := hostTick(record.Instant(i+1), 100+10*float64(i), 50+8*float64(i), 2*float64(i))
		r.Host.MemAvailableB = &free
		s.add(r)
	}
	st := s.reduce(2*second, 4*second, nil)
	want := record.HostState{
		Ticks: 2, Busy: record.Of(0.4), Steal: record.Of(0.1), IOWait: record.Of(0), Load1: record.Of(1.5),
		MemAvailableMinB: record.Of(3),
	}
	if diff := cmp.Diff(want, st.Host); diff != "" {
		t.Error(diff)
	}
	if st.GPUReason != "off by configuration" || st.GPUs != nil {
		t.Errorf("GPU: %q, %v", st.GPUReason, st.GPUs)
	}
	if got := s.reduce(50*second, 60*second, nil); !got.Host.Busy.Equal(record.NA("gap")) || len(got.Gaps) != 1 {
		t.Errorf("outside of all readings: %+v", got)
	}
}

func TestReduceHostNeverReadsAResetAsWork(t *testing.T) {
	s := newStore(time.Second)
	s.add(hostTick(1, 100, 50, 9))
	s.add(hostTick(2, 120, 60, 0))
	st := s.reduce(second, 2*second, nil)
	if !st.Host.Steal.Equal(record.NA("reset")) {
		t.Errorf("steal is %v", st.Host.Steal)
	}
	if busy, present := st.Host.Busy.Get(); !present || busy <= 0 {
		t.Errorf("busy is %v", st.Host.Busy)
	}
}
