package record

// How the servers of a session live: the values of [Declared.Mode].
const (
	// ModeRestart starts a fresh server for each round.
	ModeRestart = "restart"
	// ModeResident keeps a server of each arm up; rounds are slices that alternate between them.
	ModeResident = "resident"
)

// ResetOutcome is what came of a cache reset.
type ResetOutcome string

// The outcomes of a cache reset.
const (
	// ResetVerified: the server answered as it was declared to.
	ResetVerified ResetOutcome = "verified"
	// ResetUnverified: status 200 and an empty body, which old servers give whether they obeyed or not.
	ResetUnverified ResetOutcome = "unverified"
	// ResetFailed: the server refused each time it was asked.
	ResetFailed ResetOutcome = "failed"
	// ResetUnavailable: the server has no such call, or did not answer it.
	ResetUnavailable ResetOutcome = "unavailable"
	// ResetNone: none was asked for, as declared.
	ResetNone ResetOutcome = "none"
)

// ResetReport is how a server's cache was emptied before a round.
type ResetReport struct {
	// Tries counts the calls, 0 to 6; Status is that of the last answer, 0 for none.
	Tries   int          `json:"tries"`
	Status  int          `json:"status,omitempty"`
	Outcome ResetOutcome `json:"outcome"`
	// Text is the last answer or why there was none: foreign text, one line, at most 200 characters.
	Text string `json:"text,omitempty"`
	// HitRate is cached prompt tokens / prompt tokens over the first warm-up window after the reset, a fraction; Possible the
	// greatest share that a cache which began empty could serve of that window. Each is n/a with its reason where it is not known.
	HitRate  Value `json:"hit_rate"`
	Possible Value `json:"possible_share"`
}

// ResetPlan is the declared cache reset.
type ResetPlan struct {
	// None says that the cache is deliberately left as it is; all other fields are empty then.
	None   bool   `json:"none,omitempty"`
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	// Status and JSON are the answer that verifies it: the status code, and members of its JSON object with their values as
	// text. JSON is empty where the status is all that is asked for.
	Status int               `json:"status,omitempty"`
	JSON   map[string]string `json:"json,omitempty"`
}

// ResidentPlan is what was declared of servers that stay up.
type ResidentPlan struct {
	// Shared says that both servers live on one GPU, or on one host without a GPU.
	Shared bool `json:"shared,omitempty"`
	// Sets are two sets of GPUs, one server each; the arms swap them at every restart, base having the first to begin with.
	Sets [][]string `json:"gpu_sets,omitempty"`
	// Restarts are the counts of pairs after which both servers are started afresh, rising.
	Restarts []int `json:"restart_after_pairs,omitempty"`
}

// Slice is what a round was part of whose server stays up. The zero value is a round of its own server.
type Slice struct {
	// Life numbers the starts of both servers, from 1; 0 for servers that tailgate did not start.
	Life int `json:"life,omitempty"`
	// GPUs is the set the round's server had, Idle that of the other; empty where none were set.
	GPUs []string `json:"gpus,omitempty"`
	Idle []string `json:"idle_gpus,omitempty"`
	// IdleOpen counts requests of ours that were open on the other server when the round began.
	IdleOpen int `json:"idle_open"`
}
