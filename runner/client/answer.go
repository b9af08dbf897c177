package client

import (
	"bytes"
	"slices"
	"sync"
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
	// speaks is the dialect, nil for the default one; pointers its configured places, nil for none.
	speaks   *dialect
	pointers *pointers
	stream   bool
	// growing says that each event repeats the text of those before it.
	growing bool
	// layout is how events are set apart.
	layout layout
	// perEvent is "none", "usage" or "logprobs": where tokens per event come from, in dialects that must be asked.
	perEvent string
	// choices is n of the request, 1 or more; maxTokens its cap per choice, 0 for none.
	choices, maxTokens int
	// planned sizes what is kept of an answer, in tokens.
	planned int
	// peek keeps the beginning of the body, to tell what it looks like.
	peek bool
	tap  func(prev, now record.Instant)
}

// answer is what has been read of one answer. It is pushed body bytes and keeps what a sample needs; it decides nothing
// about how the request ended beyond what an event says.
type answer struct {
	want  expectation
	mode  bodyMode
	sse   sse
	lines lines
	// whole holds a body that is one JSON value; beyond counts the bytes of it behind the JSON, which are not kept.
	whole  []byte
	beyond int64
	// jsonLength is where the JSON of a body ends that goes on with raw tensors, -1 when all of it is JSON.
	jsonLength int64

	// reader is lent while bytes are taken.
	*reader

	choices []choice
	kept    int

	first, firstOut, last mark
	// over is the stamp of the end marker, finished that of the event that completed the last choice; newest is the last read.
	over, finished, newest mark

	id, model             string
	events, payloads      int
	bad, badUTF8, unknown int
	trailing              int64
	bytes                 int64
	textCut, onePiece     bool
	contextCut            bool
	usage                 usage
	hasUsage, usageLate   bool
	logprobs              int
	times                 serverTimes

	// fault is the error the answer carried; broken the way in which it could not be read.
	fault, broken string
	faulty        bool
	// head is the beginning of the body.
	head []byte

	gaps []int64
	// reads says of each payload event how many reads after the one before it came: 1, or 0 for the same.
	reads []uint8
	counted
}

// reader is what reading an event needs and nobody needs between two reads. It is lent, so that a stream that waits holds
// none of it, nor the page of bytes that it points into.
type reader struct {
	walk, finder walk
	ev           event
	scratch      []byte
}

var readers = sync.Pool{New: func() any { return new(reader) }}

func (a *answer) borrow() { a.reader = readers.Get().(*reader) }

func (a *answer) giveBack() {
	if cap(a.scratch) > maxRoom {
		a.scratch = nil
	}
	readers.Put(a.reader)
	a.reader = nil
}

// bodyMode says how the bytes of a body are taken.
type bodyMode int

const (
	// bodyUnknown waits for the first byte: an event stream cannot begin with a brace or an angle bracket.
	bodyUnknown bodyMode = iota
	bodyEvents
	bodyLines
	bodyWhole
	bodyDropped
)

// maxPeek is how much of a body is kept to tell what it looks like.
const maxPeek = 4 << 10

func newAnswer(want expectation) *answer {
	if want.speaks == nil {
		want.speaks = openAIChat()
	}
	a := &answer{want: want, jsonLength: -1}
	a.counted = countedAs(want)
	n := min(max(want.planned, 16), 4096)
	switch {
	case !want.stream:
		a.mode = bodyWhole
		return a
	case a.counts != countsNothing:
		a.tokens = make([]int64, 0, n)
	}
	a.gaps, a.reads = make([]int64, 0, n), make([]uint8, 0, n)
	return a
}

// write takes the next bytes of the body, all brought by the read at.
func (a *answer) write(b []byte, at mark) {
	a.bytes += int64(len(b))
	a.newest = at
	if a.want.peek && len(a.head) < maxPeek {
		a.head = append(a.head, b[:min(len(b), maxPeek-len(a.head))]...)
	}
	if a.mode == bodyUnknown {
		a.mode = sniff(b, a.want.layout)
	}
	switch {
	case a.mode == bodyDropped:
	case a.over.at.Reached():
		a.trailing += int64(a.sse.rest(b))
	case a.mode == bodyWhole:
		a.keep(b)
	case a.mode == bodyLines:
		a.borrow()
		a.pushed(a.lines.push(b, func(line []byte) bool { return a.event(sseEvent{data: line}, at) }))
		a.giveBack()
	default:
		a.borrow()
		a.pushed(a.sse.push(b, func(ev sseEvent) bool { return a.event(ev, at) }))
		a.giveBack()
	}
}

func (a *answer) pushed(left int, err error) {
	if err != nil {
		a.drop(err.Error())
		return
	}
	a.trailing += int64(left)
}

// keep adds to a body in one piece. Of raw tensors only the length is of interest.
func (a *answer) keep(b []byte) {
	if room := a.jsonLength - int64(len(a.whole)); a.jsonLength >= 0 && int64(len(b)) > room {
		a.beyond += int64(len(b)) - room
		b = b[:room]
	}
	if len(a.whole)+len(b) > maxEvent {
		a.drop(errEventTooLarge.Error())
		return
	}
	a.whole = append(a.whole, b...)
}

// drop gives up on understanding the body; the rest is still read, so that the server is not cut off in its work.
func (a *answer) drop(why string) {
	a.mode, a.broken, a.whole = bodyDropped, why, nil
}

// sniff tells a stream from a single value by the first byte that is not blank. It does not ask the content type: that
// header is wrong too often.
func sniff(b []byte, expected layout) bodyMode {
	for _, c := range b {
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case c == '<':
			return bodyWhole
		case expected == inLines:
			return bodyLines
		case c == '{' || c == '[':
			return bodyWhole
		default:
			return bodyEvents
		}
	}
	return bodyUnknown
}

// event takes one event of a stream and returns false after the end of the answer.
func (a *answer) event(ev sseEvent, at mark) bool {
	if ev.fault == nil && a.want.speaks.marker && string(bytes.TrimSpace(ev.data)) == "[DONE]" {
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
	e, err := a.decode(ev.data, false)
	switch {
	case err != nil:
		a.bad++
	case e.faulty:
		a.fail(faultText(e.fault))
	default:
		a.take(e, ev.kind, at)
		return !a.over.at.Reached()
	}
	return true
}

func (a *answer) fail(text string) { a.faulty, a.fault = true, text }

// take takes an event that is no error.
func (a *answer) take(e *event, kind string, at mark) {
	a.note(e)
	if e.unknown || kind != "" && kind != "message" {
		a.unknown++
	}
	done := a.allFinished()
	got, out := false, false
	for i := range e.parts {
		payload, visible := a.takePart(&e.parts[i], e)
		got, out = got || payload, out || visible
	}
	if !done && a.allFinished() {
		a.finished = at
	}
	a.countEvent(e, got)
	if got {
		a.payload(at, out)
	}
	if e.over {
		a.over = at
	}
}

// payload records the arrival of generated output.
func (a *answer) payload(at mark, out bool) {
	prev := a.last
	if a.payloads == 0 {
		a.first, prev = at, at
	}
	if out && !a.firstOut.at.Reached() {
		a.firstOut = at
	}
	same := uint8(1)
	if a.payloads > 0 && a.last.read == at.read {
		same = 0
	}
	a.payloads++
	a.gaps = append(a.gaps, int64(at.at-prev.at))
	a.reads = append(a.reads, same)
	if a.want.tap != nil {
		a.want.tap(a.last.at, at.at)
	}
	a.last = at
}

// note keeps what any event may carry beside output.
func (a *answer) note(e *event) {
	if a.id == "" && !e.id.empty() {
		a.id = cleanText(e.id, maxRequestID)
	}
	if a.model == "" && !e.model.empty() {
		a.model = cleanText(e.model, maxModelName)
	}
	if e.hasUsage {
		a.usage, a.hasUsage = e.usage, true
		a.usageLate = len(a.choices) > 0 && a.allFinished() || slices.ContainsFunc(e.parts, func(p part) bool { return !p.finish.empty() })
	}
	a.contextCut = a.contextCut || e.cut
	a.times = a.times.or(e.times)
}

// cleanText is a JSON string made fit to be shown.
func cleanText(r raw, limit int) string { return clean(r.appendTo(nil), limit) }

// allFinished reports whether every choice asked for, and every one seen, has its finish reason.
func (a *answer) allFinished() bool {
	if len(a.choices) < max(a.want.choices, 1) {
		return false
	}
	return !slices.ContainsFunc(a.choices, func(c choice) bool { return c.finish == "" })
}

// close tells the answer that its body ended, at the read that showed it. A whole body is decoded now, and so is a last line
// without an end; one that is no JSON was cut.
func (a *answer) close(at mark) {
	a.borrow()
	defer a.giveBack()
	switch a.mode {
	case bodyWhole:
		a.closeWhole(at)
	case bodyLines:
		bad, events := a.bad, a.events
		a.lines.finish(func(line []byte) bool { return a.event(sseEvent{data: line}, a.newest) })
		if a.bad > bad && a.bad > 1 {
			a.bad, a.events = bad, events
		}
		a.closeStream(at)
	case bodyEvents:
		a.closeStream(at)
	case bodyUnknown, bodyDropped:
	}
}

// closeStream ends an answer whose end is that of its body. A stream whose only event is the whole answer is none.
func (a *answer) closeStream(at mark) {
	if a.want.speaks.endless && !a.over.at.Reached() && a.events > a.bad {
		a.over = at
	}
	if a.mode == bodyLines && a.events == 1 && a.payloads == 1 && a.over.at.Reached() {
		a.onePiece, a.payloads = true, 0
		a.first, a.firstOut, a.last = mark{}, mark{}, mark{}
		a.gaps, a.reads, a.tokens = nil, nil, nil
	}
}

// notStreamed reports whether a stream was asked for and a single value came.
func (a *answer) notStreamed() bool { return a.want.stream && (a.mode == bodyWhole || a.onePiece) }
