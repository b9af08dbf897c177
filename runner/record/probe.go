package record

// ProbeRequests is how many requests an arm is asked before its first round.
const ProbeRequests = 4

// ProbeReport is what an arm made of the requests that come before its first round. They enter no sample and no count; what
// they are for is to notice, before anything is measured, that the service is not asked or not read in the right way.
type ProbeReport struct {
	// Sent counts the requests that were sent, Failed those of them whose outcome was not ok; Failure is the class and detail
	// of the first that failed, empty when none did.
	Sent    int    `json:"sent"`
	Failed  int    `json:"failed"`
	Failure string `json:"failure,omitempty"`
	// Checks are in a fixed order, each name once.
	Checks []ProbeCheck `json:"checks"`
	// Model is the id that the answers gave, cleaned; empty when they gave none. Whether base and head gave the same one is
	// for the caller to compare.
	Model string `json:"model,omitempty"`
	// TokensFrom is the source of the counts of output tokens; base and head must have the same.
	TokensFrom TokenSource `json:"tokens_from,omitempty"`
	// Looks is a hint at another dialect that the service may speak; empty when no answer shows one.
	Looks string `json:"looks,omitempty"`
	// Samples are the requests, of phase probe: what they cost the server stands there, so that its own counters can be
	// accounted for.
	Samples []Sample `json:"samples,omitempty"`
}

// The names of the checks of a [ProbeReport].
const (
	// ProbeAnswers: every request was ok.
	ProbeAnswers = "answers"
	// ProbeStreams: answers came as a stream where one was asked for, and only there.
	ProbeStreams = "streams"
	// ProbeUsage: the server counted the tokens, each answer from the same source.
	ProbeUsage = "usage"
	// ProbePerEvent: the tokens of each event came, where they were asked for.
	ProbePerEvent = "per_event_tokens"
	// ProbeCap: no answer had more tokens than its request allowed.
	ProbeCap = "cap"
	// ProbeLength: answers whose length was forced have exactly that length.
	ProbeLength = "length"
	// ProbeModel: all answers name one model.
	ProbeModel = "model"
)

// ProbeCheck is one thing that was looked at in the answers.
type ProbeCheck struct {
	Name string `json:"name"`
	// OK is false both for a check that failed and for one that could not be made; then NA says why.
	OK bool   `json:"ok"`
	NA string `json:"na,omitempty"`
	// Detail says what is wrong; never empty for a check that failed.
	Detail string `json:"detail,omitempty"`
}

// Wrong is the first check that failed; ok is false when none did. A check that could not be made has not failed.
func (r *ProbeReport) Wrong() (c ProbeCheck, ok bool) {
	for _, c := range r.Checks {
		if !c.OK && c.NA == "" {
			return c, true
		}
	}
	return ProbeCheck{}, false
}
