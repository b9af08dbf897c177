package record

import "strconv"

// RoundState says how far a round came.
type RoundState string

// The states of a round. A round whose warm-up never settled, or that was cut short, stays partial.
const (
	RoundRunning  RoundState = "running"
	RoundComplete RoundState = "complete"
	RoundPartial  RoundState = "partial"
)

// Round is one arm, measured once. It is round.json, and an entry of run.json. Whether it is void is no field: the judge
// decides that from Machine, Client, Steady and Counts each time anew.
type Round struct {
	// Slot is the round's place in the session's order, from 0. A re-run gets a new slot.
	Slot int `json:"slot"`
	Arm  Arm `json:"arm"`
	// Pair numbers the pairs from 0 in order of their first slot; a re-run pair has a number of its own.
	Pair int `json:"pair"`
	// RerunOf is the slot of the void round that this one replaces; nil otherwise.
	RerunOf *int       `json:"rerun_of,omitempty"`
	State   RoundState `json:"state"`
	Phases  Phases     `json:"phases"`
	Counts  Counts     `json:"counts"`
	// Metrics maps keys such as ttft_p99, output_tps, error_rate; latencies also as …_send and over successes as …_ok.
	Metrics map[string]Metric `json:"metrics"`
	// Beyond counts, per declared SLO limit of a percentile, the samples over it, failures included: of the metric's N, which
	// are requests, or token gaps for inter-token latency.
	Beyond map[string]int `json:"beyond,omitempty"`
	// Blocks holds ten values per latency percentile that has one, in its unit: the percentile with one of ten contiguous
	// blocks of arrivals left out. Their spread tells how far a round of this length is from the truth, however its requests
	// depend on each other (a jackknife over blocks). A key is absent where such a value does not exist.
	Blocks map[string][]float64 `json:"blocks,omitempty"`
	// FailedIDs are the ids of requests whose answer failed a content check, at most 100, sorted.
	FailedIDs []string `json:"failed_ids,omitempty"`
	// Details holds an example of why per class but ok: the detail of the earliest request that ended so. It is foreign text.
	Details map[Outcome]string `json:"details,omitempty"`
	Steady  SteadyReport       `json:"steady"`
	Machine State              `json:"machine"`
	Server  ServerReport       `json:"server"`
	Client  ClientReport       `json:"client"`
	Stop    StopReport         `json:"stop"`
	// Resident says that the round is a slice of a server that stays up; Slice tells of what, nil elsewhere.
	Resident bool   `json:"resident,omitempty"`
	Slice    *Slice `json:"slice,omitempty"`
	// Reset is how the server's cache was emptied before the round; nil where the server was started for it instead.
	Reset *ResetReport `json:"reset,omitempty"`
	// Answers counts what the metrics leave out or hide; information.
	Answers AnswerReport `json:"answers"`
	// Flags say what limits the use of a round's metrics, e.g. bunched_stream, started_with_failures, not_steady.
	Flags []string `json:"flags,omitempty"`
	// Tokens is the source of token counts used by this round, empty when no request succeeded.
	Tokens TokenSource `json:"tokens_from,omitempty"`
	// OutTokens sums the tokens of successful requests; n/a when unknown.
	OutTokens Value `json:"out_tokens"`
}

// Phases are the instants a round went through. M0 and M1 bound the measured interval [M0, M1).
type Phases struct {
	Start     Instant `json:"start,omitzero"`
	Spawned   Instant `json:"spawned,omitzero"`
	Ready     Instant `json:"ready,omitzero"`
	Warmup    Instant `json:"warmup,omitzero"`
	Met       Instant `json:"met,omitzero"`
	Confirmed Instant `json:"confirmed,omitzero"`
	M0        Instant `json:"m0,omitzero"`
	M1        Instant `json:"m1,omitzero"`
	Drained   Instant `json:"drained,omitzero"`
	Stopped   Instant `json:"stopped,omitzero"`
	Proved    Instant `json:"proved,omitzero"`
}

// Counts is how many requests were scheduled in the measured interval, and how each ended. Scheduled = sum of Classes.
type Counts struct {
	Scheduled int             `json:"scheduled"`
	Classes   map[Outcome]int `json:"classes"`
}

// Failures counts first-attempt failures.
func (c Counts) Failures() int {
	n := 0
	for class, k := range c.Classes {
		if class.Failure() {
			n += k
		}
	}
	return n
}

// Attempted counts the requests that were due and not dropped because their conversation had already failed.
func (c Counts) Attempted() int { return c.Scheduled - c.Classes[ConversationAborted] }

// SteadyReport is how the warm-up went.
type SteadyReport struct {
	// Windows is how many warm-up windows were seen; Joined how many are joined into one by the rule (1 if none).
	Windows int `json:"windows"`
	Joined  int `json:"joined"`
	// Noise is the standard deviation of the noisier signal around its line, as a share of its mean, taken where the rule was
	// not met in time; n/a elsewhere. Unattainable is true when it is too large for the band however many windows are joined.
	Noise        Value `json:"noise,omitzero"`
	Unattainable bool  `json:"unattainable,omitempty"`
	// MetAt and ConfirmedAt number the window (1-based) at which each held; 0 if never.
	MetAt       int `json:"met_at"`
	ConfirmedAt int `json:"confirmed_at"`
	// End is "confirmed", "started_with_failures", "cap" or "cut".
	End string `json:"end"`
	// Signal holds the windows' values, so that the decision can be checked by hand.
	Signal []SteadyWindow `json:"signal,omitempty"`
}

// SteadyWindow is one warm-up window as the rule saw it.
type SteadyWindow struct {
	// Delivered is output tokens delivered / offered, a fraction; in a closed loop, which offers what the server takes, it is
	// tokens delivered / those of the first window that delivered any. Latency is the token-weighted mean inter-token latency
	// in ms (mean end-to-end latency for services that do not stream).
	Delivered Value `json:"delivered"`
	Latency   Value `json:"latency_ms"`
	Requests  int   `json:"requests"`
	Failed    int   `json:"failed"`
}

// ServerReport is what the server said of itself.
type ServerReport struct {
	// CachedShare is cached prompt tokens / prompt tokens as the answers reported, a fraction.
	CachedShare Value `json:"cached_share"`
	LogLines    int   `json:"log_lines"`
	// Exit is the exit code if the server left by itself in mid-round.
	Exit *int `json:"exit,omitempty"`
	// ExitText says how it ended, e.g. "signal: killed".
	ExitText string `json:"exit_text,omitempty"`
	Model    string `json:"model,omitempty"`
}

// StopReport is how the server went away.
type StopReport struct {
	Seconds float64 `json:"seconds"`
	// Signals lists what was sent, e.g. ["SIGTERM", "SIGKILL"].
	Signals []string `json:"signals,omitempty"`
	// Forced counts processes that needed SIGKILL; Leader is true when the start command's own process is among them.
	Forced int  `json:"forced"`
	Leader bool `json:"leader_forced,omitempty"`
	// Slow is true when half the grace or more passed before all was gone.
	Slow    bool     `json:"slow,omitempty"`
	Escaped []string `json:"escaped,omitempty"`
	// PortWait and MemoryWait are how long the port and the memory of the GPUs took to be free after the last process had
	// ended, both counted from then, s.
	PortWait   float64 `json:"port_wait_seconds"`
	MemoryWait Value   `json:"memory_wait_seconds,omitzero"`
	Exit       *int    `json:"exit,omitempty"`
}

// Force says in words who needed SIGKILL, as "2 children needed force"; empty when nobody did.
func (s StopReport) Force() string {
	children := s.Forced
	if s.Leader {
		children--
	}
	switch {
	case s.Forced == 0:
		return ""
	case children == 0:
		return "the server needed force"
	case s.Leader:
		return "the server and " + childrenOf(children) + " needed force"
	default:
		return childrenOf(children) + " needed force"
	}
}

func childrenOf(n int) string {
	if n == 1 {
		return "1 child"
	}
	return strconv.Itoa(n) + " children"
}
