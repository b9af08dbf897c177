package workload

import "github.com/tailgate-ci/tailgate/runner/record"

// Format is the version of the native format this package writes. A reader refuses a greater one.
const Format = 1

// Manifest is manifest.json: what a workload is, where it came from and how its numbers are meant. Durations are int64
// nanoseconds, shares are decimal strings, and there is no float outside Fidelity, so that the digest needs no rule for
// writing floats.
type Manifest struct {
	// Format is the format's version, [Format] when written by this package.
	Format int `json:"format"`
	// Name and Version identify the workload for people; Version is 1 or more and raised by hand.
	Name    string `json:"name"`
	Version int    `json:"version"`
	Source  Source `json:"source"`
	// Seed is a decimal uint64, the only seed; all others are derived from it.
	Seed      string    `json:"seed"`
	Tokenizer Tokenizer `json:"tokenizer,omitzero"`
	// BlockSize is the length of a hashed prompt block in tokens; 0 when no turn has hash ids.
	BlockSize int `json:"block_size,omitempty"`
	// HashScope says where equal ids mean equal text; empty when no turn has hash ids.
	HashScope Scope `json:"hash_scope,omitempty"`
	// Dialect is the API the turns were made for, e.g. openai-chat (the default when empty).
	Dialect string `json:"dialect,omitempty"`
	Params  Params `json:"params,omitzero"`
	// System is the system message that starts every prompt; empty for none.
	System   string   `json:"system,omitempty"`
	Arrivals Arrivals `json:"arrivals"`
	// Output is the default of every turn.
	Output     OutputPolicy `json:"output"`
	Assertions []Assertion  `json:"assertions,omitempty"`
	Egress     []Egress     `json:"egress,omitempty"`
	// Counts are checked against the turns when a workload is read.
	Counts Counts `json:"counts"`

	// The rest is derived or for people, and no part of the digest.

	Fidelity    []record.Fidelity `json:"fidelity,omitempty"`
	Description string            `json:"description,omitempty"`
	// Created is an RFC 3339 time or empty.
	Created string `json:"created,omitempty"`
	// Digest is "sha256:" and 64 hex.
	Digest string `json:"digest,omitempty"`
}

// Scope says where equal hash ids mean equal text.
type Scope string

// The scopes of hash ids.
const (
	ScopeGlobal       Scope = "global"
	ScopeConversation Scope = "conversation"
)

// Source is where a workload came from.
type Source struct {
	// Importer is the importer's name, "synthetic", or empty for a workload written by hand.
	Importer        string       `json:"importer,omitempty"`
	ImporterVersion int          `json:"importer_version,omitempty"`
	Files           []SourceFile `json:"files,omitempty"`
	Licence         string       `json:"licence,omitempty"`
	Attribution     string       `json:"attribution,omitempty"`
	// Options holds every option given to the build.
	Options map[string]string `json:"options,omitempty"`
}

// SourceFile is one file that was imported.
type SourceFile struct {
	// Name is the base name; SHA256 (64 hex) and Bytes are of the file as it was, compressed or not.
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// Tokenizer says in whose tokens lengths are counted. Without a verified one, lengths are words.
type Tokenizer struct {
	Name   string `json:"name,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Verified is true once the prompts' lengths were checked against a server.
	Verified bool `json:"verified,omitempty"`
}

// Params are sampling parameters of a request. An absent one is not sent, except that the client has defaults for Seed and
// Temperature. Decimals are strings, e.g. "0.7".
type Params struct {
	Temperature string `json:"temperature,omitempty"`
	TopP        string `json:"top_p,omitempty"`
	Seed        *int64 `json:"seed,omitempty"`
	Stream      *bool  `json:"stream,omitempty"`
}

// over returns p with the values that are missing taken from base.
func (p Params) over(base Params) Params {
	if p.Temperature == "" {
		p.Temperature = base.Temperature
	}
	if p.TopP == "" {
		p.TopP = base.TopP
	}
	if p.Seed == nil {
		p.Seed = base.Seed
	}
	if p.Stream == nil {
		p.Stream = base.Stream
	}
	return p
}

// Arrivals says where the offsets came from and what was done to them.
type Arrivals struct {
	// Kind is "trace", "generated" or "none".
	Kind string `json:"kind"`
	// SpanNS is the workload's length: no measured interval may be longer. All offsets lie in [0, SpanNS).
	SpanNS int64 `json:"span_ns"`
	// QuantumNS is the tick of the source's time stamps when they were found quantised, else 0.
	QuantumNS int64 `json:"quantum_ns,omitempty"`
	// Dequantised names the rule that spread arrivals inside a tick ("uniform"); empty for literal stamps.
	Dequantised string `json:"dequantised,omitempty"`
	// Scale is the factor on the arrival rate as a decimal string; empty for 1. Method says how it was reached: "thin" or
	// "stretch".
	Scale  string `json:"scale,omitempty"`
	Method string `json:"method,omitempty"`
}

// OutputPolicy is the default output length.
type OutputPolicy struct {
	Mode OutputMode `json:"mode"`
	// DefaultTokens is planned for turns that set none; 0 when every turn does.
	DefaultTokens int `json:"default_tokens,omitempty"`
}

// OutputMode says how an output length is asked for.
type OutputMode string

// The output modes. Force sends cap = minimum = planned, Cap the cap alone, Free a safety cap of four times the planned
// p99 only.
const (
	Force OutputMode = "force"
	Cap   OutputMode = "cap"
	Free  OutputMode = "free"
)

// Counts is the size of a workload. Imported rows = Turns + sum of Excluded.
type Counts struct {
	Conversations int   `json:"conversations"`
	Turns         int   `json:"turns"`
	InTokens      int64 `json:"in_tokens"`
	OutTokens     int64 `json:"out_tokens"`
	// Excluded counts source rows that were left out, by reason: bad_row, not_sampled, window, max_input, max_turns.
	Excluded map[string]int `json:"excluded,omitempty"`
}
