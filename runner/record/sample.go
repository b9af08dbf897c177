package record

import "time"

// SampleVersion is the v of each line of samples.jsonl.
const SampleVersion = 1

// Outcome is how a scheduled request ended: exactly one class each.
type Outcome string

// The outcome classes. All but OK, ConversationAborted, ClientLimit, Unsent and Cut are first-attempt failures.
const (
	OK                  Outcome = "ok"
	Dial                Outcome = "dial"
	TLS                 Outcome = "tls"
	Write               Outcome = "write"
	ConnStale           Outcome = "conn_stale"
	ConnReset           Outcome = "conn_reset"
	UnexpectedEOF       Outcome = "unexpected_eof"
	Truncated           Outcome = "truncated"
	HTTP429             Outcome = "http_429"
	HTTP503             Outcome = "http_503"
	HTTP4xx             Outcome = "http_4xx"
	HTTP5xx             Outcome = "http_5xx"
	Redirect            Outcome = "redirect"
	StreamError         Outcome = "stream_error"
	Malformed           Outcome = "malformed"
	EmptyOutput         Outcome = "empty_output"
	Assertion           Outcome = "assertion"
	Timeout             Outcome = "timeout"
	Unfinished          Outcome = "unfinished"
	ConversationAborted Outcome = "conversation_aborted"
	ClientLimit         Outcome = "client_limit"
	Unsent              Outcome = "unsent"
	// Cut is "cancelled": the user stopped the session; the round is partial and never judged.
	Cut Outcome = "cancelled"
)

// Outcomes lists every class, in the order reports print them.
func Outcomes() []Outcome {
	return []Outcome{
		OK, Dial, TLS, Write, ConnStale, ConnReset, UnexpectedEOF, Truncated, HTTP429, HTTP503, HTTP4xx, HTTP5xx, Redirect,
		StreamError, Malformed, EmptyOutput, Assertion, Timeout, Unfinished, ConversationAborted, ClientLimit, Unsent, Cut,
	}
}

// Failure reports whether the class is a first-attempt failure of the service.
func (o Outcome) Failure() bool {
	switch o {
	case OK, ConversationAborted, ClientLimit, Unsent, Cut:
		return false
	default:
		return true
	}
}

// Phase says which part of a round a request belongs to. Only measure counts.
type Phase string

// The phases of requests. Those of phase probe came before the round and stand in [ProbeReport] only.
const (
	PhaseProbe   Phase = "probe"
	PhaseWarmup  Phase = "warmup"
	PhaseMeasure Phase = "measure"
	PhaseTail    Phase = "tail"
)

// TokenSource says where a token count came from.
type TokenSource string

// The sources of token counts, best first. Estimated counts are shown, never gated.
const (
	FromUsage      TokenSource = "usage"
	FromEventUsage TokenSource = "event_usage"
	FromLogprobs   TokenSource = "logprobs"
	Estimated      TokenSource = "estimated"
)

// Sample is one scheduled request: a line of samples.jsonl, written when it ended. Instants that were not reached and
// counts that are unknown are absent.
type Sample struct {
	V int `json:"v"`
	// Seq numbers the requests of a round in order of schedule, from 0, across phases.
	Seq   int    `json:"seq"`
	ID    string `json:"id"`
	Conv  string `json:"conv"`
	Turn  int    `json:"turn"`
	Phase Phase  `json:"phase"`

	Sched    Instant `json:"sched,omitzero"`
	Pick     Instant `json:"pick,omitzero"`
	Slot     Instant `json:"slot,omitzero"`
	Conn     Instant `json:"conn,omitzero"`
	Wrote    Instant `json:"wrote,omitzero"`
	Header   Instant `json:"header,omitzero"`
	First    Instant `json:"first,omitzero"`
	FirstOut Instant `json:"first_out,omitzero"`
	Last     Instant `json:"last,omitzero"`
	End      Instant `json:"end,omitzero"`

	// Attempts counts how often writing it began: 0 or 1. It lives in memory only, to be held against the client's counter.
	Attempts int `json:"-"`

	Reused bool  `json:"reused,omitempty"`
	DialNS int64 `json:"dial_ns,omitempty"`
	TLSNS  int64 `json:"tls_ns,omitempty"`

	Class     Outcome  `json:"class"`
	Detail    string   `json:"detail,omitempty"`
	Status    int      `json:"status,omitempty"`
	Flags     []string `json:"flags,omitempty"`
	RequestID string   `json:"request_id,omitempty"`

	InPlanned  int `json:"in_planned"`
	OutPlanned int `json:"out_planned"`
	// NIn, NCached, NOut and NReasoning are nil when the server did not say.
	NIn        *int        `json:"n_in,omitempty"`
	NCached    *int        `json:"n_cached,omitempty"`
	NOut       *int        `json:"n_out,omitempty"`
	NReasoning *int        `json:"n_reasoning,omitempty"`
	TokensFrom TokenSource `json:"tokens_from,omitempty"`
	Finish     string      `json:"finish,omitempty"`

	Events        int   `json:"events,omitempty"`
	PayloadEvents int   `json:"payload_events,omitempty"`
	Reads         int   `json:"reads,omitempty"`
	BytesIn       int64 `json:"bytes_in,omitempty"`
	BytesOut      int64 `json:"bytes_out,omitempty"`
	BadEvents     int   `json:"bad_events,omitempty"`
	BadUTF8       int   `json:"bad_utf8,omitempty"`
	UnknownEvents int   `json:"unknown_events,omitempty"`
	TrailingBytes int64 `json:"trailing_bytes,omitempty"`

	// BodySHA and TextSHA are the first 16 hex of SHA-256 over the request body and the generated text.
	BodySHA    string            `json:"body_sha,omitempty"`
	TextSHA    string            `json:"text_sha,omitempty"`
	Assertions []AssertionResult `json:"assertions,omitempty"`
	// Server is what the server said of its own times; the zero value when it said nothing. Never part of a latency of ours.
	Server ServerTimes `json:"server,omitzero"`
}

// ServerTimes are durations that the server reported in its answer, ns, as its own clock saw them. Each is nil when the
// dialect has no such field or the answer lacked it; 0 is a duration of zero.
type ServerTimes struct {
	// Queue is the time before work on the request began.
	Queue *int64 `json:"queue_ns,omitempty"`
	// Prompt is the time spent on the prompt (prefill), Decode on the output tokens.
	Prompt *int64 `json:"prompt_ns,omitempty"`
	Decode *int64 `json:"decode_ns,omitempty"`
	// Load is the time to load the model; a positive one in mid-round means that the model had been unloaded.
	Load *int64 `json:"load_ns,omitempty"`
}

// reloadTime is how long a model may take to load before the request is taken for one that loaded it.
const reloadTime = 100 * time.Millisecond

// reloaded is the flag of a round that met such a request.
const reloaded = "model_reloaded"

// Reloaded reports whether the server says that it loaded the model for this request, in more than 100 ms: what was measured
// then is not a warm server. In the measured interval it is the round's flag model_reloaded.
func (s *Sample) Reloaded() bool {
	return s.Server.Load != nil && *s.Server.Load > int64(reloadTime)
}

// AssertionResult is one content check of one answer.
type AssertionResult struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// Stream is the timeline of one answer: a line of events.jsonl.gz, where it has another form (see MarshalJSON). It lists
// payload events only.
type Stream struct {
	Seq int
	// T holds, per payload event, nanoseconds since the previous one; T[0] is 0 and stands for the sample's First.
	T []int64
	// N holds tokens per event; nil when unknown.
	N []int
	// R holds read numbers as deltas: 0 means the event was completed by the same read as the one before. Nil when each
	// event had a read of its own.
	R []int
}
