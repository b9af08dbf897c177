package workload

// Assertion is a content check of an answer, run after the answer has ended. Exactly one field is set.
type Assertion struct {
	// NonEmpty is always on; naming it does no harm.
	NonEmpty bool `json:"non_empty,omitempty"`
	// Finish lists the finish reasons that are right.
	Finish []string `json:"finish,omitempty"`
	// MinTokens and MaxTokens bound the output length, both included.
	MinTokens *int `json:"min_tokens,omitempty"`
	MaxTokens *int `json:"max_tokens,omitempty"`
	// Contains must occur in the text; Regexp (RE2) must match somewhere in it.
	Contains string `json:"contains,omitempty"`
	Regexp   string `json:"regexp,omitempty"`
	// JSON demands that the text is one JSON value.
	JSON    bool     `json:"json,omitempty"`
	Pointer *Pointer `json:"pointer,omitempty"`
	// EqualsRecorded compares the text with the turn's recorded reply.
	EqualsRecorded bool `json:"equals_recorded,omitempty"`
	// Status is the HTTP status that is right.
	Status int `json:"status,omitempty"`
}

// Pointer looks at one value of a JSON answer. At least one check is set.
type Pointer struct {
	// Path is a JSON Pointer (RFC 6901); empty is the whole value.
	Path string `json:"path"`
	// Equals is the text of a JSON value.
	Equals string `json:"equals,omitempty"`
	Exists *bool  `json:"exists,omitempty"`
	// Type is object, array, string, number, boolean or null.
	Type string `json:"type,omitempty"`
	// Shape is the length of an array and of the arrays in it.
	Shape []int `json:"shape,omitempty"`
	// Min and Max are decimal strings, both included.
	Min string `json:"min,omitempty"`
	Max string `json:"max,omitempty"`
}

// Egress is something the measured service itself calls, and what answers.
type Egress struct {
	// Name becomes the variable TAILGATE_EGRESS_<NAME>: letters, digits and underscores.
	Name  string      `json:"name"`
	Match EgressMatch `json:"match"`
	// Mode is "mock", "allow" or "deny"; there is no default.
	Mode    string   `json:"mode"`
	Replies []string `json:"replies,omitempty"`
	// Delay is the mock's answer time, ns.
	Delay int64 `json:"delay,omitempty"`
}

// EgressMatch selects calls; an empty field matches all.
type EgressMatch struct {
	Host string `json:"host,omitempty"`
	Path string `json:"path,omitempty"`
}
