package config

// Version is the version of the file format this package reads.
const Version = 1

// File is a .tailgate.yaml with its defaults applied. Get one from [Parse] or [Default]; the zero value gates nothing.
// A File is not changed after Parse and may then be read concurrently.
type File struct {
	Version      int          `yaml:"version" doc:"Version of this format. Required; always 1."`
	Gate         string       `yaml:"gate" doc:"What the verdict is for, which sets the defaults of keys that are not written. pr: a pull request. release: rounds.max 12, verdict.fail_margin full, verdict.slo_burden proven, verdict.slo_preexisting fail." enum:"pr|release"`
	Target       Target       `yaml:"target" doc:"How the service is built, started and stopped."`
	Arms         Arms         `yaml:"arms" doc:"What differs between the arms when one build is compared with itself under a switch. Without it two revisions are compared."`
	Workload     string       `yaml:"workload" doc:"Folder of the workload that is replayed, relative to the repository."`
	Load         Load         `yaml:"load" doc:"How requests are offered."`
	Warmup       Warmup       `yaml:"warmup" doc:"When a round is steady enough to be measured. Equal for both arms."`
	Rounds       Rounds       `yaml:"rounds" doc:"How many pairs of rounds are run. A pair is one round of each arm."`
	Reset        Reset        `yaml:"reset" doc:"How servers that stay up forget what they cached before each round: the call that makes them, or none to leave their caches as they are. Only beside rounds.mode resident and target.url; a fresh server has nothing to forget."`
	Resident     Resident     `yaml:"resident" doc:"Where servers that stay up live side by side; see rounds.mode."`
	Conditioning Conditioning `yaml:"conditioning" doc:"The unrecorded start of each arm before slot 0. 0s skips it; the report says so."`
	Cooldown     Cooldown     `yaml:"cooldown" doc:"The wait before each start."`
	SLO          SLO          `yaml:"slo" doc:"Absolute limits on head, by metric."`
	Tolerance    Tolerances   `yaml:"tolerance" doc:"How much worse head may be than base, by metric. A section that is present replaces the default list: what it does not name is shown, not gated. The error rate is always gated."`
	Drift        Drift        `yaml:"drift" doc:"How far the machine itself may move during a session."`
	Verdict      Verdict      `yaml:"verdict" doc:"How strictly the evidence is read."`
	Telemetry    Telemetry    `yaml:"telemetry" doc:"What is observed of the machine."`
	Baseline     Baseline     `yaml:"baseline" doc:"Where builds are kept between runs. It decides nothing about a verdict and is no part of the policy's digest."`

	// policy and target say where keys stood, for errors found after parsing; they differ after [Merge].
	policy, target source
}

// Target is how one arm's service comes up and goes away. It belongs to the measured commit, not to the policy.
type Target struct {
	Build        string            `yaml:"build" doc:"Shell command run in each arm's worktree; what it leaves behind is the build. Empty: the checkout is the build."`
	BuildTimeout Duration          `yaml:"build_timeout" doc:"Longest build."`
	Outputs      []string          `yaml:"outputs" doc:"Globs of the files that make up the build's digest. Empty: the whole worktree except .git."`
	Toolchain    []string          `yaml:"toolchain" doc:"Commands whose output names the tools of the build, such as gcc --version. They run in the worktree before the build; what they print is kept with the run and is part of the build cache's key."`
	Relocatable  bool              `yaml:"relocatable" doc:"Whether the outputs work in another folder. false, for a virtual environment or other outputs with absolute paths inside, turns the build cache off."`
	ImageDigest  string            `yaml:"image_digest" doc:"Shell command, run in the worktree after the build, that prints the digest of the container image that start runs: sha256: and 64 hex digits. It tells two builds apart where the outputs do not."`
	Start        string            `yaml:"start" doc:"Shell command that starts the server in the foreground. $PORT is the port it must listen on."`
	Ready        Ready             `yaml:"ready" doc:"When a started server counts as ready."`
	Env          map[string]string `yaml:"env" doc:"Environment variables of build and server. Nothing else of the caller's environment passes but a short list."`
	PassEnv      []string          `yaml:"pass_env" doc:"Names of variables taken from the caller's environment. Values of names with TOKEN, KEY, SECRET or PASSWORD are masked in logs and reports."`
	CacheEnv     []string          `yaml:"cache_env" doc:"Names of variables that tell the server where compiled kernels are kept, such as TRITON_CACHE_DIR. Each is set to an empty folder of the arm's own, kept for all rounds of a session and removed at its end."`
	Stop         Stop              `yaml:"stop" doc:"How the server is asked to leave."`
	Git          Git               `yaml:"git" doc:"What a worktree gets beside the files of its commit. Without it the report notes what is missing."`
	StopCommand  string            `yaml:"stop_command" doc:"Shell command that ends the server in place of the signal, in the arm's worktree and with the server's environment; run once more before SIGKILL. Needed for containers, whose client is not the server."`
	PIDs         string            `yaml:"pids" doc:"Shell command that prints pids of the host, one a line, which belong to the server though tailgate did not start them, as a container's. They are observed, never signalled."`
	GPUs         []string          `yaml:"gpus" doc:"UUIDs of the GPUs that both arms' servers see, in this order; these alone are watched and locked. Read from the file that the policy is read from, for both arms. Unset: those of CUDA_VISIBLE_DEVICES, else all; see gpu.md."`
	Port         int               `yaml:"port" doc:"Fixed port, 1 to 65535. 0: a fresh free port in each round."`
	URL          URLs              `yaml:"url" doc:"Two servers that already run. Nothing is built, started, stopped or proven then, and all keys about that are refused."`
	Model        string            `yaml:"model" doc:"Model name sent with each request. Empty: the workload's own."`
	Dialect      string            `yaml:"dialect" doc:"API the service speaks." enum:"openai-chat|openai-completions|ollama|tgi|kserve-infer|triton-generate|llamacpp|http-json"`

	Path           string   `yaml:"path" doc:"Path requests are sent to, such as /api/generate. Empty: the dialect's own."`
	CapField       string   `yaml:"cap_field" doc:"openai-chat: the field that caps the output. Unset: max_tokens." enum:"max_tokens|max_completion_tokens|both"`
	PerEventTokens string   `yaml:"per_event_tokens" doc:"openai-chat, openai-completions: what the server is asked to say of the tokens of each event, in both arms. Unset: none." enum:"none|usage|logprobs"`
	Text           string   `yaml:"text" doc:"triton-generate: what an event holds, the new text or all text so far. Unset: delta." enum:"delta|whole"`
	Stream         string   `yaml:"stream" doc:"http-json: how answers stream. Unset: none." enum:"none|sse|ndjson"`
	Method         string   `yaml:"method" doc:"http-json: the method of requests. Unset: POST." enum:"POST|PUT|GET"`
	Pointers       Pointers `yaml:"pointers" doc:"http-json: where an answer, or an event of a stream, keeps what is measured. triton-generate takes n_in and n_out."`
}

// Git says what is checked out beside the files of a commit.
type Git struct {
	LFS        bool `yaml:"lfs" doc:"Fetch the files that git-lfs keeps, in place of their pointers. git-lfs must be installed."`
	Submodules bool `yaml:"submodules" doc:"Check submodules out, those within them too: from the repositories the checkout has of them, else from their URLs over the network."`
}

// Pointers are JSON Pointers (RFC 6901) into an answer; an empty one is none.
type Pointers struct {
	Text   string `yaml:"text" doc:"The generated output. Empty: the whole answer."`
	Finish string `yaml:"finish" doc:"Set once the answer is complete; its value is the finish reason."`
	Error  string `yaml:"error" doc:"Holds something when the request failed."`
	NIn    string `yaml:"n_in" doc:"Number of prompt tokens."`
	NOut   string `yaml:"n_out" doc:"Number of output tokens so far."`
}

// Ready says when a started server is ready: Path answers 2xx and one real inference returns content.
type Ready struct {
	Path    string   `yaml:"path" doc:"Path that must answer 2xx, such as /health. Empty: only one real inference must succeed, which is always asked."`
	Timeout Duration `yaml:"timeout" doc:"Longest wait for readiness. Loading a model is slow, not broken."`
}

// Stop says how the server is asked to leave.
type Stop struct {
	Signal string   `yaml:"signal" doc:"Signal sent first." enum:"SIGTERM|SIGINT|SIGHUP|SIGQUIT|SIGKILL"`
	Grace  Duration `yaml:"grace" doc:"Time between the signal and SIGKILL to the whole process tree."`

	Required      string   `yaml:"required" doc:"What a stop must be. clean: one that takes half the grace or longer, or needs SIGKILL, is a finding against head, and makes the session invalid on base. Unset: any; what was not clean is a note." enum:"any|clean"`
	MemoryTimeout Duration `yaml:"memory_timeout" doc:"Longest wait for the GPUs to be back at their memory of the session's start, within 256 MiB or 1% of a device, before the next server starts."`
}

// CleanStop is the value of target.stop.required that makes a stop with force or delay a finding.
const CleanStop = "clean"

// Arms holds the differences of a single-switch comparison; both nil when two revisions are compared.
type Arms struct {
	Base *Arm `yaml:"base" doc:"Arguments and environment of base only."`
	Head *Arm `yaml:"head" doc:"Arguments and environment of head only."`
}

// Present reports whether the file asks for a single-switch comparison.
func (a Arms) Present() bool { return a.Base != nil || a.Head != nil }

// Arm is what one arm adds to the target.
type Arm struct {
	Args []string          `yaml:"args" doc:"Arguments appended to target.start, each quoted for the shell."`
	Env  map[string]string `yaml:"env" doc:"Environment variables set for this arm."`
	// Ready differs from the target's where its keys are set.
	Ready ArmReady `yaml:"ready" doc:"When this arm's server counts as ready, where that differs."`
}

// ArmReady is what one arm's readiness has of its own. Its zero value changes nothing.
type ArmReady struct {
	Timeout Duration `yaml:"timeout" doc:"Longest wait for this arm's readiness. Unset: target.ready.timeout."`
}

// Load is how requests are offered.
type Load struct {
	Scale       float64  `yaml:"scale" doc:"Always 1: a workload at another rate is another workload. Use tailgate workload build."`
	Measure     Duration `yaml:"measure" doc:"Length of the measured interval of a round, at least 1s."`
	Concurrency int      `yaml:"concurrency" doc:"Slots of a closed loop: each sends its next request when its last one is over, so that a slow service is asked less and its overload stays hidden. 0: an open loop, which sends by the workload's schedule whatever the service does."`
	Think       Duration `yaml:"think" doc:"Rest of a closed loop's slot between two requests. Conversations keep the delays of their own."`
	MaxInFlight int      `yaml:"max_in_flight" doc:"Most requests in flight of an open loop. Waiting for a place counts in every latency, and the round is flagged client_limited. 0: no bound."`
	HTTP2       bool     `yaml:"http2" doc:"Send requests over HTTP/2, all as streams of one connection: by ALPN for https, with prior knowledge for http. Stamps are less exact than over HTTP/1.1 and the report says so; see load.md."`
	SelfTest    Duration `yaml:"self_test" doc:"How long the load generator measures its own error, against a server of known truth, before each round: 200ms or more. 0s skips it; the report says so."`
	Limits      Limits   `yaml:"limits" doc:"The client's own limits on one request; 0s means none. A limit must lie above the SLO it could hide."`
}

// Limits bound one request on the client's side. Zero means no limit.
type Limits struct {
	Dial       Duration `yaml:"dial" doc:"To establish a connection."`
	FirstEvent Duration `yaml:"first_event" doc:"From the sent request to its first generated token."`
	Idle       Duration `yaml:"idle" doc:"Between two reads of an answer."`
	Total      Duration `yaml:"total" doc:"For the whole request."`
	Drain      Duration `yaml:"drain" doc:"For the requests still open when a round's last one was due. Unset: as total."`
	NoProgress Duration `yaml:"no_progress" doc:"Ends a round in which requests are open and no token came for so long."`
}

// Warmup is the steady-state rule.
type Warmup struct {
	Window       Duration `yaml:"window" doc:"Length of one warm-up window, at least 100ms."`
	Windows      int      `yaml:"windows" doc:"How many windows in a row must agree, at least 2."`
	Band         Percent  `yaml:"band" doc:"How far each of them may lie from their mean."`
	MaxErrorRate Percent  `yaml:"max_error_rate" doc:"Highest share of failed requests in a window."`
	Cap          Duration `yaml:"cap" doc:"Longest warm-up. A round that is not steady by then is void."`
	Trend        Percent  `yaml:"trend" doc:"Largest change over the last trend_windows windows."`
	TrendWindows int      `yaml:"trend_windows" doc:"Windows over which the trend is taken, at least windows."`
	Min          Duration `yaml:"min" doc:"Shortest warm-up."`
}

// Rounds counts pairs.
type Rounds struct {
	Min     int `yaml:"min" doc:"Pairs at the first look, 3 to 12. 3 marks the verdict provisional."`
	Max     int `yaml:"max" doc:"Pairs at the last look, min to 12."`
	MaxVoid int `yaml:"max_void" doc:"Extra pairs that void rounds may cost. Unset: the larger of 2 and min/2."`

	Mode string `yaml:"mode" doc:"restart: a fresh server for each round. resident: a server of each arm stays up and rounds alternate between them, which saves starts and has conditions; see compare-running.md." enum:"restart|resident"`
}

// Conditioning is the length of the unrecorded slot of each arm.
type Conditioning struct {
	Base    Duration `yaml:"base" doc:"Load on base."`
	HeadMax Duration `yaml:"head_max" doc:"Longest load on head; it ends earlier when the GPU's temperature is level."`
}

// Cooldown is the wait before each start.
type Cooldown struct {
	Pause Duration `yaml:"pause" doc:"The wait where no temperature can be read."`
	Limit Duration `yaml:"limit" doc:"Longest wait for a temperature."`
}

// Drift bounds the machine's own movement.
type Drift struct {
	MaxBase Percent `yaml:"max_base" doc:"Largest fitted drift over the session, above 0% and at most 50%. Beyond it the session is invalid."`
}

// Verdict says how strictly the evidence is read.
type Verdict struct {
	Alpha          Percent `yaml:"alpha" doc:"One-sided error level over all looks, above 0% and at most 10%."`
	FailMargin     string  `yaml:"fail_margin" doc:"Share of the tolerance that the lower bound must exceed to fail." enum:"half|full"`
	Multiplicity   string  `yaml:"multiplicity" doc:"How a failing metric answers for the others gated beside it: none judges each by itself, holm asks the more of it the more there are." enum:"none|holm"`
	SLOBurden      string  `yaml:"slo_burden" doc:"Who carries the doubt about an SLO: not-violated lets an SLO at risk pass with a warning, proven makes it inconclusive." enum:"not-violated|proven"`
	SLOPreexisting string  `yaml:"slo_preexisting" doc:"What an SLO that base breaks too leads to." enum:"warn|fail"`
	Calibration    string  `yaml:"calibration" doc:"File that tailgate calibrate wrote, relative to the repository. It narrows the bounds of metrics whose noise it knows, and is ignored with a warning when it is older than 14 days, of another machine or workload, or of fewer than 9 pairs. off: none."`
}

// Telemetry is what is observed of the machine.
type Telemetry struct {
	GPU       string   `yaml:"gpu" doc:"required: a run without GPU readings is invalid. Unset: required where an NVIDIA driver is present, else optional." enum:"required|optional|off"`
	Interval  Duration `yaml:"interval" doc:"Time between two readings, at least 200ms."`
	NVML      string   `yaml:"nvml" doc:"Path of the tailgate-nvml sensor. Empty: beside the tailgate binary."`
	ExpectGPU bool     `yaml:"expect_gpu" doc:"Whether a started server must be seen to take GPU memory, where a GPU is observed."`
}

// Baseline says where builds are kept between runs.
type Baseline struct {
	Cache     string   `yaml:"cache" doc:"Folder of the build cache, an absolute path; ~ is not expanded. Builds of one tree by one command and toolchain are then made once; see builds.md. Empty: none."`
	Protected []string `yaml:"protected" doc:"Names of branches whose commits have builds of their own in the cache: a commit of these branches never takes a build that another commit made."`
}
