package client

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

const (
	// maxChoices and maxTools bound what a hostile index can make us hold.
	maxChoices = 128
	maxTools   = 256

	// perToken is how many bytes of text are made room for per planned token, maxRoom how many at most.
	perToken = 6
	maxRoom  = 16 << 10
)

// choice is one of the alternatives of an answer, by channel.
type choice struct {
	index                    int
	text, reasoning, refusal []byte
	audio                    int
	tools                    []tool
	finish                   string
}

type tool struct {
	index           int
	name, arguments []byte
}

// empty reports whether nothing was generated on any channel.
func (c *choice) empty() bool {
	return len(c.text)+len(c.reasoning)+len(c.refusal)+len(c.tools)+c.audio == 0
}

// takePart adds a part of an event. payload is true when it carried output, visible when some of it was not reasoning.
func (a *answer) takePart(p *part, e *event) (payload, visible bool) {
	to := a.choice(p.index)
	if to == nil {
		return false, false
	}
	thought := !p.reasoning.empty() || !p.thinking.empty()
	a.append(&to.reasoning, p.reasoning)
	if p.reasoning.empty() || !a.equal(p.reasoning, p.thinking) {
		a.append(&to.reasoning, p.thinking)
	}
	if a.want.growing {
		visible = a.grow(to, p.text)
	} else {
		a.append(&to.text, p.text)
		visible = !p.text.empty()
	}
	a.append(&to.text, p.completion)
	a.append(&to.refusal, p.refusal)
	a.appendBytes(&to.text, p.verbatim)
	to.audio += p.audio
	visible = visible || !p.completion.empty() || !p.refusal.empty() || len(p.verbatim) > 0 || p.audio > 0
	for _, t := range e.tools[p.toolsFrom:p.toolsTo] {
		if !t.name.empty() || !t.arguments.empty() {
			a.takeTool(to, t)
			visible = true
		}
	}
	if !p.finish.empty() {
		to.finish = cleanText(p.finish, 64)
	}
	return visible || thought, visible
}

// equal reports whether two strings are the same text, however they are escaped.
func (a *answer) equal(x, y raw) bool {
	if bytes.Equal(x, y) {
		return true
	}
	a.scratch = x.appendTo(a.scratch[:0])
	n := len(a.scratch)
	a.scratch = y.appendTo(a.scratch)
	return bytes.Equal(a.scratch[:n], a.scratch[n:])
}

// grow takes a text that repeats what came before it. A text that does not go on where the last one ended replaces it.
func (a *answer) grow(to *choice, text raw) (more bool) {
	if text.empty() {
		return false
	}
	a.scratch = text.appendTo(a.scratch[:0])
	switch {
	case bytes.Equal(a.scratch, to.text):
		return false
	case bytes.HasPrefix(a.scratch, to.text):
		a.appendBytes(&to.text, a.scratch[len(to.text):])
	default:
		a.kept -= len(to.text)
		to.text = to.text[:0]
		a.appendBytes(&to.text, a.scratch)
	}
	return true
}

func (a *answer) takeTool(to *choice, t toolPart) {
	i := slices.IndexFunc(to.tools, func(k tool) bool { return k.index == t.index })
	if i < 0 || t.index < 0 {
		if len(to.tools) >= maxTools {
			a.textCut = true
			return
		}
		to.tools = append(to.tools, tool{index: t.index})
		i = len(to.tools) - 1
	}
	a.append(&to.tools[i].name, t.name)
	if t.object {
		a.appendBytes(&to.tools[i].arguments, t.arguments)
		return
	}
	a.append(&to.tools[i].arguments, t.arguments)
}

// choice finds or makes the choice of an index, nil beyond the limit. Choices stay sorted.
func (a *answer) choice(index int) *choice {
	i, found := slices.BinarySearchFunc(a.choices, index, func(c choice, k int) int { return cmp.Compare(c.index, k) })
	if !found {
		if len(a.choices) >= maxChoices || index < 0 {
			a.textCut = true
			return nil
		}
		a.choices = slices.Insert(a.choices, i, choice{index: index})
		if a.want.stream && len(a.choices) == 1 {
			a.choices[0].text = make([]byte, 0, min(perToken*a.want.planned, maxRoom))
		}
	}
	return &a.choices[i]
}

// append keeps generated text up to the limit of one answer; what lies beyond is timed and counted, but not kept.
func (a *answer) append(to *[]byte, s raw) {
	if s.empty() {
		return
	}
	// An escape is never shorter than what it stands for, except that a broken byte becomes three.
	if a.kept+3*len(s) > maxEvent && a.kept+len(s.appendTo(nil)) > maxEvent {
		a.textCut = true
		return
	}
	before := len(*to)
	*to = s.appendTo(*to)
	a.kept += len(*to) - before
}

func (a *answer) appendBytes(to *[]byte, b []byte) {
	if a.kept+len(b) > maxEvent {
		a.textCut = true
		return
	}
	a.kept += len(b)
	*to = append(*to, b...)
}

// textSHA is the [sha16] of all output of an answer, "" when there is none: per choice reasoning, text, refusal and tool
// calls, joined as they stand. A long answer is not copied for it.
func (a *answer) textSHA() string {
	all, n := sha256.New(), 0
	add := func(b []byte) {
		_, _ = all.Write(b)
		n += len(b)
	}
	for i := range a.choices {
		c := &a.choices[i]
		add(c.reasoning)
		add(c.text)
		add(c.refusal)
		for _, t := range c.tools {
			add(t.name)
			add(t.arguments)
		}
	}
	if n == 0 {
		return ""
	}
	return hex.EncodeToString(all.Sum(nil)[:8])
}

// empty reports whether no choice has output.
func (a *answer) empty() bool {
	return !slices.ContainsFunc(a.choices, func(c choice) bool { return !c.empty() })
}

// hidden reports whether there is output and all of it is reasoning.
func (a *answer) hidden() bool {
	seen := false
	for i := range a.choices {
		c := a.choices[i]
		seen = seen || len(c.reasoning) > 0
		c.reasoning = nil
		if !c.empty() {
			return false
		}
	}
	return seen
}
