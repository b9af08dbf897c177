package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var errNotJSON = errors.New("not a JSON object")

// raw is a JSON value as it stands in an event, valid as long as the event's bytes are. A string keeps its quotes and
// escapes until it is copied; nil stands for a value that is absent or of another type than was due.
type raw []byte

// empty reports whether r is no string or the empty one.
func (r raw) empty() bool { return len(r) <= len(`""`) }

// appendTo appends the text of a string. Invalid UTF-8 and lone surrogates become U+FFFD.
func (r raw) appendTo(b []byte) []byte {
	if r.empty() {
		return b
	}
	if text := r[1 : len(r)-1]; bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return append(b, text...)
	}
	// The error says that something was replaced, which is counted elsewhere.
	b, _ = jsontext.AppendUnquote(b, []byte(r))
	return b
}

// set reports whether a value says something: neither absent, null, false nor "".
func (r raw) set() bool {
	switch string(r) {
	case "", "null", "false", `""`:
		return false
	default:
		return true
	}
}

// walk reads one JSON value from front to back without building it: a dialect names the members it knows and what it does
// not read is passed over. It is as strict as encoding/json about what is JSON, and as lenient about invalid UTF-8 and
// members that stand twice; the last one wins. The first error ends the walk: all that follows reads nothing.
//
// A walk is used again and again, so that reading an event allocates nothing.
type walk struct {
	dec  jsontext.Decoder
	buf  bytes.Buffer
	data []byte
	name []byte
	err  error
}

// walkOptions make the decoder take what encoding/json takes.
var walkOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// open begins a walk over data, which must stay as it is until the walk's values are used up.
func (w *walk) open(data []byte) {
	w.data, w.err = data, nil
	w.buf = *bytes.NewBuffer(data)
	w.dec.Reset(&w.buf, walkOptions...)
}

// close reports whether data held one JSON object and nothing else. The walk must have read it.
func (w *walk) close() error {
	if w.err != nil {
		return w.err
	}
	if _, err := w.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errNotJSON
	}
	return nil
}

// is reports whether the next value begins with kind: one of { [ " 0 t f n.
func (w *walk) is(kind jsontext.Kind) bool { return w.err == nil && w.dec.PeekKind() == kind }

// value reads the next value whole.
func (w *walk) value() raw {
	if w.err != nil {
		return nil
	}
	v, err := w.dec.ReadValue()
	if err != nil {
		w.err = err
		return nil
	}
	// The decoder's own slice is only good until the next read; the event's bytes are good for longer.
	end := int(w.dec.InputOffset())
	return w.data[end-len(v) : end]
}

// rest lets read read what comes next and returns all of it.
func (w *walk) rest(read func()) raw {
	from := w.dec.InputOffset()
	read()
	if w.err != nil {
		return nil
	}
	return bytes.TrimSpace(w.data[from:w.dec.InputOffset()])
}

func (w *walk) token() {
	if w.err == nil {
		_, w.err = w.dec.ReadToken()
	}
}

// object calls member for each member of the object that comes next, and passes over a value of another type. member may
// leave the value unread.
func (w *walk) object(member func(name []byte)) {
	if !w.is('{') {
		w.value()
		return
	}
	w.token()
	for w.err == nil && !w.is('}') {
		name := w.value()
		if w.err != nil {
			return
		}
		before := w.dec.InputOffset()
		member(w.plain(name))
		if w.err == nil && w.dec.InputOffset() == before {
			w.value()
		}
	}
	w.token()
}

// array calls item for each item of the array that comes next, and passes over a value of another type. item must read its
// value.
func (w *walk) array(item func()) {
	if !w.is('[') {
		w.value()
		return
	}
	w.token()
	for w.err == nil && !w.is(']') {
		item()
	}
	w.token()
}

// plain is a member's name without quotes.
func (w *walk) plain(name raw) []byte {
	if bytes.IndexByte(name, '\\') < 0 {
		return name[1 : len(name)-1]
	}
	w.name = name.appendTo(w.name[:0])
	return w.name
}

// text reads a string; nil when the next value is none.
func (w *walk) text() raw {
	if !w.is('"') {
		w.value()
		return nil
	}
	return w.value()
}

// truth reads true; anything else is false.
func (w *walk) truth() bool { return string(w.value()) == "true" }

// integer reads a whole number; otherwise is returned for a value that is none.
func (w *walk) integer(otherwise int) int {
	c := w.count()
	switch {
	case c.bad:
		return -1
	case !c.set:
		return otherwise
	default:
		return c.n
	}
}

// count reads a number of things.
func (w *walk) count() count { return countOf(w.value()) }

// number reads any number, as milliseconds and the like are written; ok is false when the next value is none.
func (w *walk) number() (f float64, ok bool) {
	f, err := strconv.ParseFloat(string(w.value()), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// count is a number of tokens as a server wrote it. A negative, fractional or non-numeric one is bad, not an error: the
// text beside it is still good.
type count struct {
	n        int
	set, bad bool
}

// countOf reads a count. Null and absent are not set.
func countOf(r raw) count {
	if len(r) == 0 || string(r) == "null" {
		return count{}
	}
	if n, ok := digits(r); ok {
		return count{n: n, set: true}
	}
	f, err := strconv.ParseFloat(string(r), 64)
	if err != nil || f < 0 || f != math.Trunc(f) || f > math.MaxInt32 {
		return count{set: true, bad: true}
	}
	return count{n: int(f), set: true}
}

// digits reads the usual form of a count.
func digits(r raw) (int, bool) {
	n := 0
	for _, c := range r {
		if c < '0' || c > '9' || len(r) > 9 {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// faultText finds the message in what a server sent as an error: an object with a message, a string, or anything. It is
// cleaned.
func faultText(said []byte) string {
	var object struct {
		Message string          `json:"message"`
		Error   json.RawMessage `json:"error"`
		Detail  json.RawMessage `json:"detail"`
	}
	var text string
	switch {
	case json.Unmarshal(said, &text) == nil:
	case json.Unmarshal(said, &object) != nil:
		text = string(said[:min(len(said), 4*maxDetail)])
	case object.Message != "":
		text = object.Message
	case len(object.Error) > 0 && len(object.Error) < len(said):
		return faultText(object.Error)
	case len(object.Detail) > 0 && len(object.Detail) < len(said):
		return faultText(object.Detail)
	default:
		text = string(said[:min(len(said), 4*maxDetail)])
	}
	if text = clean(text, maxDetail); text == "" {
		return "error without a message"
	}
	return text
}

// maxDetail bounds the text of an outcome's detail, in bytes.
const maxDetail = 300
