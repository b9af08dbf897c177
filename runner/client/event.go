package client

import (
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// event is what a dialect finds in one event of an answer, or in an answer that came in one piece. It is filled again for
// each event; its slices point into the event's bytes.
type event struct {
	// parts is the output by choice, tools the tool calls the parts refer to.
	parts []part
	tools []toolPart

	id, model raw
	// fault is the error the event carries; faulty says that there is one.
	fault  raw
	faulty bool
	// unknown says that the event is of a type the dialect does not have.
	unknown bool
	// over says that the answer ends with this event.
	over bool
	// usage holds the server's own counts, when hasUsage is true.
	usage    usage
	hasUsage bool
	// tokens counts the tokens of this event, or those of all events up to it, as the dialect has it.
	tokens count
	times  serverTimes
	// cut says that the server shortened the prompt or the context.
	cut bool
	// binary is how many bytes of raw tensors the event announces.
	binary int64
}

// part is a piece of one choice.
type part struct {
	index int
	// said is false for a part that was null or absent.
	said bool
	// text and its siblings are JSON strings. text and completion are one channel, in two dialects; so are reasoning and
	// thinking, in two spellings.
	text, completion, reasoning, thinking, refusal raw
	// verbatim is output that is no JSON string and stands for itself.
	verbatim []byte
	// audio counts bytes of audio data.
	audio int
	// toolsFrom and toolsTo is the stretch of the event's tools that belongs to this choice.
	toolsFrom, toolsTo int
	finish             raw
	// tokens counts logprobs.
	tokens int
}

// toolPart is a piece of a tool call. A negative index is a call of its own.
type toolPart struct {
	index           int
	name, arguments raw
	// object says that the arguments are JSON, not a string of JSON.
	object bool
}

// usage holds the server's token counts of one answer.
type usage struct {
	prompt, completion, cached, reasoning count
}

// serverTimes are durations the server reported.
type serverTimes struct {
	prompt, decode, load duration
}

// duration is one as reported; set is false when there was none.
type duration struct {
	ns  int64
	set bool
}

func (e *event) reset() {
	parts, tools := e.parts[:0], e.tools[:0]
	*e = event{parts: parts, tools: tools}
}

// part begins the part of a choice.
func (e *event) part() *part {
	e.parts = append(e.parts, part{toolsFrom: len(e.tools), toolsTo: len(e.tools)})
	return &e.parts[len(e.parts)-1]
}

// error keeps a value that stands where errors stand, when it says something.
func (e *event) error(v raw) {
	if v.set() {
		e.fault, e.faulty = v, true
	}
}

// decode reads one event or one whole answer.
func (a *answer) decode(data []byte, whole bool) (*event, error) {
	a.ev.reset()
	a.walk.open(data)
	if !a.walk.is('{') && !a.want.speaks.anyJSON {
		return nil, errNotJSON
	}
	a.want.speaks.read(&a.walk, &a.ev, reading{whole: whole, pointers: a.want.pointers, finder: &a.finder})
	if err := a.walk.close(); err != nil {
		return nil, errNotJSON
	}
	return &a.ev, nil
}

// reading tells a dialect how an event came.
type reading struct {
	// whole says that the event is a whole answer, not a piece of one.
	whole bool
	// pointers are the configured places of a dialect that has no fields of its own; finder looks them up.
	pointers *pointers
	finder   *walk
}

// or returns t with the durations that later has in place of its own.
func (t serverTimes) or(later serverTimes) serverTimes {
	for _, d := range []struct{ to, from *duration }{{&t.prompt, &later.prompt}, {&t.decode, &later.decode}, {&t.load, &later.load}} {
		if d.from.set {
			*d.to = *d.from
		}
	}
	return t
}

// maxServerTime is the longest duration a server is believed, a year.
const maxServerTime = 365 * 24 * time.Hour

// record is what samples keep.
func (t serverTimes) record() record.ServerTimes {
	ns := func(d duration) *int64 {
		if !d.set || d.ns > int64(maxServerTime) {
			return nil
		}
		return new(d.ns)
	}
	return record.ServerTimes{Prompt: ns(t.prompt), Decode: ns(t.decode), Load: ns(t.load)}
}
