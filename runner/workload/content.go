package workload

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Content is the content of a request. Exactly one field is set: Messages for conversations and for workloads made for a
// chat dialect, Prompt for the others, Body where the source's body is sent as it stands.
type Content struct {
	Messages []Message
	Prompt   string
	Body     json.RawMessage
}

// Message is one message of a chat prompt.
type Message struct {
	Role    string
	Content string
}

// Content gives what request r says. The same workload, turn and salt give the same bytes always and everywhere. It keeps
// nothing: making a prompt costs some 30 ns a word. It is safe for concurrent use; the error names a turn that is not
// this workload's.
func (w *Workload) Content(r Request) (Content, error) {
	t := r.Turn
	if t == nil || w.index == nil {
		return Content{}, fmt.Errorf("workload %q: a request without a turn, or a workload that was not opened", w.Manifest.Name)
	}
	switch {
	case len(t.HashIDs) > 0:
		return w.chat([]Message{{Role: "user", Content: w.hashed(t, r.Salt)}}), nil
	case t.Body != nil:
		return Content{Body: json.RawMessage(w.text(*t.Body))}, nil
	case t.Prompt != nil:
		return w.prompt(t, r.Salt)
	default:
		return w.messages(t, r.Salt)
	}
}

// chat wraps messages for the workload's dialect.
func (w *Workload) chat(m []Message) Content {
	if !w.chatty() {
		texts := make([]string, 0, len(m)+1)
		if w.Manifest.System != "" {
			texts = append(texts, w.Manifest.System)
		}
		for _, x := range m {
			texts = append(texts, x.Content)
		}
		return Content{Prompt: strings.Join(texts, "\n\n")}
	}
	if w.Manifest.System != "" {
		m = append([]Message{{Role: "system", Content: w.Manifest.System}}, m...)
	}
	return Content{Messages: m}
}

// chatty reports whether the workload was made for a dialect of messages.
func (w *Workload) chatty() bool {
	switch w.Manifest.Dialect {
	case "", "openai-chat", "ollama":
		return true
	default:
		return false
	}
}

// hashed spells a prompt of hash ids. In words, it is exactly InTokens long.
func (w *Workload) hashed(t *Turn, salt string) string {
	scope := ""
	if w.Manifest.HashScope == ScopeConversation {
		scope = t.Conv
	}
	left := t.InTokens
	b := make([]byte, 0, 8*left)
	for _, id := range t.HashIDs {
		s := ""
		if salt != "" && w.index.private(w.Manifest.HashScope, id) {
			s = salt
		}
		b = appendBlock(b, w.blockHash(scope, id, s), min(left, w.Manifest.BlockSize))
		left -= w.Manifest.BlockSize
	}
	return string(b)
}

// text resolves a reference; the reader has checked that it exists.
func (w *Workload) text(t Text) string {
	if t.Ref != "" {
		return w.Texts[t.Ref]
	}
	return t.Inline
}

// reply is the recorded answer of a turn, or words in its place.
func (w *Workload) reply(t *Turn) string {
	switch {
	case t.Reply == nil:
		return ""
	case t.Reply.Text != nil:
		return w.text(*t.Reply.Text)
	default:
		hash := derive("tailgate-reply/1", w.Manifest.Seed, t.ID)
		return string(appendBlock(nil, hash, t.Reply.Tokens))
	}
}

// saltWords stand before the first text that no other conversation group starts with.
func (w *Workload) saltWords(salt string) string {
	return string(appendBlock(nil, derive("tailgate-salt/1", w.Manifest.Seed, salt), spelled)) + " "
}

// prompt joins the prompts and replies of the turns before t with its own.
func (w *Workload) prompt(t *Turn, salt string) (Content, error) {
	var b strings.Builder
	if salt != "" {
		b.WriteString(w.saltWords(salt))
	}
	for _, p := range w.history(t) {
		if p.Prompt == nil {
			return Content{}, fmt.Errorf("turn %q: its predecessor %q is not a prompt", t.ID, p.ID)
		}
		b.WriteString(w.text(*p.Prompt))
		b.WriteString(w.reply(p))
	}
	b.WriteString(w.text(*t.Prompt))
	return Content{Prompt: b.String()}, nil
}

// messages lists the messages and replies of the turns before t, then its own.
func (w *Workload) messages(t *Turn, salt string) (Content, error) {
	var all []Message
	if w.Manifest.System != "" {
		all = append(all, Message{Role: "system", Content: w.Manifest.System})
	}
	first := len(all)
	for _, p := range w.history(t) {
		if len(p.Messages) == 0 {
			return Content{}, fmt.Errorf("turn %q: its predecessor %q has no messages", t.ID, p.ID)
		}
		all = w.appendMessages(all, p)
		if p.Reply != nil {
			all = append(all, Message{Role: "assistant", Content: w.reply(p)})
		}
	}
	all = w.appendMessages(all, t)
	if salt != "" {
		if i := first + w.index.firstPrivate(all[first:]); i < len(all) {
			all[i].Content = w.saltWords(salt) + all[i].Content
		}
	}
	return Content{Messages: all}, nil
}

func (w *Workload) appendMessages(all []Message, t *Turn) []Message {
	for _, m := range t.Messages {
		all = append(all, Message{Role: m.Role, Content: w.text(m.Content)})
	}
	return all
}

// history lists the turns that t follows, directly or not, in turn order.
func (w *Workload) history(t *Turn) []*Turn {
	if len(t.After) == 0 {
		return nil
	}
	before := map[string]bool{}
	for _, id := range t.After {
		before[id] = true
	}
	members := w.index.conversations[t.Conv]
	var out []*Turn
	for _, i := range slices.Backward(members) {
		p := &w.Turns[i]
		if p.N < t.N && before[p.ID] {
			out = append(out, p)
			for _, id := range p.After {
				before[id] = true
			}
		}
	}
	slices.Reverse(out)
	return out
}
