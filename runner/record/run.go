package record

import "time"

// Schema is the version of run.json this package writes. A reader refuses a greater one.
const Schema = 1

// Arm is one of the two builds compared.
type Arm string

// The two arms. `tailgate load` measures one server and calls it head.
const (
	Base Arm = "base"
	Head Arm = "head"
)

// Other is the arm that a is compared with.
func (a Arm) Other() Arm {
	if a == Base {
		return Head
	}
	return Base
}

// Kind says what was compared.
type Kind string

// The kinds of run: two revisions, one build with a switch, one build against itself, or one running server under load.
const (
	KindRevisions Kind = "revisions"
	KindSwitch    Kind = "switch"
	KindCalibrate Kind = "calibrate"
	KindLoad      Kind = "load"
	// KindURL compares two servers that were already running.
	KindURL Kind = "url"
)

// Status says how far a run came. Only a complete (or deadline) run can be judged pass.
type Status string

// The states of a run, in the order it may go through them.
const (
	StatusPlanned   Status = "planned"
	StatusRunning   Status = "running"
	StatusComplete  Status = "complete"
	StatusCancelled Status = "cancelled"
	StatusDeadline  Status = "deadline"
	StatusBroken    Status = "broken"
)

// Run is the index of one run: what was declared, one summary per round, and what went wrong. It is run.json. The zero
// value is not a run; see [Create]. A Run has one owner; it is not safe for concurrent mutation.
type Run struct {
	// Schema is [Schema] when written by this version.
	Schema int `json:"schema"`
	// ID names the run: letters, digits and dashes, at most 64. It seeds the order of slots.
	ID     string `json:"id"`
	Kind   Kind   `json:"kind"`
	Status Status `json:"status"`
	// Epoch is the wall time that instant 0 stands for.
	Epoch time.Time `json:"epoch"`
	// Finished is the instant at which the run ended; zero while it goes on.
	Finished Instant `json:"finished_ns,omitzero"`
	Tailgate Tool    `json:"tailgate"`
	// Command is the command line, secrets masked.
	Command     string       `json:"command"`
	Declared    Declared     `json:"declared"`
	Workload    WorkloadInfo `json:"workload"`
	Arms        Arms         `json:"arms"`
	Environment Environment  `json:"environment"`
	Fidelity    []Fidelity   `json:"fidelity"`
	Rounds      []Round      `json:"rounds"`
	Incidents   []Incident   `json:"incidents"`
	Notes       []Note       `json:"notes"`
}

// Tool is the tailgate that made the run.
type Tool struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
}

// Declared is what was fixed before slot 0 and never changed after: the rules that a verdict must be judged by.
type Declared struct {
	// Coin is 0 or 1; 1 swaps the arms of every slot.
	Coin int `json:"coin"`
	// Order lists the arm of every planned slot up to the last look; re-run pairs come on top.
	Order []Arm `json:"order"`
	// Looks are the pair counts at which the session is judged, rising.
	Looks []int `json:"looks"`
	// Level is the one-sided error level of each look, a fraction.
	Level float64 `json:"level"`
	// Min and Max count pairs; MaxVoid counts extra pairs that void rounds may cost.
	Min     int `json:"min"`
	Max     int `json:"max"`
	MaxVoid int `json:"max_void"`
	// Mode is [ModeRestart] or [ModeResident]; empty in a run of kind load.
	Mode   string `json:"mode"`
	Warmup Warmup `json:"warmup"`
	// Measure is the length of the measured interval, ns.
	Measure time.Duration `json:"measure_ns"`
	Load    Load          `json:"load"`
	Limits  Limits        `json:"limits"`
	// SLO holds the declared limits by metric key, in the metric's unit, so that rounds can count what lies beyond.
	SLO    map[string]float64 `json:"slo"`
	Policy PolicyRef          `json:"policy"`
	// Telemetry says whether the GPU was required, optional or off, and the sampling interval.
	Telemetry TelemetryPlan `json:"telemetry"`
	// Conditioning and Cooldown are as configured; 0 means the step was skipped.
	Conditioning Conditioning  `json:"conditioning"`
	Cooldown     time.Duration `json:"cooldown_ns"`
	// SelfTest is how long the load generator measures a server of known truth before each round; 0 means the step was
	// skipped.
	SelfTest time.Duration `json:"self_test_ns,omitempty"`
	// Reset is how caches are emptied between rounds of one server, Resident how such servers live; nil where each round has
	// its own.
	Reset    *ResetPlan    `json:"reset,omitempty"`
	Resident *ResidentPlan `json:"resident,omitempty"`
}

// Warmup is the declared warm-up rule, equal for both arms. Its meaning is in package steady.
type Warmup struct {
	Window  time.Duration `json:"window_ns"`
	Windows int           `json:"windows"`
	// Band, MaxErrorRate and Trend are fractions (0.05 is ±5 %).
	Band         float64       `json:"band"`
	MaxErrorRate float64       `json:"max_error_rate"`
	Cap          time.Duration `json:"cap_ns"`
	Trend        float64       `json:"trend"`
	TrendWindows int           `json:"trend_windows"`
	Min          time.Duration `json:"min_ns"`
}

// The kinds of load.
const (
	OpenLoop   = "open"
	ClosedLoop = "closed"
)

// Load says how requests are offered.
type Load struct {
	// Kind is "open": requests are due by a schedule, whatever the server does; or "closed": the next one is due when one of
	// Concurrency slots is free, so that a slow server is asked less.
	Kind string `json:"kind"`
	// Concurrency is the number of slots of a closed loop; 0 in an open one.
	Concurrency int `json:"concurrency,omitempty"`
	// MaxInFlight bounds the requests in flight of an open loop; 0 for no bound. Waiting for a place counts in every latency.
	MaxInFlight int `json:"max_in_flight,omitempty"`
	// Think is how long a slot of a closed loop rests before its next request, ns.
	Think time.Duration `json:"think_ns,omitempty"`
	// HTTP2 says that requests are streams of one HTTP/2 connection; false is HTTP/1.1, a connection for each request in
	// flight.
	HTTP2 bool `json:"http2,omitempty"`
	// Dialect is the API spoken, e.g. "openai-chat".
	Dialect string `json:"dialect"`
	// Model is the model name sent with each request; empty when the workload sets none.
	Model string `json:"model,omitempty"`
}

// Limits are the client's own limits on one request, ns. Zero means no limit.
type Limits struct {
	Dial       time.Duration `json:"dial_ns"`
	FirstEvent time.Duration `json:"first_event_ns"`
	Idle       time.Duration `json:"idle_ns"`
	Total      time.Duration `json:"total_ns"`
	// Drain is how long the requests of a round are waited for after its last arrival.
	Drain time.Duration `json:"drain_ns"`
	// NoProgress ends a round in which requests are open and no token came for so long.
	NoProgress time.Duration `json:"no_progress_ns"`
}

// DefaultLimits are the limits of a run that sets none.
func DefaultLimits() Limits {
	return Limits{
		Dial: 5 * time.Second, FirstEvent: 2 * time.Minute, Idle: time.Minute, Total: 10 * time.Minute,
		Drain: 10 * time.Minute, NoProgress: time.Minute,
	}
}

// PolicyRef names the policy that was declared.
type PolicyRef struct {
	// SHA256 is over the policy's canonical form, 64 hex.
	SHA256 string `json:"sha256"`
	// Commit is the commit the policy was read from; empty for a file of the working tree.
	Commit string `json:"commit,omitempty"`
	Path   string `json:"path"`
	// Gate is what the verdict was asked for in place of the policy's own gate: "pr", "release", or empty.
	Gate string `json:"gate,omitempty"`
	// First is true when the target branch had no policy and head's own was used.
	First bool `json:"first,omitempty"`
}

// TelemetryPlan is the declared observation of the machine.
type TelemetryPlan struct {
	// GPU is "required", "optional" or "off".
	GPU      string        `json:"gpu"`
	Interval time.Duration `json:"interval_ns"`
}

// Conditioning is the length of the unrecorded slot of each arm, ns.
type Conditioning struct {
	Base time.Duration `json:"base_ns"`
	Head time.Duration `json:"head_max_ns"`
}

// WorkloadInfo names the workload and its size; the bytes are in the run folder or at the origin.
type WorkloadInfo struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	// Digest is "sha256:" and 64 hex.
	Digest string `json:"digest"`
	// Licence and Source are for the report: where the requests come from.
	Licence string `json:"licence,omitempty"`
	Source  string `json:"source,omitempty"`
	// Requests counts the arrivals of one measured interval; Conversations the groups among them.
	Requests      int `json:"requests"`
	Conversations int `json:"conversations"`
	// InTokens and OutTokens are planned lengths over the measured interval.
	InTokens  Quantiles `json:"in_tokens"`
	OutTokens Quantiles `json:"out_tokens"`
	// PrefixShare is the share of planned input tokens that an unbounded prefix cache could serve, a fraction.
	PrefixShare Value `json:"prefix_share"`
	// Rate is the mean arrival rate of the measured interval, requests per second.
	Rate Value `json:"rate_rps"`
}

// Quantiles are nearest-rank quantiles of a count.
type Quantiles struct {
	P50 int `json:"p50"`
	P90 int `json:"p90"`
	P95 int `json:"p95"`
	P99 int `json:"p99"`
	Max int `json:"max"`
}

// Arms holds both arms. Base is nil in a run of kind load.
type Arms struct {
	Base *ArmInfo `json:"base,omitempty"`
	Head *ArmInfo `json:"head,omitempty"`
}

// Get returns the arm's facts, nil when the run has no such arm.
func (a Arms) Get(arm Arm) *ArmInfo {
	if arm == Base {
		return a.Base
	}
	return a.Head
}

// ArmInfo is where an arm came from and how it was built and started.
type ArmInfo struct {
	// Ref is what the user named; Commit is 40 hex. Both are empty for a server that was already running.
	Ref    string `json:"ref,omitempty"`
	Commit string `json:"commit,omitempty"`
	// Strategy is "merge-base", "merge" or "ref": how Commit was chosen from Ref.
	Strategy string `json:"strategy,omitempty"`
	// Uncommitted says that Commit was made of a working tree for this run; no ref names it.
	Uncommitted bool `json:"uncommitted,omitempty"`
	// Ahead counts the commits that the base branch is ahead of the measured base.
	Ahead   int    `json:"ahead,omitempty"`
	Subject string `json:"subject,omitempty"`
	Build   Build  `json:"build"`
	// Start is the start command, without the arm's own Args.
	Start string   `json:"start,omitempty"`
	Args  []string `json:"args,omitempty"`
	// Env lists the names of the environment variables set for the server; values stay out of the record.
	Env []string `json:"env,omitempty"`
	// EnvDiffers lists, in a run of kind switch, those of either arm whose value the other arm lacks or sets otherwise.
	EnvDiffers []string `json:"env_differs,omitempty"`
	// SHA256 is the arm digest: artefact, commands, args and environment, 64 hex.
	SHA256 string `json:"arm_sha256,omitempty"`
	// Probe is what the arm made of the requests before its first round; nil when it was not asked.
	Probe *ProbeReport `json:"probe,omitempty"`
	// URL is the server's address in a run of kind load or url, credentials and query values masked.
	URL string `json:"url,omitempty"`
}

// Environment is the machine the run was made on.
type Environment struct {
	Host Host  `json:"host"`
	GPUs []GPU `json:"gpus"`
	// Caps says per GPU UUID which fields the sensor could read: "ok" or a reason.
	Caps map[string]map[string]string `json:"caps,omitempty"`
	// GPUReason says why no GPU was observed; empty when GPUs is not.
	GPUReason string `json:"gpu_reason,omitempty"`
	Runner    Runner `json:"runner"`
}

// Host describes the machine. Fields that could not be read are empty or n/a.
type Host struct {
	Name     string `json:"name,omitempty"`
	Kernel   string `json:"kernel,omitempty"`
	CPU      string `json:"cpu,omitempty"`
	Cores    int    `json:"cores,omitempty"`
	MemoryB  Value  `json:"memory_b"`
	Governor string `json:"governor,omitempty"`
	OS       string `json:"os,omitempty"`
	Arch     string `json:"arch,omitempty"`
}

// GPU describes one device.
type GPU struct {
	UUID         string `json:"uuid"`
	Name         string `json:"name,omitempty"`
	Vendor       string `json:"vendor,omitempty"`
	Driver       string `json:"driver,omitempty"`
	PCI          string `json:"pci,omitempty"`
	MemTotalB    Value  `json:"mem_total_b"`
	PowerLimitMW Value  `json:"power_limit_mw"`
	PowerDefault Value  `json:"power_default_mw"`
	SMMaxMHz     Value  `json:"sm_max_mhz"`
	Persistence  string `json:"persistence,omitempty"`
	ComputeMode  string `json:"compute_mode,omitempty"`
	ECC          string `json:"ecc,omitempty"`
	MIG          string `json:"mig,omitempty"`
	CUDA         string `json:"cuda,omitempty"`
}

// Runner is the CI runner, empty at a terminal.
type Runner struct {
	Name string `json:"name,omitempty"`
	URL  string `json:"url,omitempty"`
}

// Direction says which way a distortion bends absolute latency.
type Direction string

// The directions of a fidelity row.
const (
	Optimistic  Direction = "optimistic"
	Pessimistic Direction = "pessimistic"
	Neutral     Direction = "neutral"
	Unknown     Direction = "unknown"
)

// Fidelity is one way in which the replay differs from its source.
type Fidelity struct {
	Measure   string    `json:"measure"`
	Source    Value     `json:"source"`
	Replay    Value     `json:"replay"`
	Ratio     Value     `json:"ratio"`
	Limit     string    `json:"limit,omitempty"`
	Direction Direction `json:"direction"`
	Reason    string    `json:"reason,omitempty"`
}

// Incident is a fact that ended a try, a round or the session. The judge maps its ID and arm to a verdict.
type Incident struct {
	// ID is a word such as build_failed, start_timeout, disk_full. See the constants.
	ID   string  `json:"id"`
	Arm  Arm     `json:"arm,omitempty"`
	Slot *int    `json:"slot,omitempty"`
	Try  int     `json:"try,omitempty"`
	T    Instant `json:"t_ns"`
	Exit *int    `json:"exit,omitempty"`
	// Text is one sentence: what happened and what to do.
	Text string `json:"text"`
	// Log is the path of a log inside the run folder; Tail its last lines, masked and cleaned by the writer.
	Log  string   `json:"log,omitempty"`
	Tail []string `json:"tail,omitempty"`
}

// The incidents a runner may report.
const (
	BuildFailed      = "build_failed"
	SameArtifact     = "same_artifact"
	StartFailed      = "start_failed"
	StartTimeout     = "start_timeout"
	PortTaken        = "port_taken"
	PortStolen       = "port_stolen"
	PortNotFreed     = "port_not_freed"
	RunnerDirty      = "runner_dirty"
	Daemonised       = "daemonised"
	Crashed          = "crashed"
	EngineStalled    = "engine_stalled"
	DiskFull         = "disk_full"
	WriteFailed      = "write_failed"
	TelemetryMissing = "telemetry_unavailable"
	GPULocked        = "gpu_locked"
	GPUNotUsed       = "gpu_not_used"
	GPUNotFound      = "gpu_not_found"
	ProbeFailed      = "probe_failed"
	ProbeUnfit       = "probe_unfit"
	ServerGone       = "server_gone"
	ResetMissing     = "cache_reset_unavailable"
	GPUsDiffer       = "resident_gpus_differ"
	PortsShort       = "ports_short"
	WorktreeFailed   = "worktree_failed"
	InternalFault    = "internal_fault"
	Cancelled        = "cancelled"
	MemoryNotFreed   = "gpu_memory_not_freed"
	StopNotClean     = "stop_not_clean"
)

// Note is a remark of the runner that no rule judges.
type Note struct {
	ID   string `json:"id"`
	Slot *int   `json:"slot,omitempty"`
	Text string `json:"text"`
}

// Event is one line of journal.jsonl.
type Event struct {
	T    Instant `json:"t_ns"`
	Name string  `json:"event"`
	Slot *int    `json:"slot,omitempty"`
	Arm  Arm     `json:"arm,omitempty"`
	Text string  `json:"text,omitempty"`
}

// Void says that a round does not count, by which rule and on what evidence.
type Void struct {
	Slot     int    `json:"slot"`
	Rule     string `json:"rule"`
	Evidence string `json:"evidence"`
}

// Next is the judge's answer after a round or at a look: stop the session, or go on.
type Next struct {
	Stop   bool
	Reason string
}
