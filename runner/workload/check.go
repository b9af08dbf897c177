package workload

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	manifestFile = "manifest.json"
	turnsFile    = "turns.jsonl"
	textsFile    = "texts.jsonl"
)

// maxSpan bounds offsets and delays, so that no sum of them overflows.
const maxSpan = 10 * 365 * 24 * time.Hour

// check holds a workload to the rules of its format. Errors carry the file and line as they are written by [Write].
func (w *Workload) check() error {
	if err := w.Manifest.check(); err != nil {
		return at(manifestFile, 0, err)
	}
	if len(w.Turns) == 0 {
		return &Error{File: turnsFile, Text: "there is no turn"}
	}
	if err := w.checkTurns(); err != nil {
		return err
	}
	got := w.count()
	for _, c := range []struct {
		field       string
		want, found int64
	}{
		{"counts.conversations", int64(w.Manifest.Counts.Conversations), int64(got.Conversations)},
		{"counts.turns", int64(w.Manifest.Counts.Turns), int64(got.Turns)},
		{"counts.in_tokens", w.Manifest.Counts.InTokens, got.InTokens},
		{"counts.out_tokens", w.Manifest.Counts.OutTokens, got.OutTokens},
	} {
		if c.want != c.found {
			return at(manifestFile, 0, fieldError(c.field, "says %d, the turns have %d", c.want, c.found))
		}
	}
	return nil
}

func (m *Manifest) check() error {
	switch {
	case m.Format > Format:
		return fieldError("format", "%d is newer than %d, the newest this version reads; use a newer tailgate", m.Format, Format)
	case m.Format < 1:
		return fieldError("format", "%d is no format", m.Format)
	case m.Name == "" || len(m.Name) > 100 || strings.ContainsFunc(m.Name, notPrintable):
		return fieldError("name", "want 1 to 100 printable characters")
	case m.Version < 1:
		return fieldError("version", "want 1 or more")
	case m.HashScope != "" && m.HashScope != ScopeGlobal && m.HashScope != ScopeConversation:
		return fieldError("hash_scope", "want global or conversation")
	case m.BlockSize < 0 || m.BlockSize > 1<<20:
		return fieldError("block_size", "want 1 to %d", 1<<20)
	case m.Arrivals.SpanNS < 0 || m.Arrivals.SpanNS > int64(maxSpan) || m.Arrivals.QuantumNS < 0:
		return fieldError("arrivals.span_ns", "want 0 to %d (ten years)", int64(maxSpan))
	case m.Output.DefaultTokens < 0:
		return fieldError("output.default_tokens", "cannot be negative")
	}
	if _, err := parseSeed(m.Seed); err != nil {
		return fieldError("seed", "want a decimal integer below 2^64 as a string")
	}
	if !oneOf(m.Arrivals.Kind, "trace", "generated", "none") {
		return fieldError("arrivals.kind", "want trace, generated or none")
	}
	if err := m.Output.Mode.check(); err != nil {
		return fieldError("output.mode", "%v", err)
	}
	if err := m.Params.check(); err != nil {
		return fieldError("params", "%v", err)
	}
	for i := range m.Assertions {
		if err := m.Assertions[i].check(); err != nil {
			return fieldError(fmt.Sprintf("assertions[%d]", i), "%v", err)
		}
	}
	for i := range m.Egress {
		if err := m.Egress[i].check(); err != nil {
			return fieldError(fmt.Sprintf("egress[%d]", i), "%v", err)
		}
	}
	return nil
}

func (m OutputMode) check() error {
	if !oneOf(string(m), string(Force), string(Cap), string(Free)) {
		return fmt.Errorf("%q is none of force, cap and free", clip(string(m), 40))
	}
	return nil
}

func (p Params) check() error {
	for _, s := range []string{p.Temperature, p.TopP} {
		if s == "" {
			continue
		}
		if _, err := parseDecimal(s); err != nil {
			return err
		}
	}
	return nil
}

func notPrintable(r rune) bool { return r < 0x20 || r == 0x7f }

func oneOf(s string, words ...string) bool { return slices.Contains(words, s) }

// checkTurns holds each turn to the rules, in order.
func (w *Workload) checkTurns() error {
	seen := make(map[string]*Turn, len(w.Turns))
	starts := conversationStarts(w.Turns)
	for i := range w.Turns {
		t := &w.Turns[i]
		err := w.checkTurn(t, seen)
		if err == nil && i > 0 && compareTurns(starts, &w.Turns[i-1], t) > 0 {
			err = fieldError("", "out of order: turns are sorted by start of the conversation, conversation, turn and id")
		}
		if err != nil {
			return at(turnsFile, i+1, err)
		}
		seen[t.ID] = t
	}
	return nil
}

func (w *Workload) checkTurn(t *Turn, seen map[string]*Turn) error {
	switch {
	case t.ID == "" || len(t.ID) > 200:
		return fieldError("id", "want 1 to 200 bytes")
	case seen[t.ID] != nil:
		return fieldError("id", "%q was used before", clip(t.ID, 60))
	case t.Conv == "":
		return fieldError("conv", "missing")
	case t.N < 1:
		return fieldError("turn", "want 1 or more")
	case t.At < 0 || t.Delay < 0:
		return fieldError("at", "a length of time cannot be negative")
	case int64(t.At) >= w.Manifest.Arrivals.SpanNS:
		return fieldError("at", "%d lies outside the span of %d ns", t.At, w.Manifest.Arrivals.SpanNS)
	case t.InTokens < 0 || t.InTokens > 1<<28:
		return fieldError("in_tokens", "want 0 to %d", 1<<28)
	case t.Out.Tokens < 0:
		return fieldError("out.tokens", "cannot be negative")
	case t.Delay > maxSpan:
		return fieldError("delay", "want at most %d (ten years)", int64(maxSpan))
	case t.Delay > 0 && len(t.After) == 0:
		return fieldError("delay", "needs a predecessor")
	}
	for _, id := range t.After {
		p := seen[id]
		if p == nil || p.Conv != t.Conv || p.N >= t.N {
			return fieldError("after", "%q is no earlier turn of the same conversation", clip(id, 60))
		}
	}
	if err := w.checkPrompt(t); err != nil {
		return err
	}
	return w.checkPolicy(t)
}

// checkPolicy checks what a turn may override.
func (w *Workload) checkPolicy(t *Turn) error {
	if t.Out.Mode != "" {
		if err := t.Out.Mode.check(); err != nil {
			return fieldError("out.mode", "%v", err)
		}
	}
	if t.Out.Tokens == 0 && w.Manifest.Output.DefaultTokens == 0 {
		return fieldError("out.tokens", "neither the turn nor the manifest plans a length")
	}
	if err := t.Params.check(); err != nil {
		return fieldError("params", "%v", err)
	}
	for i := range t.Assertions {
		if err := t.Assertions[i].check(); err != nil {
			return fieldError(fmt.Sprintf("assertions[%d]", i), "%v", err)
		}
	}
	return nil
}
