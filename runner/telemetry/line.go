package telemetry

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ProtocolVersion is the v of the sensor lines this package understands. A sensor that speaks a greater one is refused.
const ProtocolVersion = 1

// The limits on what a sensor may send.
const (
	maxLine    = 64 << 10
	maxDev     = 96
	maxText    = 300
	maxDevices = 64
	maxProcs   = 4096
	maxCaps    = 256
)

// errVersion is a line of a protocol newer than ours.
var errVersion = errors.New("the sensor speaks a newer protocol")

// errUnknownType is a line of a type that protocol version 1 does not have. Such lines are counted and ignored.
var errUnknownType = errors.New("unknown line type")

// Line is one line of the sensor protocol, version 1, as it arrived. Fields that a type does not have are zero; numbers
// that were not sent are nil. Texts are cleaned and bounded.
type Line struct {
	V    int    `json:"v"`
	Type string `json:"type"`
	// T is CLOCK_MONOTONIC of the host, ns; nil when the sensor did not stamp the line.
	T    *int64 `json:"t_ns"`
	Dev  string `json:"dev"`
	Edge string `json:"edge"`

	// hello
	Sensor      string       `json:"sensor"`
	Version     string       `json:"version"`
	IntervalMS  *float64     `json:"interval_ms"`
	Unavailable *Unavailable `json:"unavailable"`

	// device
	Name      string   `json:"name"`
	Vendor    string   `json:"vendor"`
	PCI       string   `json:"pci"`
	Driver    string   `json:"driver"`
	CUDA      string   `json:"cuda"`
	MemTotalB *float64 `json:"mem_total_b"`
	Modes     Modes    `json:"modes"`
	Limits    Limits   `json:"limits"`

	// caps: field name to "ok" or a reason
	Caps map[string]string `json:"caps"`

	Signals

	// procs
	Procs    []Proc `json:"procs"`
	NS       string `json:"ns"`
	Reliable *bool  `json:"reliable"`

	// beat: age of the driver call in progress, ms; 0 when none is
	BusyMS *float64 `json:"busy_ms"`

	// error, bye
	Op     string `json:"op"`
	Code   string `json:"code"`
	Text   string `json:"text"`
	Fatal  bool   `json:"fatal"`
	Reason string `json:"reason"`
}

// Unavailable says why a sensor can measure nothing here: a word, a sentence, and what to do.
type Unavailable struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
	Fix    string `json:"fix"`
}

// Modes are the switches of a device, as words ("on", "off", "default").
type Modes struct {
	Persistence string `json:"persistence"`
	Compute     string `json:"compute"`
	MIG         string `json:"mig"`
	ECC         string `json:"ecc"`
}

// Limits are a device's fixed limits: milliwatt and MHz.
type Limits struct {
	PowerMW        *float64 `json:"power_mw"`
	PowerDefaultMW *float64 `json:"power_default_mw"`
	SMMaxMHz       *float64 `json:"sm_max_mhz"`
}

// Signals are the polled numbers of one device, each nil when it was not read.
type Signals struct {
	SMMHz      *float64 `json:"sm_mhz,omitempty"`
	MemMHz     *float64 `json:"mem_mhz,omitempty"`
	TempC      *float64 `json:"temp_c,omitempty"`
	PowerMW    *float64 `json:"power_mw,omitempty"`
	UtilPct    *float64 `json:"util_pct,omitempty"`
	MemUtilPct *float64 `json:"mem_util_pct,omitempty"`
	MemUsedB   *float64 `json:"mem_used_b,omitempty"`
	PState     *float64 `json:"pstate,omitempty"`
	// Reasons are the clock-event bits in hex ("0x4"); empty when they were not read.
	Reasons string `json:"reasons,omitempty"`
	// EnergyMJ is millijoule since the driver loaded; PowerLimitMW the enforced limit.
	EnergyMJ     *float64 `json:"energy_mj,omitempty"`
	PowerLimitMW *float64 `json:"power_limit_mw,omitempty"`
	// CostUS is the wall time the tick took.
	CostUS *float64 `json:"cost_us,omitempty"`
}

// Proc is a process on a device. MemB is nil when the driver does not say.
type Proc struct {
	PID  int      `json:"pid"`
	MemB *float64 `json:"mem_b,omitempty"`
	Kind string   `json:"kind"`
}

// ParseLine reads one line without its newline. A line that is not JSON, too long, or holds a number it may not hold is an
// error and must be dropped; unknown fields are ignored. The result shares no memory with b.
func ParseLine(b []byte) (Line, error) {
	var l Line
	if len(b) > maxLine {
		return l, fmt.Errorf("line of %d bytes, limit is %d", len(b), maxLine)
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return Line{}, fmt.Errorf("sensor line: %w", err)
	}
	switch {
	case l.V > ProtocolVersion:
		return Line{}, fmt.Errorf("%w: %d, this tailgate knows %d", errVersion, l.V, ProtocolVersion)
	case l.V < 1:
		return Line{}, fmt.Errorf("sensor line: v is %d", l.V)
	}
	if err := l.check(); err != nil {
		return Line{}, fmt.Errorf("sensor line of type %q: %w", clean(l.Type), err)
	}
	l.cleanTexts()
	return l, nil
}

func (l *Line) check() error {
	switch l.Type {
	case "hello", "bye", "beat", "error", "event":
	case "device", "caps", "sample", "counters", "procs":
		if l.Dev == "" || len(l.Dev) > maxDev || clean(l.Dev) != l.Dev {
			return errors.New("dev is missing, too long or not printable")
		}
	default:
		return errUnknownType
	}
	if len(l.Procs) > maxProcs || len(l.Caps) > maxCaps {
		return errors.New("too many entries")
	}
	if l.T != nil && *l.T < 0 {
		return errors.New("t_ns is negative")
	}
	if _, err := l.Bits(); err != nil {
		return err
	}
	return l.checkSigns()
}

// checkSigns refuses negative numbers where the protocol has unsigned ones. Temperature alone may be negative.
func (l *Line) checkSigns() error {
	for _, p := range []*float64{
		l.IntervalMS, l.MemTotalB, l.BusyMS, l.Limits.PowerMW, l.Limits.PowerDefaultMW, l.Limits.SMMaxMHz, l.SMMHz, l.MemMHz,
		l.PowerMW, l.UtilPct, l.MemUtilPct, l.MemUsedB, l.PState, l.EnergyMJ, l.PowerLimitMW, l.CostUS,
	} {
		if p != nil && *p < 0 {
			return errors.New("an unsigned number is negative")
		}
	}
	for _, p := range l.Procs {
		if p.PID < 0 || p.MemB != nil && *p.MemB < 0 {
			return errors.New("a process has a negative number")
		}
	}
	return nil
}

// Bits are the clock-event bits. It is an error when Reasons is neither empty nor a hexadecimal number; empty gives 0.
func (s Signals) Bits() (uint64, error) {
	if s.Reasons == "" {
		return 0, nil
	}
	bits, err := strconv.ParseUint(strings.TrimPrefix(s.Reasons, "0x"), 16, 64)
	if err != nil {
		return 0, errors.New("reasons is not a hexadecimal number")
	}
	return bits, nil
}

func (l *Line) cleanTexts() {
	for _, p := range []*string{
		&l.Edge, &l.Sensor, &l.Version, &l.Name, &l.Vendor, &l.PCI, &l.Driver, &l.CUDA, &l.Modes.Persistence,
		&l.Modes.Compute, &l.Modes.MIG, &l.Modes.ECC, &l.NS, &l.Op, &l.Code, &l.Text, &l.Reason,
	} {
		*p = clean(*p)
	}
	for i := range l.Procs {
		l.Procs[i].Kind = clean(l.Procs[i].Kind)
	}
	if u := l.Unavailable; u != nil {
		u.Reason, u.Text, u.Fix = clean(u.Reason), clean(u.Text), clean(u.Fix)
	}
	caps := make(map[string]string, len(l.Caps))
	for field, state := range l.Caps {
		caps[clean(field)] = clean(state)
	}
	l.Caps = caps
}

// clean makes foreign text fit to be stored and shown: printable ASCII, at most maxText bytes.
func clean(s string) string {
	s = s[:min(len(s), maxText)]
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
