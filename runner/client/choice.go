package client

import (
	"cmp"
	"slices"
)

const (
	// maxChoices and maxTools bound what a hostile index can make us hold.
	maxChoices = 128
	maxTools   = 256
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

// take adds one choice of an event. payload is true when it carried output, visible when some of it was not reasoning.
func (a *answer) take(c *choiceJSON, d *deltaJSON) (payload, visible bool) {
	to := a.choice(c.Index)
	if to == nil {
		return false, false
	}
	if d == nil {
		d = &deltaJSON{}
	}
	thought := d.ReasoningContent
	if thought == "" {
		thought = d.Reasoning
	} else if d.Reasoning != "" && d.Reasoning != thought {
		thought += d.Reasoning
	}
	a.append(&to.reasoning, thought)
	a.append(&to.text, d.Content)
	a.append(&to.text, c.Text)
	a.append(&to.refusal, d.Refusal)
	visible = d.Content != "" || c.Text != "" || d.Refusal != ""
	if d.Audio != nil && d.Audio.Data != "" {
		to.audio += len(d.Audio.Data)
		visible = true
	}
	for _, t := range d.ToolCalls {
		if t.Function.Name != "" || t.Function.Arguments != "" {
			a.takeTool(to, t)
			visible = true
		}
	}
	if c.Finish != "" {
		to.finish = clean(c.Finish, 64)
	}
	return visible || thought != "", visible
}

func (a *answer) takeTool(to *choice, t toolJSON) {
	i := slices.IndexFunc(to.tools, func(k tool) bool { return k.index == t.Index })
	if i < 0 {
		if len(to.tools) >= maxTools {
			a.textCut = true
			return
		}
		to.tools = append(to.tools, tool{index: t.Index})
		i = len(to.tools) - 1
	}
	a.append(&to.tools[i].name, t.Function.Name)
	a.append(&to.tools[i].arguments, t.Function.Arguments)
}

// choice finds or makes the choice of an index, nil beyond the limit. Choices stay sorted.
func (a *answer) choice(index int) *choice {
	i, found := slices.BinarySearchFunc(a.choices, index, func(c choice, k int) int { return cmp.Compare(c.index, k) })
	if !found {
		if len(a.choices) >= maxChoices {
			a.textCut = true
			return nil
		}
		a.choices = slices.Insert(a.choices, i, choice{index: index})
	}
	return &a.choices[i]
}

// append keeps generated text up to the limit of one answer; what lies beyond is timed and counted, but not kept.
func (a *answer) append(to *[]byte, s string) {
	if s == "" {
		return
	}
	if a.kept+len(s) > maxEvent {
		a.textCut = true
		return
	}
	a.kept += len(s)
	*to = append(*to, s...)
}

// generated is all output of an answer: per choice reasoning, text, refusal and tool calls, joined as they stand.
func (a *answer) generated() []byte {
	var all []byte
	for i := range a.choices {
		c := &a.choices[i]
		all = append(append(append(all, c.reasoning...), c.text...), c.refusal...)
		for _, t := range c.tools {
			all = append(append(all, t.name...), t.arguments...)
		}
	}
	return all
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
