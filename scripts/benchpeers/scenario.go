package main

import (
	"fmt"
	"time"
)

// scenario is one load, given to each client in its own words.
type scenario struct {
	name, text string
	// streams is how many requests are open at a time; 0 means an open loop at rate.
	streams int
	// rate is requests per second of an open loop with constant gaps.
	rate int
	// requests is how many are sent, tokens how many events each answer has; 1 token is asked for without a stream.
	requests, tokens int
	// step is the time between two events, first that before the first.
	step, first time.Duration
	// plain asks for small answers in one piece, as fast as the client can.
	plain bool
	// length bounds a plain scenario.
	length time.Duration
}

func allScenarios() []scenario {
	const ms = time.Millisecond
	return []scenario{
		{name: "closed-100", text: "100 closed streams, first event at 50 ms, then one each 10 ms, 100 events", streams: 100, requests: 1000, tokens: 100, step: 10 * ms, first: 50 * ms},
		{name: "closed-500", text: "500 closed streams, first event at 50 ms, then one each 20 ms, 50 events", streams: 500, requests: 3000, tokens: 50, step: 20 * ms, first: 50 * ms},
		{name: "open-90", text: "open loop, 90 requests a second, events as in closed-100", rate: 90, requests: 1800, tokens: 100, step: 10 * ms, first: 50 * ms},
		{name: "plain-32", text: "32 connections, small answers in one piece, as fast as possible", streams: 32, tokens: 1, plain: true, length: 10 * time.Second},
	}
}

// kept is the name under which the server of known truth keeps the requests of a client, which knows nothing of it.
const kept = "bench"

// server is the configuration of the server of known truth: streams that are timed one by one, so that what one waits for is
// never another. Plain answers come from the simulated engine, where nothing queues.
func (s scenario) server() string {
	if s.plain {
		return `{"model":"tiny","lanes":4096,"prefill_per_token":"0s","decode_base":"0s","decode_per_seq":"0s","batch_limit":4096,"default_tokens":1}`
	}
	return fmt.Sprintf(`{"model":"tiny","default_tokens":%d,"plain":{"first":%q,"gap":%q,"keep":%q}}`, s.tokens, s.first, s.step, kept)
}

// seconds is about how long the load lasts.
func (s scenario) seconds() time.Duration {
	switch {
	case s.plain:
		return s.length
	case s.rate > 0:
		return time.Duration(s.requests) * time.Second / time.Duration(s.rate)
	default:
		each := s.first + time.Duration(s.tokens-1)*s.step
		return time.Duration(s.requests/s.streams) * each
	}
}
