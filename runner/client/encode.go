package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// message is a chat message as sent.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Encode serialises request r of workload w as request seq of a round. Equal turns and salts give equal bodies, in every
// round and on every machine. It is safe for concurrent use and meant to be called ahead of time. The error names the
// turn; it is a fault of the workload or of its fit to the dialect, never of the server.
func (c *Client) Encode(seq int, w *workload.Workload, r workload.Request) (*Request, error) {
	out, err := c.encode(w, r)
	if err != nil {
		return nil, fmt.Errorf("turn %s: %w", clean(r.Turn.ID, 128), err)
	}
	t := r.Turn
	out.Seq, out.Phase = seq, record.PhaseMeasure
	out.id, out.conv, out.turn = t.ID, t.Conv, t.N
	out.inPlanned, out.outPlanned, out.allowEmpty = t.InTokens, t.Out.Tokens, t.AllowEmpty
	out.want.planned = t.Out.Tokens
	if out.want.planned == 0 {
		out.want.planned = out.want.maxTokens
	}
	return out, nil
}

// Encodes reports whether requests of w can be put into the words of the dialect that o names. It does not touch the network
// and needs no server at o.URL. The error is that of [Client.Encode] for the first request that cannot, or of the options.
func Encodes(o Options, w *workload.Workload, requests []workload.Request) error {
	c, err := prepare(o)
	if err != nil {
		return err
	}
	for i, r := range requests {
		if _, err := c.Encode(i, w, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) encode(w *workload.Workload, r workload.Request) (*Request, error) {
	content, err := w.Content(r)
	if err != nil {
		return nil, err
	}
	out, err := c.encodeContent(w, r.Turn, content)
	if err != nil {
		return nil, err
	}
	out.checks, err = checksOf(w, r.Turn)
	return out, err
}

func (c *Client) encodeContent(w *workload.Workload, t *workload.Turn, content workload.Content) (*Request, error) {
	stream := !c.o.NoStream
	if t.Params.Stream != nil {
		stream = *t.Params.Stream
	}
	if c.speaks.verbatim {
		if content.Body == nil {
			return nil, fmt.Errorf("dialect %s sends a turn's body as it is, and this turn has none", c.speaks.name)
		}
		return c.verbatim(content.Body, stream), nil
	}
	f, err := c.contentFields(content)
	if err != nil {
		return nil, err
	}
	if c.speaks.terms.id != "" {
		f.otherwise(c.speaks.terms.id, t.ID)
	}
	c.length(f, w, t)
	c.sampling(f, t.Params)
	return c.request(f, stream)
}

// takesPrompt reports whether the prompt is a text rather than a list of messages.
func (c *Client) takesPrompt() bool {
	t := c.speaks.terms
	return t.messages == "" || t.promptAt != "" && pathEnds(c.path(true), t.promptAt)
}

// contentFields begins a body with what the workload says. A whole body keeps every key it has.
func (c *Client) contentFields(content workload.Content) (fields, error) {
	switch {
	case content.Body != nil:
		return parseFields(content.Body)
	case c.takesPrompt() && content.Messages != nil:
		return nil, fmt.Errorf("it has chat messages; dialect %s takes a prompt", c.speaks.name)
	case content.Messages == nil:
		return c.promptFields(content.Prompt), nil
	default:
		messages := make([]message, len(content.Messages))
		for i, m := range content.Messages {
			messages[i] = message(m)
		}
		return fields{c.speaks.terms.messages: messages}, nil
	}
}

// promptFields is a body with a prompt, in a chat the message of a user.
func (c *Client) promptFields(prompt string) fields {
	t, f := c.speaks.terms, fields{}
	switch {
	case t.wrap != nil:
		t.wrap(f, prompt)
	case c.takesPrompt():
		f[t.prompt] = prompt
	default:
		f[t.messages] = []message{{"user", prompt}}
	}
	return f
}

// length asks for the planned output length. A cap that a whole body brings stays.
func (c *Client) length(f fields, w *workload.Workload, t *workload.Turn) {
	switch t.Out.Mode {
	case workload.Free:
		c.limit(f, c.freeCap(w))
	case workload.Force:
		c.force(f, t.Out.Tokens)
	case workload.Cap:
		c.limit(f, t.Out.Tokens)
	}
}

// limit caps the output unless the body has a cap of its own.
func (c *Client) limit(f fields, tokens int) {
	if tokens == 0 || len(c.speaks.terms.caps) == 0 {
		return
	}
	at := f.within(c.speaks.terms.within)
	for _, name := range c.speaks.terms.caps {
		if _, set := at[name]; set {
			return
		}
	}
	for _, name := range c.caps() {
		at[name] = tokens
	}
}

// force asks for an answer of exactly so many tokens, as far as the dialect has words for it: a cap at least.
func (c *Client) force(f fields, tokens int) {
	if tokens == 0 || len(c.speaks.terms.caps) == 0 {
		return
	}
	at := f.within(c.speaks.terms.within)
	for _, name := range c.speaks.terms.caps {
		delete(at, name)
	}
	for _, name := range c.caps() {
		at[name] = tokens
	}
	if c.speaks.terms.force != nil {
		c.speaks.terms.force(at, tokens)
	}
}

// caps are the fields that limit the output, as configured.
func (c *Client) caps() []string {
	all := c.speaks.terms.caps
	switch c.o.CapField {
	case capBoth:
		return all
	case "":
		return all[:1]
	default:
		return []string{c.o.CapField}
	}
}

// freeCap is the safety cap of free output: four times the workload's planned p99.
func (c *Client) freeCap(w *workload.Workload) int {
	if known, ok := c.freeCaps.Load(w); ok {
		return known.(int)
	}
	n := 4 * w.Info(time.Duration(w.Manifest.Arrivals.SpanNS)).OutTokens.P99
	c.freeCaps.Store(w, n)
	return n
}

// sampling adds the sampling parameters, temperature 0 and seed 0 unless the workload says otherwise: a comparison needs
// answers that differ by build, not by chance.
func (c *Client) sampling(f fields, p workload.Params) {
	t := c.speaks.terms
	if t.temperature == "" {
		return
	}
	temperature, seed := json.Number("0"), int64(0)
	if p.Temperature != "" {
		temperature = json.Number(p.Temperature)
	}
	if p.Seed != nil {
		seed = *p.Seed
	}
	at := f.within(t.within)
	at.otherwise(t.temperature, temperature)
	at.otherwise(t.seed, seed)
	if p.TopP != "" {
		at.otherwise(t.topP, json.Number(p.TopP))
	}
}

// otherwise sets a field that is not there yet.
func (f fields) otherwise(key string, value any) {
	if _, set := f[key]; !set {
		f[key] = value
	}
}

func checksOf(w *workload.Workload, t *workload.Turn) ([]check, error) {
	var checks []check
	for i := range t.Assertions {
		c, err := checkOf(w, t, &t.Assertions[i])
		if err != nil {
			return nil, fmt.Errorf("assertion %d: %w", i+1, err)
		}
		if c.run != nil {
			checks = append(checks, c)
		}
	}
	return checks, nil
}

// checkOf makes a check of an assertion; that of non_empty is part of every outcome.
func checkOf(w *workload.Workload, t *workload.Turn, a *workload.Assertion) (check, error) {
	switch {
	case a.NonEmpty:
		return check{}, nil
	case len(a.Finish) > 0:
		return finishCheck(a.Finish), nil
	case a.MinTokens != nil:
		return tokensCheck("min_tokens", *a.MinTokens, func(n, limit int) bool { return n >= limit }), nil
	case a.MaxTokens != nil:
		return tokensCheck("max_tokens", *a.MaxTokens, func(n, limit int) bool { return n <= limit }), nil
	case a.Contains != "":
		return containsCheck(a.Contains), nil
	case a.Regexp != "":
		return regexpCheck(a.Regexp)
	case a.JSON:
		return jsonCheck(), nil
	case a.Status != 0:
		return statusCheck(a.Status), nil
	case a.Pointer != nil:
		return pointerCheck(pointerRule(*a.Pointer))
	case a.EqualsRecorded:
		if t.Reply == nil || t.Reply.Text == nil {
			return check{}, errors.New("equals_recorded needs a recorded reply")
		}
		if ref := t.Reply.Text.Ref; ref != "" {
			return equalsCheck(w.Texts[ref]), nil
		}
		return equalsCheck(t.Reply.Text.Inline), nil
	default:
		return check{}, errors.New("it checks nothing")
	}
}
