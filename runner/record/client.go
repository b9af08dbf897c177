package record

// ClientReport is the evidence by which the load generator vouches for itself: what it did in the measured interval, by
// its own meters and by known truth, never by a latency of the server. What was not measured is n/a with its reason, also
// in runs that were written before a figure existed.
type ClientReport struct {
	// Address is the literal address dialled; Dialect the API spoken.
	Address string `json:"address"`
	Dialect string `json:"dialect"`
	// PacerLag is pick - sched over measured requests, ms.
	PacerLagP50 Value `json:"pacer_lag_p50_ms"`
	PacerLagP99 Value `json:"pacer_lag_p99_ms"`
	PacerLagMax Value `json:"pacer_lag_max_ms"`
	// Late100 counts measured requests released more than 100 ms late.
	Late100 int `json:"late_100ms"`
	// Written counts measured requests whose last byte the kernel took.
	Written int `json:"written"`
	Dialled int `json:"dialled"`
	Reused  int `json:"reused"`
	// WireSHA256 is over the bytes and offsets of measured requests in schedule order, 64 hex. Equal in all rounds.
	WireSHA256 string `json:"wire_sha256"`
	// CPU is the share of its cores that tailgate itself used in the measured interval, a fraction.
	CPU Value `json:"cpu"`
	// Span is the time from the first to the last released request / the same as planned, a fraction around 1.
	Span Value `json:"span"`
	// GCPause is the sum of stop-the-world pauses of the garbage collector in the measured interval, ms; GCCount how often
	// it ran.
	GCPause Value `json:"gc_pause_ms"`
	GCCount Value `json:"gc_count,omitzero"`
	// CPUMax is the CPU share of the busiest second, CPUHeld the share that was reached in each of some five seconds in a
	// row. N/a for intervals shorter than one, or five, seconds.
	CPUMax  Value `json:"cpu_max_1s,omitzero"`
	CPUHeld Value `json:"cpu_held_5s,omitzero"`
	// SchedP99 is the 99th percentile of how long goroutines that could run waited for a thread, ms: the lower edge of its
	// bucket, so at least that long.
	SchedP99 Value `json:"sched_latency_p99_ms,omitzero"`
	// SendRate is the largest deviation of the achieved from the planned send rate over any 10 s, independent requests
	// only, a fraction: 0.01 is one percent too fast or too slow. N/a for intervals shorter than that.
	SendRate Value        `json:"send_rate_off,omitzero"`
	Sent     SentCount    `json:"sent,omitzero"`
	Canary   CanaryReport `json:"canary,omitzero"`
	// Floor is what the load generator found of its own error just before the round.
	Floor Floor      `json:"floor,omitzero"`
	Host  ClientHost `json:"host,omitzero"`
}

// SentCount holds the same count from four sides, over the measured interval with its tail: what went out can be neither
// lost nor sent twice.
type SentCount struct {
	// Attempts counts requests that the client began to write, by its own counter; Sampled the same by the samples kept.
	Attempts Value `json:"attempts"`
	Sampled  Value `json:"sampled"`
	// Written counts samples whose last byte the kernel took; Broken those among them, and those begun only, whose
	// connection failed before an answer, so that the server may not have seen them.
	Written Value `json:"written"`
	Broken  Value `json:"broken"`
	// Seen counts the requests that the server says it received; n/a where it does not tell.
	Seen Value `json:"server_seen"`
}

// CanaryReport is what a stream of events with known stamps, from a second process, showed of our reading: error is our
// stamp of an event minus the one it carries, which was taken just before it was written. Ms.
type CanaryReport struct {
	// Events counts the events of the measured interval.
	Events int   `json:"events"`
	P50    Value `json:"error_p50_ms"`
	P99    Value `json:"error_p99_ms"`
	Max    Value `json:"error_max_ms"`
}

// Floor is the error of the load generator against a server of known truth, just before a round: nothing smaller can be
// told from its figures. Ms; positive is late.
type Floor struct {
	// Streams is how many streams ran at once, Seconds for how long.
	Streams int     `json:"streams"`
	Seconds float64 `json:"seconds"`
	// TTFT is the error of the time to the first token, Gap that of the gaps between tokens, both without sign.
	TTFTP50 Value `json:"ttft_error_p50_ms"`
	TTFTP99 Value `json:"ttft_error_p99_ms"`
	GapP50  Value `json:"gap_error_p50_ms"`
	GapP99  Value `json:"gap_error_p99_ms"`
}

// NoFloor is a floor that was not measured, for one reason.
func NoFloor(reason string) Floor {
	na := NA(reason)
	return Floor{TTFTP50: na, TTFTP99: na, GapP50: na, GapP99: na}
}

// NoCanary is a canary that was not heard, for one reason.
func NoCanary(reason string) CanaryReport {
	na := NA(reason)
	return CanaryReport{P50: na, P99: na, Max: na}
}

// ClientHost is where and as what the load generator ran. Texts are empty where they could not be read.
type ClientHost struct {
	// Cores is the set the process may run on, as a list of ranges: "0-3,8". Count is how many of them it can use at once:
	// a quota of the container may allow fewer.
	Cores string `json:"cores,omitempty"`
	Count int    `json:"core_count,omitempty"`
	// Governor is the CPU frequency governor of those cores, one word when they agree.
	Governor string `json:"governor,omitempty"`
	// SHA256 is over the program file that ran, 64 hex.
	SHA256 string `json:"binary_sha256,omitempty"`
	// Pacing says by what right the pacer sleeps and wakes, e.g. "real-time priority 1, timer slack 1 ns".
	Pacing string `json:"pacing,omitempty"`
	// RTT is the shortest time in which the server took a connection, ms: a round trip, and waking up on both sides.
	RTT Value `json:"connect_min_ms"`
}

// ClientFile is client.json: the report with the limits it was made under.
type ClientFile struct {
	ClientReport
	Limits Limits `json:"limits"`
	Load   Load   `json:"load"`
}
