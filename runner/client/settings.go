package client

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The values of the settings that only some dialects take.
const (
	capBoth     = "both"
	textWhole   = "whole"
	streamSSE   = "sse"
	streamLines = "ndjson"
)

// Settings are what can be set about a dialect. The zero value is the usual service; most dialects take few of them, and one
// that a dialect does not take is an error.
type Settings struct {
	// Path replaces the dialect's path when the URL has none, e.g. /api/generate. It begins with a slash.
	Path string
	// PerEventTokens is "none" (also when empty), "usage" or "logprobs": what a server of openai-chat or openai-completions is
	// asked to report with each event.
	PerEventTokens string
	// CapField says which field caps the output in openai-chat: "max_tokens" (also when empty), "max_completion_tokens" or
	// "both".
	CapField string
	// TritonText says what an event of triton-generate holds: "delta" (also when empty), what is new, or "whole", all text so
	// far.
	TritonText string
	// Pointers say where dialect http-json finds things; triton-generate takes those of the counts.
	Pointers Pointers
	// Stream is how dialect http-json streams: "none" (also when empty), "sse" or "ndjson". Method is its method: POST (also
	// when empty), PUT, or GET, which has no body.
	Stream, Method string
}

// Check refuses what the dialect cannot do, before anything is sent. An empty dialect is the default one.
func (s Settings) Check(dialect string) error {
	d, err := findDialect(dialect)
	if err != nil {
		return err
	}
	_, err = s.check(d)
	return err
}

// setting is an option that only some dialects take.
type setting struct {
	name, value string
	// known are the values it may have; empty always is one.
	known []string
	taken bool
}

// check refuses values that no dialect knows and settings that this one does not take: a setting that does nothing
// hides a mistake.
func (s Settings) check(d *dialect) (*pointers, error) {
	perEvent := s.PerEventTokens
	if perEvent == perEventNone {
		perEvent = ""
	}
	stream := s.Stream
	if stream == "none" {
		stream = ""
	}
	for _, one := range []setting{
		{"per-event tokens", perEvent, []string{perEventNone, perEventUsage, perEventLogprobs}, d.settings.perEvent},
		{"cap field", s.CapField, append([]string{capBoth}, openAIChat().terms.caps...), d.settings.capField},
		{"text of an event", s.TritonText, []string{"delta", textWhole}, d.settings.text},
		{"stream", stream, []string{"none", streamSSE, streamLines}, d.settings.request},
		{"method", s.Method, []string{http.MethodPost, http.MethodPut, http.MethodGet}, d.settings.request},
	} {
		switch {
		case one.value == "":
		case !slices.Contains(one.known, one.value):
			return nil, fmt.Errorf("%s %q: want one of %s", one.name, clean(one.value, 64), strings.Join(one.known, ", "))
		case !one.taken:
			return nil, fmt.Errorf("%s %s: dialect %s has no such setting", one.name, one.value, d.name)
		}
	}
	if s.Path != "" && (!strings.HasPrefix(s.Path, "/") || strings.ContainsFunc(s.Path, func(r rune) bool { return r <= ' ' || r >= 0x7f })) {
		return nil, fmt.Errorf("path %q: want one that begins with / and has no blanks", clean(s.Path, 64))
	}
	p := s.Pointers
	switch {
	case p == (Pointers{}) && !d.settings.request:
		return nil, nil
	case !d.settings.pointers:
		return nil, fmt.Errorf("pointers: dialect %s has fields of its own", d.name)
	case !d.settings.request && (p.Text != "" || p.Finish != "" || p.Error != ""):
		return nil, fmt.Errorf("pointers: dialect %s takes those of the counts, n_in and n_out, only", d.name)
	}
	return parsePointers(p)
}
