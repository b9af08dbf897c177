package selftest

import (
	"encoding/json"
	"math"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Figure is a number of a result. In JSON it is the number, or null; the reasons stand in [Result.Missing].
type Figure struct{ record.Value }

// MarshalJSON writes the number or null.
func (f Figure) MarshalJSON() ([]byte, error) {
	x, ok := f.Finite()
	if !ok {
		return []byte("null"), nil
	}
	return json.Marshal(math.Round(x*1e6) / 1e6)
}

func of(x float64) Figure        { return Figure{record.Of(x)} }
func na(reason string) Figure    { return Figure{record.NA(reason)} }
func allNA(reason string) Spread { return Spread{na(reason), na(reason), na(reason), na(reason)} }

// Spread describes the size of an error, in ms.
type Spread struct {
	Mean Figure `json:"mean"`
	P50  Figure `json:"p50"`
	P99  Figure `json:"p99"`
	Max  Figure `json:"max"`
}

// Lag describes pick - sched, in ms.
type Lag struct {
	P50 Figure `json:"p50"`
	P99 Figure `json:"p99"`
	Max Figure `json:"max"`
}

// Gaps describes the gaps between events as the client saw them, in ms, the server's own lateness included.
type Gaps struct {
	P50   Figure `json:"p50"`
	P99   Figure `json:"p99"`
	Max   Figure `json:"max"`
	Sigma Figure `json:"sigma"`
}

// Arrivals says how far the requests went out as planned.
type Arrivals struct {
	// RateError is (sent per second / planned) - 1, a fraction.
	RateError Figure `json:"rate_error"`
	// GapCV is the coefficient of variation of the gaps between picks, a fraction; the plan's is 0.
	GapCV Figure `json:"gap_cv"`
	// SecondsOff counts the seconds in which another number of requests was released than planned.
	SecondsOff Figure `json:"seconds_off"`
}

// ratePercent is the size of RateError, %.
func (a Arrivals) ratePercent() Figure {
	if x, ok := a.RateError.Finite(); ok {
		return of(math.Abs(x) * 100)
	}
	return a.RateError
}

// cvPercent is GapCV in %.
func (a Arrivals) cvPercent() Figure {
	if x, ok := a.GapCV.Finite(); ok {
		return of(x * 100)
	}
	return a.GapCV
}

// Result is what one run of a self-test found. Figures that were not measured are n/a with a reason.
type Result struct {
	// TTFTError is (our first event - schedule) - (the server's stamp of it - its stamp of the request's last byte), over
	// measured requests that succeeded. It holds pacing, dialling, writing and reading, and is never below 0 by nature.
	TTFTError Spread `json:"ttft_error_ms"`
	// GapError is |our gap - the gap of the server's stamps|, over all gaps of those requests.
	GapError Spread `json:"gap_error_ms"`
	PacerLag Lag    `json:"pacer_lag_ms"`
	Gaps     Gaps   `json:"gap_ms"`
	// TruthGaps is the same by the server's stamps: what the client could not have seen better.
	TruthGaps Gaps     `json:"truth_gap_ms"`
	Arrivals  Arrivals `json:"arrivals"`

	// EventsPerS counts events received, stamped and kept per second of the measured interval; EventsPerCPUS per second of
	// CPU time of this process in it.
	EventsPerS    Figure `json:"events_per_s"`
	EventsPerCPUS Figure `json:"events_per_cpu_s"`
	// EventsPerRead is how many events one read of a socket completed, on average.
	EventsPerRead Figure `json:"events_per_read"`
	// RequestsPerS counts answers that ended, per second of the measured interval.
	RequestsPerS    Figure `json:"requests_per_s"`
	RequestsPerCPUS Figure `json:"requests_per_cpu_s"`
	// RSSPerStream is how much our resident memory grew from before the run to its peak, per stream, KiB.
	RSSPerStream Figure `json:"rss_kib_per_stream"`
	// ClientCPU and ServerCPU are CPU seconds per second of the measured interval: cores in use.
	ClientCPU Figure `json:"client_cpu"`
	ServerCPU Figure `json:"server_cpu"`
	// OtherCPU is what all other processes of the machine took, in cores. From 0.1 on the figures are not those of a quiet
	// machine.
	OtherCPU Figure `json:"other_cpu"`
	// Seconds is the length of the measured interval.
	Seconds Figure `json:"seconds"`

	// Sent counts requests written, SeenByServer those whose last byte the server read, warm-up included; -1 is unknown.
	Sent         int `json:"sent"`
	SeenByServer int `json:"seen_by_server"`
	// Measured counts the requests of the measured interval, OK those of them that succeeded, and Failed the others by
	// outcome class.
	Measured int                    `json:"measured"`
	OK       int                    `json:"ok"`
	Failed   map[record.Outcome]int `json:"failed,omitempty"`
	// FirstFailure is the detail of one of those.
	FirstFailure string `json:"first_failure,omitempty"`
	// Cores is the number of cores this process may use. The server shares them.
	Cores int `json:"cores"`
	// Missing gives the reason of each figure that is null, by its key.
	Missing map[string]string `json:"missing,omitempty"`
}

// fillMissing gathers the reasons.
func (r *Result) fillMissing() {
	r.Missing = map[string]string{}
	for key, f := range map[string]Figure{
		"ttft_error_ms": r.TTFTError.P99, "gap_error_ms": r.GapError.P99, "pacer_lag_ms": r.PacerLag.P99, "gap_ms": r.Gaps.P99,
		"truth_gap_ms": r.TruthGaps.P99, "arrivals": r.Arrivals.RateError, "events_per_s": r.EventsPerS,
		"events_per_cpu_s": r.EventsPerCPUS, "events_per_read": r.EventsPerRead, "requests_per_s": r.RequestsPerS,
		"requests_per_cpu_s": r.RequestsPerCPUS, "rss_kib_per_stream": r.RSSPerStream, "client_cpu": r.ClientCPU,
		"server_cpu": r.ServerCPU, "other_cpu": r.OtherCPU, "seconds": r.Seconds,
	} {
		if why := f.Reason(); why != "" {
			r.Missing[key] = why
		}
	}
}
