package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Turn is one request of a conversation: a line of turns.jsonl. The turns that a [Plan] hands out have the manifest's
// defaults filled in.
type Turn struct {
	// ID is unique in the workload; Conv names the conversation; N is the turn's number in it, from 1.
	ID   string `json:"id"`
	Conv string `json:"conv"`
	N    int    `json:"turn"`
	// Group ties turns that share a prefix without depending on each other; sampling keeps groups whole. Empty means Conv.
	Group string `json:"group,omitempty"`
	// At is the offset from the workload's start, ns. A turn with predecessors is due no earlier than At.
	At time.Duration `json:"at,omitempty"`
	// After lists ids of predecessors in the same conversation; the turn is due Delay after the latest of their ends.
	After []string      `json:"after,omitempty"`
	Delay time.Duration `json:"delay,omitempty"`
	// InTokens is the planned length of the whole prompt, history included; 0 when unknown.
	InTokens int `json:"in_tokens,omitempty"`

	// Exactly one of HashIDs, Messages, Prompt and Body is set. HashIDs stand for the whole prompt, one per block; Messages
	// and Prompt for what this turn adds to its conversation; Body is sent as it stands.
	HashIDs  []BlockID     `json:"hash_ids,omitempty"`
	Messages []TurnMessage `json:"messages,omitempty"`
	Prompt   *Text         `json:"prompt,omitempty"`
	// Body is the text of a JSON value.
	Body *Text `json:"body,omitempty"`

	// Reply is the recorded answer, the history of later turns; nil when there is none.
	Reply *Reply `json:"reply,omitempty"`
	Out   Output `json:"out,omitzero"`

	Params     Params      `json:"params,omitzero"`
	Assertions []Assertion `json:"assertions,omitempty"`
	// AllowEmpty accepts an answer without text.
	AllowEmpty bool      `json:"allow_empty,omitempty"`
	Recorded   *Recorded `json:"recorded,omitempty"`
}

// Output is a turn's output-length plan. The zero value means the manifest's.
type Output struct {
	Mode   OutputMode `json:"mode,omitempty"`
	Tokens int        `json:"tokens,omitempty"`
}

// TurnMessage is one message as stored.
type TurnMessage struct {
	Role    string `json:"role"`
	Content Text   `json:"content"`
}

// Reply is a recorded answer: a text, or so many words of synthetic history.
type Reply struct {
	Text   *Text `json:"text,omitempty"`
	Tokens int   `json:"tokens,omitempty"`
}

// Recorded is what the source saw. Information only; nil or zero where it did not say.
type Recorded struct {
	TTFT      time.Duration `json:"ttft_ns,omitempty"`
	E2E       time.Duration `json:"e2e_ns,omitempty"`
	OutTokens int           `json:"out_tokens,omitempty"`
	Status    int           `json:"status,omitempty"`
	Finish    string        `json:"finish,omitempty"`
}

// Text is a string inline, or the id of one in texts.jsonl: "…" or {"text": "id"}.
type Text struct {
	Inline string
	// Ref is the id of a text; when set, Inline is empty.
	Ref string
}

// MarshalJSON writes the string, or the reference.
func (t Text) MarshalJSON() ([]byte, error) {
	if t.Ref != "" {
		return json.Marshal(map[string]string{"text": t.Ref})
	}
	return json.Marshal(t.Inline)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*t = Text{}
		return json.Unmarshal(b, &t.Inline)
	}
	var ref struct {
		Text string `json:"text"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&ref); err != nil {
		return fmt.Errorf(`want a string or {"text": id}: %w`, err)
	}
	if ref.Text == "" {
		return errors.New(`want a string or {"text": id}`)
	}
	*t = Text{Ref: ref.Text}
	return nil
}

// BlockID identifies a block of prompt text: a uint64, or a string when Text is not empty. It is comparable.
type BlockID struct {
	Number uint64
	Text   string
}

// String is the id as people write it.
func (b BlockID) String() string {
	if b.Text != "" {
		return b.Text
	}
	return strconv.FormatUint(b.Number, 10)
}

// MarshalJSON writes a number or a string.
func (b BlockID) MarshalJSON() ([]byte, error) {
	if b.Text != "" {
		return json.Marshal(b.Text)
	}
	return strconv.AppendUint(nil, b.Number, 10), nil
}

// UnmarshalJSON reads a non-negative integer below 2^64 or a non-empty string.
func (b *BlockID) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*b = BlockID{}
		if err := json.Unmarshal(data, &b.Text); err != nil {
			return err
		}
		if b.Text == "" {
			return errors.New("a hash id cannot be an empty string")
		}
		return nil
	}
	n, err := strconv.ParseUint(string(data), 10, 64)
	if err != nil {
		return fmt.Errorf("hash id %.40q is neither a uint64 nor a string", data)
	}
	*b = BlockID{Number: n}
	return nil
}
