package simserver

// FaultKind names a failure a request can be given. The words after the dash are what a client should call it.
type FaultKind string

// The failures. The four that break off an answer do so after half of its tokens, at least one.
const (
	// FaultHTTP500 answers 500 at once — an HTTP 5xx.
	FaultHTTP500 FaultKind = "http_500"
	// FaultHTTP503 answers 503 at once — an HTTP 5xx.
	FaultHTTP503 FaultKind = "http_503"
	// FaultHTTP429 answers 429 with Retry-After at once — an HTTP 4xx.
	FaultHTTP429 FaultKind = "http_429"
	// FaultStreamError sends an error object where the next token was due, under status 200 — an error in the stream.
	FaultStreamError FaultKind = "stream_error"
	// FaultTruncated ends the body in an orderly way without finish reason and end marker — truncated. An answer that is
	// not streamed is shorter than its announced length.
	FaultTruncated FaultKind = "truncated"
	// FaultCut closes the connection without the last chunk — an unexpected end of file.
	FaultCut FaultKind = "cut"
	// FaultReset resets the connection — a reset.
	FaultReset FaultKind = "reset"
	// FaultEmpty finishes properly without any text — an empty output.
	FaultEmpty FaultKind = "empty"
	// FaultHang never sends a token; comments still flow if Ping is set — a timeout.
	FaultHang FaultKind = "hang"
)

const kindList = "http_500, http_503, http_429, stream_error, truncated, cut, reset, empty, hang"

// known reports whether the kind is in the list.
func (k FaultKind) known() bool {
	return k.status() != 0 || k.breaks() || k == FaultEmpty || k == FaultHang
}

// status is the HTTP status of a request that is refused at once; 0 for the other kinds.
func (k FaultKind) status() int {
	switch k {
	case FaultHTTP500:
		return 500
	case FaultHTTP503:
		return 503
	case FaultHTTP429:
		return 429
	case FaultStreamError, FaultTruncated, FaultCut, FaultReset, FaultEmpty, FaultHang:
	}
	return 0
}

// breaks reports whether the kind breaks off an answer that has begun.
func (k FaultKind) breaks() bool {
	return k == FaultStreamError || k == FaultTruncated || k == FaultCut || k == FaultReset
}

// pick is the fate of request n (from 1); empty for a healthy answer. The same seed and number always meet the same
// fate.
func (t Trouble) pick(seed uint64, n int) FaultKind {
	for i, f := range t.Errors {
		if f.hits(seed+uint64(i), n) {
			return f.Kind
		}
	}
	return ""
}

func (f Fault) hits(seed uint64, n int) bool {
	k := n - f.After
	if k < 1 {
		return false
	}
	if f.Every > 0 {
		return (k-1)%f.Every >= f.Every-max(f.Burst, 1)
	}
	return unit(mix(seed, uint64(k))) < f.Share
}

// hold is how long request n waits before it may queue.
func (t Trouble) hold(n int) int64 {
	if t.Delay.Every == 0 || n%t.Delay.Every != 0 {
		return 0
	}
	return int64(t.Delay.For)
}
