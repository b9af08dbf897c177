package client

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// mark is where in a connection's life something was seen: the stamp of the socket read that brought it, and its number.
type mark struct {
	at   record.Instant
	read int
}

// expectation is what a request asked for, as far as reading its answer needs it.
type expectation struct {
	stream bool
	// perEvent is "none", "usage" or "logprobs": where tokens per event come from.
	perEvent string
	// choices is n of the request, 1 or more; maxTokens its cap per choice, 0 for none.
	choices, maxTokens int
	// planned sizes the event arrays.
	planned int
	tap     func(prev, now record.Instant)
}

// answer is what has been read of one answer. It is pushed body bytes and keeps what a sample needs; it decides nothing
// about how the request ended beyond what an event says.
type answer struct {
	want expectation
	mode bodyMode
	sse  sse
	// whole holds a body that is one JSON value.
	whole []byte

	choices []choice
	kept    int

	first, firstOut, last mark
	// over is the stamp of the end marker, finished that of the event that completed the last choice.
	over, finished mark

	id, model             string
	events, payloads      int
	bad, badUTF8, unknown int
	trailing              int64
	bytes                 int64
	textCut               bool
	usage                 *usageJSON
	usageLate             bool
	logprobs              int

	// fault is the error the answer carried; broken the way in which it could not be read.
	fault, broken string
	faulty        bool

	gaps, tokens, reads []int64
	eventTokens         bool
}

// bodyMode says how the bytes of a body are taken.
type bodyMode int

const (
	// bodyUnknown waits for the first byte: an event stream cannot begin with a brace or an angle bracket.
	bodyUnknown bodyMode = iota
	bodyEvents
	bodyWhole
	bodyDropped
)

func newAnswer(want expectation) *answer {
	a := &answer{want: want, eventTokens: want.perEvent == perEventUsage || want.perEvent == perEventLogprobs}
	if !want.stream {
		a.mode = bodyWhole
	}
	n := min(max(want.planned, 16), 4096)
	a.gaps, a.reads = make([]int64, 0, n), make([]int64, 0, n)
	return a
}

// write takes the next bytes of the body, all brought by the read at.
func (a *answer) write(b []byte, at mark) {
	a.bytes += int64(len(b))
	if a.mode == bodyUnknown {
		a.mode = sniff(b)
	}
	switch {
	case a.mode == bodyDropped:
	case a.over.at.Reached():
		a.trailing += int64(len(b))
	case a.mode == bodyWhole:
		if len(a.whole)+len(b) > maxEvent {
			a.drop(errEventTooLarge.Error())
			return
		}
		a.whole = append(a.whole, b...)
	default:
		left, err := a.sse.push(b, func(ev sseEvent) bool { return a.event(ev, at) })
		if err != nil {
			a.drop(err.Error())
			return
		}
		a.trailing += int64(left)
	}
}

// drop gives up on understanding the body; the rest is still read, so that the server is not cut off in its work.
func (a *answer) drop(why string) {
	a.mode, a.broken, a.whole = bodyDropped, why, nil
}

// sniff tells an event stream from a single value by the first byte that is not blank. It does not ask the content type:
// that header is wrong too often.
func sniff(b []byte) bodyMode {
	for _, c := range b {
		switch c {
		case ' ', '\t', '\r', '\n':
		case '{', '[', '<':
			return bodyWhole
		default:
			return bodyEvents
		}
	}
	return bodyUnknown
}

// event takes one server-sent event and returns false after the end marker.
func (a *answer) event(ev sseEvent, at mark) bool {
	if string(bytes.TrimSpace(ev.data)) == "[DONE]" && ev.fault == nil {
		a.over = at
		return false
	}
	a.events++
	if a.faulty {
		return true
	}
	switch {
	case ev.fault != nil:
		a.fail(faultText(ev.fault))
		return true
	case ev.kind == "error":
		a.fail(faultText(ev.data))
		return true
	}
	if !utf8.Valid(ev.data) {
		a.badUTF8++
	}
	c, err := decodeChunk(ev.data)
	if err != nil {
		a.bad++
		return true
	}
	if text, is := c.fault(); is {
		a.fail(text)
		return true
	}
	a.chunk(c, ev.kind, at)
	return true
}

func (a *answer) fail(text string) { a.faulty, a.fault = true, text }

// chunk takes a decoded event that is no error.
func (a *answer) chunk(c *chunkJSON, kind string, at mark) {
	a.note(c)
	if !known(c, kind) {
		a.unknown++
	}
	done := a.allFinished()
	got, out, tokens := false, false, 0
	for i := range c.Choices {
		payload, visible := a.take(&c.Choices[i], c.Choices[i].Delta)
		got, out = got || payload, out || visible
		tokens += c.Choices[i].Logprobs.tokens()
	}
	if !done && a.allFinished() {
		a.finished = at
	}
	a.logprobs += tokens
	if got {
		a.payload(c, at, out, tokens)
	}
}

// payload records the arrival of generated output.
func (a *answer) payload(c *chunkJSON, at mark, out bool, tokens int) {
	prev := a.last
	if a.payloads == 0 {
		a.first, prev = at, at
	}
	if out && !a.firstOut.at.Reached() {
		a.firstOut = at
	}
	same := int64(1)
	if a.payloads > 0 && a.last.read == at.read {
		same = 0
	}
	a.payloads++
	a.gaps = append(a.gaps, int64(at.at-prev.at))
	a.reads = append(a.reads, same)
	a.countTokens(c, tokens)
	if a.want.tap != nil {
		a.want.tap(a.last.at, at.at)
	}
	a.last = at
}

// countTokens notes the tokens of a payload event: running totals for usage, to be differenced at the end.
func (a *answer) countTokens(c *chunkJSON, logprobs int) {
	switch {
	case !a.eventTokens:
	case a.want.perEvent == perEventLogprobs && logprobs > 0:
		a.tokens = append(a.tokens, int64(logprobs))
	case a.want.perEvent == perEventUsage && c.Usage != nil && c.Usage.Completion.set && !c.Usage.Completion.bad:
		a.tokens = append(a.tokens, int64(c.Usage.Completion.n))
	default:
		a.eventTokens, a.tokens = false, nil
	}
}

// note keeps what any event may carry beside output.
func (a *answer) note(c *chunkJSON) {
	if a.id == "" {
		a.id = clean(c.ID, maxRequestID)
	}
	if a.model == "" {
		a.model = clean(c.Model, maxModelName)
	}
	if c.Usage != nil {
		a.usage = c.Usage
		a.usageLate = len(a.choices) > 0 && a.allFinished() || slices.ContainsFunc(c.Choices, func(c choiceJSON) bool { return c.Finish != "" })
	}
}

// known reports whether an event is of a type this dialect has.
func known(c *chunkJSON, kind string) bool {
	if kind != "" && kind != "message" {
		return false
	}
	switch c.Object {
	case "", "chat.completion.chunk", "chat.completion", "text_completion":
		return true
	default:
		return c.Choices != nil || c.Usage != nil
	}
}

// allFinished reports whether every choice asked for, and every one seen, has its finish reason.
func (a *answer) allFinished() bool {
	if len(a.choices) < max(a.want.choices, 1) {
		return false
	}
	return !slices.ContainsFunc(a.choices, func(c choice) bool { return c.finish == "" })
}

// close tells the answer that its body ended, at the read that showed it. A whole body is decoded now.
func (a *answer) close(at mark) {
	if a.mode != bodyWhole || len(bytes.TrimSpace(a.whole)) == 0 {
		return
	}
	a.events = 1
	if !utf8.Valid(a.whole) {
		a.badUTF8++
	}
	c, err := decodeChunk(a.whole)
	if err != nil {
		a.bad = 1
		return
	}
	if text, is := c.fault(); is {
		a.fail(text)
		return
	}
	a.note(c)
	for i := range c.Choices {
		m := c.Choices[i].Message
		if m == nil {
			m = c.Choices[i].Delta
		}
		a.take(&c.Choices[i], m)
		a.logprobs += c.Choices[i].Logprobs.tokens()
	}
	if len(c.Choices) == 0 && c.Usage == nil {
		a.broken = "a JSON answer without choices"
		return
	}
	a.over = at
}

// notStreamed reports whether a stream was asked for and a single value came.
func (a *answer) notStreamed() bool { return a.want.stream && a.mode == bodyWhole }
