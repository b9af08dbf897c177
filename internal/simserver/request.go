package simserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// maxBody is the largest request body taken.
const maxBody = 64 << 20

// call is an inference request, understood.
type call struct {
	model  string
	prompt *prompt
	output int    // tokens the answer will have
	finish string // "length" or "stop"
	stream bool
	usage  usageMode
}

// usageMode is where a stream carries token counts.
type usageMode int

const (
	usageNone usageMode = iota
	usageEnd            // one event before the end marker
	usageEach           // that, and in every event
)

// body holds the keys of both endpoints that matter here. Others (temperature, seed, …) are taken and change nothing.
type body struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	Stream              bool            `json:"stream"`
	StreamOptions       streamOptions   `json:"stream_options"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	N                   *int            `json:"n"`
}

type streamOptions struct {
	IncludeUsage         bool `json:"include_usage"`
	ContinuousUsageStats bool `json:"continuous_usage_stats"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is the text of a message, given as a string or as a list of parts; parts that are not text are skipped.
type content string

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] != '[' {
		return json.Unmarshal(data, (*string)(c)) // null stays empty
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		*c += content(p.Text) + "\n"
	}
	return nil
}

// parseCall reads a request of either endpoint. An error is the client's: its text goes into a 400.
func parseCall(api dialect, cfg *Config, data []byte) (*call, error) {
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	if b.N != nil && *b.N != 1 {
		return nil, errors.New("n: this server gives one choice")
	}
	p := newPrompt(cfg.BlockTokens, cfg.TemplateTokens)
	var err error
	if api.chat {
		err = p.chat(b.Messages)
	} else {
		err = p.raw(b.Prompt)
	}
	if err != nil {
		return nil, err
	}
	c := &call{model: b.Model, prompt: p, stream: b.Stream}
	if c.model == "" {
		c.model = cfg.Model
	}
	if b.Stream && b.StreamOptions.IncludeUsage {
		c.usage = usageEnd
		if b.StreamOptions.ContinuousUsageStats {
			c.usage = usageEach
		}
	}
	c.output, c.finish, err = b.length(cfg, p)
	return c, err
}

// length decides how long the answer is, and why it ends there.
func (b *body) length(cfg *Config, p *prompt) (tokens int, finish string, err error) {
	limit := cfg.DefaultTokens
	switch {
	case b.MaxCompletionTokens != nil:
		limit = *b.MaxCompletionTokens
	case b.MaxTokens != nil:
		limit = *b.MaxTokens
	}
	if limit < 1 || limit > maxOutput {
		return 0, "", fmt.Errorf("max_tokens: must be 1 to %d, got %d", maxOutput, limit)
	}
	if span := cfg.NaturalTokens; span.Max > 0 && !b.IgnoreEOS {
		natural := max(span.draw(mix(cfg.Seed, p.hash)), b.MinTokens)
		if natural < limit {
			return natural, "stop", nil
		}
	}
	return limit, "length", nil
}

func (p *prompt) chat(messages []message) error {
	if len(messages) == 0 {
		return errors.New("messages: must not be empty")
	}
	for _, m := range messages {
		p.role(m.Role)
		p.text(string(m.Content))
	}
	return nil
}

// raw takes the prompt of /v1/completions: text, a list of one text, token numbers, or a list of one list of them.
func (p *prompt) raw(data json.RawMessage) error {
	var one string
	if json.Unmarshal(data, &one) == nil && len(data) > 0 && data[0] == '"' {
		p.text(one)
		return nil
	}
	var texts []string
	if json.Unmarshal(data, &texts) == nil && len(texts) == 1 {
		p.text(texts[0])
		return nil
	}
	var lists [][]int64
	if json.Unmarshal(data, &lists) == nil && len(lists) == 1 {
		data = slices.Clone(data[1 : len(data)-1])
	}
	var ids []int64
	if json.Unmarshal(data, &ids) == nil && len(ids) > 0 {
		for _, id := range ids {
			p.id(id)
		}
		return nil
	}
	return errors.New("prompt: must be one text or one list of token numbers")
}
