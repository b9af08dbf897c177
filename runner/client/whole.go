package client

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// binaryLength is the header that says where the JSON of an answer ends and raw tensors begin.
const binaryLength = "Inference-Header-Content-Length"

// expectBinary reads that header. An answer whose split is not known cannot be read.
func (a *answer) expectBinary(length string) {
	n, err := strconv.ParseInt(length, 10, 64)
	if err != nil || n < 0 {
		a.drop(fmt.Sprintf("header %s is %q, not a length", binaryLength, clean(length, 32)))
		return
	}
	a.jsonLength = n
}

// closeWhole decodes an answer that came in one piece.
func (a *answer) closeWhole(at mark) {
	if len(bytes.TrimSpace(a.whole)) == 0 {
		return
	}
	if a.jsonLength > int64(len(a.whole)) {
		a.broken = fmt.Sprintf("%d bytes came, the JSON part alone was to be %d", len(a.whole), a.jsonLength)
		return
	}
	a.events = 1
	if !utf8.Valid(a.whole) {
		a.badUTF8++
	}
	e, err := a.decode(a.whole, true)
	switch {
	case err != nil:
		a.bad = 1
		return
	case e.faulty:
		a.fail(faultText(e.fault))
		return
	}
	if a.jsonLength >= 0 || e.binary != 0 {
		if a.broken = checkBinary(e.binary, a.beyond); a.broken != "" {
			return
		}
	}
	a.note(e)
	said := e.hasUsage
	for i := range e.parts {
		payload, _ := a.takePart(&e.parts[i], e)
		said = said || payload || !e.parts[i].finish.empty()
		a.logprobs += e.parts[i].tokens
	}
	if len(e.parts) == 0 && !e.hasUsage || e.unknown && !said {
		a.broken = "a JSON answer without anything that dialect " + a.want.speaks.name + " has"
		return
	}
	a.over = at
}
