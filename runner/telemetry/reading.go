package telemetry

import (
	"encoding/json"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Reading is what one source said at one instant: a line of telemetry.jsonl. Immutable once made.
type Reading struct {
	T record.Instant `json:"t_ns"`
	// Source is the sensor's name, or "host".
	Source string `json:"source"`
	// Type is sample, counters, procs (of a sensor) or host.
	Type string `json:"type"`
	// OnArrival is true when the source's own time stamp was absent or not to be trusted.
	OnArrival bool   `json:"stamped_on_arrival,omitempty"`
	Dev       string `json:"dev,omitempty"`
	Edge      string `json:"edge,omitempty"`
	Signals
	Procs    []Proc `json:"procs,omitempty"`
	NS       string `json:"ns,omitempty"`
	Reliable *bool  `json:"reliable,omitempty"`
	Host     *Ticks `json:"host,omitempty"`
}

// Ticks are the host's counters at one instant. Times are CPU seconds since boot, summed over all cores; each counts one
// state only, so that their sum is all time there was.
type Ticks struct {
	User    float64 `json:"user_s"`
	Nice    float64 `json:"nice_s"`
	System  float64 `json:"system_s"`
	Idle    float64 `json:"idle_s"`
	IOWait  float64 `json:"iowait_s"`
	IRQ     float64 `json:"irq_s"`
	SoftIRQ float64 `json:"softirq_s"`
	Steal   float64 `json:"steal_s"`
	// Load1 is the one-minute load average; nil when it could not be read.
	Load1 *float64 `json:"load1,omitempty"`
	// MemAvailableB is /proc/meminfo MemAvailable in bytes; nil when it could not be read.
	MemAvailableB *float64 `json:"mem_available_b,omitempty"`
}

// busy is the time in which a core worked for this host. Guest time is part of User already.
func (t Ticks) busy() float64 { return t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ }

// total is all time there was, stolen time included.
func (t Ticks) total() float64 { return t.busy() + t.Idle + t.IOWait + t.Steal }

// line is the reading as JSON, without a newline. A Reading holds nothing that JSON cannot.
func (r Reading) line() ([]byte, error) { return json.Marshal(r) }
