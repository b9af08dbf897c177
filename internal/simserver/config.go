package simserver

// Config is the whole behaviour of one simulated server, one JSON object. A key that is left out keeps the value that
// [Default] gives; an unknown key is refused. Durations are written as Go writes them ("5ms", "0.2ms").
type Config struct {
	// Model is the name that /v1/models lists. Answers carry the name the request asked for, or this one.
	Model string `json:"model"`
	// Revision changes nothing but the start-up log line. Two commits that differ in it are the same server.
	Revision string `json:"revision,omitzero"`
	// Seed fixes the words of the answers, their natural lengths and which requests a Share picks.
	Seed uint64 `json:"seed,omitzero"`

	Engine
	Output
	Trouble
	Life

	// TruthLog is a file to which one JSON line per inference request is appended (see truth.go). Empty: none.
	TruthLog string `json:"truth_log,omitzero"`
	// Plain replaces all of the above but Model and DefaultTokens by a server without a model of timing: the cheapest
	// answers whose truth is known. Nil: not.
	Plain *Plain `json:"plain,omitempty"`
}

// Plain is a server whose only virtues are that it knows exactly when it wrote what, and that it costs little: what an
// instrument is measured against. Every answer has as many events as its request's cap says, each written by itself with
// the reading of CLOCK_MONOTONIC just before as its text. Request headers X-Truth-First and X-Truth-Gap replace the
// durations below for one request; X-Truth-Run names the run it belongs to, see [PlainTakePath]. Prompt tokens are a
// quarter of the body's bytes: nothing is tokenised.
type Plain struct {
	// First is the time from a request's last byte to the first event of a stream.
	First Duration `json:"first"`
	// Gap is the time between events. 0: each is written as soon as the one before was. Answers that are not streamed
	// come at once.
	Gap Duration `json:"gap"`
	// Keep is the run to which requests belong that name none. Empty: they are counted, and their stamps are not kept.
	Keep string `json:"keep,omitzero"`
}

// Engine is the timing model. Prefill runs in parallel lanes, one request each; decoding runs in steps that every
// running sequence shares, and each step gives each of them one token. A request holds a place in the batch from the
// start of its prefill to its last token; others wait in arrival order.
type Engine struct {
	// Lanes is how many prefills run at once, at least 1.
	Lanes int `json:"lanes"`
	// PrefillPerToken is the time for one prompt token that the prefix cache does not hold. 0 is instant.
	PrefillPerToken Duration `json:"prefill_per_token"`
	// DecodeBase is the time of a decode step without its sequences. 0 is allowed: with DecodePerSeq 0 too, all tokens
	// are due the moment prefill ends.
	DecodeBase Duration `json:"decode_base"`
	// DecodePerSeq is what each sequence in the step adds to it.
	DecodePerSeq Duration `json:"decode_per_seq"`
	// BatchLimit is how many requests are admitted at once, prefilling ones included, at least 1.
	BatchLimit int `json:"batch_limit"`

	// BlockTokens is the length of a prefix-cache block in tokens, at least 1.
	BlockTokens int `json:"block_tokens"`
	// CacheBlocks is the capacity of the prefix cache; the least recently used block leaves first. 0 turns it off.
	CacheBlocks int `json:"cache_blocks,omitzero"`
	// KVTokens is the size of the KV cache that the gauge vllm:kv_cache_usage_perc divides by. It limits nothing.
	KVTokens int `json:"kv_tokens"`
	// TemplateTokens are added in front of every prompt, as a chat template would; all requests share them.
	TemplateTokens int `json:"template_tokens,omitzero"`

	// Cold makes the first seconds slow.
	Cold Cold `json:"cold,omitzero"`
	// DriftPercentPerMinute lengthens every duration linearly with time: 5 makes the server 5 % slower after a minute,
	// 10 % after two. Negative speeds it up; the factor never falls below 0.01.
	DriftPercentPerMinute float64 `json:"drift_percent_per_minute,omitzero"`
	// Stall freezes the engine now and then.
	Stall Stall `json:"stall,omitzero"`
	// SpeedByStart are factors on every duration, by how many servers were started before with the same state folder:
	// the first start takes the first, and after the last the list begins again. 1.4 takes 1.4 times as long. Empty: 1.
	SpeedByStart []float64 `json:"speed_by_start,omitzero"`
	// StateEnv names the environment variable that holds the state folder of SpeedByStart.
	StateEnv string `json:"state_env"`
}

// Cold lengthens every duration by a factor that starts at Factor when the server can infer and decays to 1 by
// 1 + (Factor-1)·exp(-t/Decay).
type Cold struct {
	// Factor is the slowness at the first instant; 0 and 1 mean none.
	Factor float64 `json:"factor"`
	// Decay is the time in which the excess falls to 1/e, above 0 when Factor is set.
	Decay Duration `json:"decay"`
}

// Stall freezes prefill and decoding: the k-th freeze begins k·Every after the server can infer and lasts For.
type Stall struct {
	// Every is the period. 0 means no stalls.
	Every Duration `json:"every"`
	// For is the length of a freeze, below Every unless Times is 1.
	For Duration `json:"for"`
	// Times is how many freezes there are; 0 means without end.
	Times int `json:"times,omitzero"`
}

// Output says how many tokens an answer has and how they are cut into events and writes.
type Output struct {
	// DefaultTokens is the answer's length where the request sets no limit, at least 1.
	DefaultTokens int `json:"default_tokens"`
	// NaturalTokens is where an answer would stop by itself (finish reason "stop"). Zero: never; every answer is as long
	// as its limit allows ("length"). A request with ignore_eos ignores it.
	NaturalTokens Span `json:"natural_tokens,omitzero"`
	// TokensPerEvent is how many tokens share one event of a stream, at least 1. The event is due with its last token.
	TokensPerEvent int `json:"tokens_per_event"`
	// EventsPerWrite holds events back until that many are due and writes them at once, as a buffering proxy does.
	EventsPerWrite int `json:"events_per_write"`
	// Ping writes an SSE comment whenever a stream was silent for this long. 0: never.
	Ping Duration `json:"ping,omitzero"`
}

// Span is an inclusive range from which a value is drawn by the seed and the prompt.
type Span struct {
	// Min is the smallest value, at least 1 when Max is set.
	Min int `json:"min"`
	// Max is the largest value. 0 turns the span off.
	Max int `json:"max"`
}

// Trouble is what goes wrong on purpose. Requests are numbered from 1 in the order in which their last byte was read;
// only inference requests count.
type Trouble struct {
	// Errors are tried in order; the first whose turn it is decides the request's fate.
	Errors []Fault `json:"errors,omitzero"`
	// Delay holds every Nth request back before it may queue.
	Delay Delay `json:"delay,omitzero"`
}

// Fault is one kind of failure and whom it hits. A request that two rules would hit gets the first one's.
type Fault struct {
	// Kind is what happens.
	Kind FaultKind `json:"kind"`
	// Every hits the last Burst of every so many requests: {every: 10, burst: 3} fails 8, 9, 10, 18, 19, 20 …, exactly
	// 30 %. 0 means by Share.
	Every int `json:"every,omitzero"`
	// Burst is how many of Every; 0 means 1.
	Burst int `json:"burst,omitzero"`
	// Share hits this share of requests, 0 to 1, chosen by seed and request number.
	Share float64 `json:"share,omitzero"`
	// After spares the first so many requests; Every counts from there.
	After int `json:"after,omitzero"`
}

// Delay holds requests back before they may queue.
type Delay struct {
	// Every is which requests: the Nth, 2Nth … 0 means none.
	Every int `json:"every"`
	// For is how long.
	For Duration `json:"for"`
}

// Life is how the process starts, stays and ends.
type Life struct {
	// Start says when which part begins to work.
	Start Start `json:"start,omitzero"`
	// RefuseStart makes the server print lines and exit instead of listening.
	RefuseStart *Refusal `json:"refuse_start,omitzero"`
	// Exit makes it crash: connections are closed where they are and [Serve] returns an [ExitError].
	Exit *Crash `json:"exit,omitzero"`
	// IgnoreSIGTERM makes [Serve] go on after its context is cancelled.
	IgnoreSIGTERM bool `json:"ignore_sigterm,omitzero"`
	// StopAfter is how long the port stays open after the context is cancelled.
	StopAfter Duration `json:"stop_after,omitzero"`
	// Drain is how long running requests may take after that before their connections are closed.
	Drain Duration `json:"drain"`
	// IdleTimeout closes a connection that carries no request for so long. 0: never.
	IdleTimeout Duration `json:"idle_timeout,omitzero"`
	// Children are processes started beside the server, for tests that must see them gone.
	Children Children `json:"children,omitzero"`
}

// Start gives instants counted from the call of [Serve]. The model list answers as soon as the port is open.
type Start struct {
	// ListenAfter is when the port opens.
	ListenAfter Duration `json:"listen_after,omitzero"`
	// HealthAfter is when /health turns from 503 to 200.
	HealthAfter Duration `json:"health_after,omitzero"`
	// InferenceAfter is when inference works; before, requests fail with InferenceFailure. The engine's time (cold start,
	// drift, stalls) begins then.
	InferenceAfter Duration `json:"inference_after,omitzero"`
	// InferenceFailure is how; empty means http_503.
	InferenceFailure FaultKind `json:"inference_failure,omitzero"`
}

// Refusal is a start that fails.
type Refusal struct {
	// After is how long the server pretends to load.
	After Duration `json:"after,omitzero"`
	// Log are the lines it prints first.
	Log []string `json:"log,omitzero"`
	// Code is the exit code, 1 to 255.
	Code int `json:"code"`
}

// Crash ends the process while it serves, by whichever of its two limits comes first.
type Crash struct {
	// AfterRequests is the number of inference requests answered before. 0: no such limit.
	AfterRequests int `json:"after_requests,omitzero"`
	// After is the time since the port opened. 0: no such limit.
	After Duration `json:"after,omitzero"`
	// Log are the lines printed on the way out.
	Log []string `json:"log,omitzero"`
	// Code is the exit code, 0 to 255.
	Code int `json:"code"`
}

// Children are processes started through [Options.Spawn].
type Children struct {
	// Count is how many; 0 means none.
	Count int `json:"count"`
	// IgnoreSIGTERM makes them deaf to SIGTERM.
	IgnoreSIGTERM bool `json:"ignore_sigterm,omitzero"`
	// OwnSession starts each in a session of its own, out of the server's process group.
	OwnSession bool `json:"own_session,omitzero"`
}
