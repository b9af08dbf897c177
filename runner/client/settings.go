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

// setting is an option that only some dialects take.
type setting struct {
	name, value string
	// known are the values it may have; empty always is one.
	known []string
	taken bool
}

// checkSettings refuses values that no dialect knows and settings that this one does not take: a setting that does nothing
// hides a mistake.
func checkSettings(o *Options, d *dialect) (*pointers, error) {
	perEvent := o.PerEventTokens
	if perEvent == perEventNone {
		perEvent = ""
	}
	stream := o.Stream
	if stream == "none" {
		stream = ""
	}
	for _, s := range []setting{
		{"per-event tokens", perEvent, []string{perEventNone, perEventUsage, perEventLogprobs}, d.settings.perEvent},
		{"cap field", o.CapField, append([]string{capBoth}, openAIChat().terms.caps...), d.settings.capField},
		{"text of an event", o.TritonText, []string{"delta", textWhole}, d.settings.text},
		{"stream", stream, []string{"none", streamSSE, streamLines}, d.settings.request},
		{"method", o.Method, []string{http.MethodPost, http.MethodPut, http.MethodGet}, d.settings.request},
	} {
		switch {
		case s.value == "":
		case !slices.Contains(s.known, s.value):
			return nil, fmt.Errorf("%s %q: want one of %s", s.name, clean(s.value, 64), strings.Join(s.known, ", "))
		case !s.taken:
			return nil, fmt.Errorf("%s %s: dialect %s has no such setting", s.name, s.value, d.name)
		}
	}
	if o.Path != "" && (!strings.HasPrefix(o.Path, "/") || strings.ContainsFunc(o.Path, func(r rune) bool { return r <= ' ' || r >= 0x7f })) {
		return nil, fmt.Errorf("path %q: want one that begins with / and has no blanks", clean(o.Path, 64))
	}
	p := o.Pointers
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
