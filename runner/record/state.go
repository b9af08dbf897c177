package record

// State is telemetry reduced over the measured interval of one round. The judge decides validity from it alone, before a
// latency is read.
type State struct {
	GPUs []GPUState `json:"gpus,omitempty"`
	// GPUReason says why no GPU was observed: "off by configuration", "no driver …". Empty when GPUs is not.
	GPUReason string    `json:"gpu_reason,omitempty"`
	Host      HostState `json:"host"`
	Gaps      []Gap     `json:"gaps,omitempty"`
}

// Gap is a stretch of the interval without readings of a source.
type Gap struct {
	Source string  `json:"source"`
	From   Instant `json:"from_ns"`
	To     Instant `json:"to_ns"`
	Reason string  `json:"reason"`
}

// Spread is the lowest, middle and highest reading of a signal, each n/a with the same reason when none was read.
type Spread struct {
	Min    Value `json:"min"`
	Median Value `json:"median"`
	Max    Value `json:"max"`
}

// GPUState is one device over the interval.
type GPUState struct {
	UUID string `json:"uuid"`
	// Ticks counts readings; Loaded those under load (utilisation above 0).
	Ticks  int    `json:"ticks"`
	Loaded int    `json:"loaded_ticks"`
	SMMHz  Spread `json:"sm_mhz"`
	MemMHz Spread `json:"mem_mhz"`
	TempC  Spread `json:"temp_c"`
	// PowerMW is in milliwatt, UtilPct 0 to 100, MemUsedB in bytes.
	PowerMW  Spread `json:"power_mw"`
	UtilPct  Spread `json:"util_pct"`
	MemUsedB Spread `json:"mem_used_b"`
	// Reasons counts, over loaded ticks, the clock-event bits seen, by name: power_cap, hw_slowdown, thermal_sw,
	// thermal_hw, power_brake. Nil when the sensor could not read them; ReasonsNA then says why.
	Reasons   map[string]int `json:"reasons,omitempty"`
	ReasonsNA string         `json:"reasons_na,omitempty"`
	// SlowdownRun is the longest run of loaded ticks in a row with hw_slowdown.
	SlowdownRun int `json:"hw_slowdown_run"`
	// Procs lists the processes seen on the device in the interval.
	Procs   []GPUProc `json:"procs,omitempty"`
	ProcsNA string    `json:"procs_na,omitempty"`
}

// GPUProc is a process on a device.
type GPUProc struct {
	PID  int    `json:"pid"`
	MemB Value  `json:"mem_b"`
	Kind string `json:"kind"`
	// Ours is true when the process belonged to the measured server.
	Ours bool `json:"ours"`
}

// HostState is the host over the interval. Recorded, not judged.
type HostState struct {
	// Busy, Steal and IOWait are shares of all cores' time, fractions.
	Busy   Value `json:"busy"`
	Steal  Value `json:"steal"`
	IOWait Value `json:"iowait"`
	// Load1 is the one-minute load average at the end of the interval.
	Load1 Value `json:"load1"`
	// MemAvailableMinB is the lowest MemAvailable, bytes.
	MemAvailableMinB Value `json:"mem_available_min_b"`
	Ticks            int   `json:"ticks"`
}
