package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// maxTrace bounds the reads a trace keeps.
const maxTrace = 10_000

// probeTokens caps the answer to a prompt of our own. A server that ignores it and says more is flagged, so it is not tight.
const probeTokens = 128

// Trace is what a sample leaves out: the reads one by one, and the text.
type Trace struct {
	// Reads lists the reads that brought body bytes, at most 10,000; Cut says that there were more.
	Reads []Read
	Cut   bool
	// Choices are in order of their index.
	Choices []Choice
	Stream  record.Stream
	// HTTP2 says that the request was sent, or was to be sent, over HTTP/2.
	HTTP2 bool
	// Looks is a hint at what else the service may speak, for a request that went wrong; empty when nothing shows it.
	Looks string
}

// Read is one read of the socket.
type Read struct {
	At record.Instant
	// Bytes is as read, transfer coding included; Events counts the events it completed, end marker excluded.
	Bytes, Events int
}

// Choice is one alternative of an answer, foreign text as it came.
type Choice struct {
	Index                    int
	Text, Reasoning, Refusal string
	ToolCalls                []ToolCall
	Finish                   string
}

// ToolCall is a call the model asked for, its fragments joined.
type ToolCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func (t *Trace) add(at record.Instant, bytes, events int) {
	if len(t.Reads) >= maxTrace {
		t.Cut = true
		return
	}
	t.Reads = append(t.Reads, Read{at, bytes, events})
}

// Once sends one request, due now, and tells what the client saw. body is a JSON object that is completed with what the
// dialect must set; nil asks for a short answer to a prompt of our own. o.Limits.NoProgress holds here, since one request
// is the whole round. An error is one of the options or the body: then nothing was sent. Whatever happens to the request
// itself is in the sample.
func Once(ctx context.Context, o Options, body []byte, stream bool) (record.Sample, Trace, error) {
	c, err := New(o)
	if err != nil {
		return record.Sample{}, Trace{}, err
	}
	defer c.Close()
	return c.once(ctx, body, stream)
}

func (c *Client) once(ctx context.Context, body []byte, stream bool) (record.Sample, Trace, error) {
	r, err := c.probing(body, "Say hello.", probeTokens, stream)
	if err != nil {
		return record.Sample{}, Trace{}, err
	}
	r.want.peek = true
	r.id, r.turn, r.Phase, r.Sched = "probe", 1, record.PhaseMeasure, c.o.Clock.Now()
	release := make(chan record.Instant, 1)
	release <- r.Sched
	x := c.exchange(ctx, r)
	x.watch.noProgress = c.o.Limits.NoProgress
	x.trace = &Trace{HTTP2: c.o.HTTP2}
	x.run(release)
	s, st := x.conclude()
	x.trace.Choices, x.trace.Stream, x.trace.Looks = x.ans.report(), st, x.hint(&s)
	return s, *x.trace, nil
}

// probing is a request of ours: the given body, else the client's example, else a short prompt. A body without a prompt gets
// ours, and one that asks for no stream gets none.
func (c *Client) probing(body []byte, prompt string, tokens int, stream bool) (*Request, error) {
	if body == nil {
		body = c.o.Example
	}
	switch {
	case c.speaks.verbatim && body == nil && c.o.Method != http.MethodGet:
		return nil, fmt.Errorf("dialect %s sends bodies as they are: give one", c.speaks.name)
	case c.speaks.verbatim:
		return c.verbatim(body, stream), nil
	case body == nil:
		return c.request(c.shortPrompt(prompt, tokens), stream)
	}
	f, err := parseFields(body)
	if err != nil {
		return nil, err
	}
	if off, ok := f["stream"].(bool); ok && !off {
		stream = false
	}
	if t := c.speaks.terms; f[t.messages] == nil && f[t.prompt] == nil && f["inputs"] == nil {
		maps.Copy(f, c.promptFields(prompt))
	}
	return c.request(f, stream)
}

// shortPrompt is a body of ours.
func (c *Client) shortPrompt(text string, tokens int) fields {
	f := c.promptFields(text)
	c.limit(f, tokens)
	if t := c.speaks.terms; t.temperature != "" {
		f.within(t.within)[t.temperature] = json.Number("0")
	}
	return f
}

// report is the text of an answer by choice.
func (a *answer) report() []Choice {
	var out []Choice
	for i := range a.choices {
		c := &a.choices[i]
		k := Choice{
			Index: c.index, Text: string(c.text), Reasoning: string(c.reasoning), Refusal: string(c.refusal), Finish: c.finish,
		}
		for _, t := range c.tools {
			k.ToolCalls = append(k.ToolCalls, ToolCall{string(t.name), string(t.arguments)})
		}
		out = append(out, k)
	}
	return out
}

// probeLimit bounds a readiness probe.
const probeLimit = 60 * time.Second

// Probe asks the server for one real answer of at most 8 tokens and fails unless it gets one with output: a server that
// answers its health check is not yet a model that answers. The prompt begins with random digits, so that it shares no
// prefix with any workload and warms no cache. The request enters no sample and no count.
func (c *Client) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if err := c.modelReady(ctx); err != nil {
		return err
	}
	r, err := c.probing(nil, rand.Text()+" Say hello.", 8, !c.o.NoStream)
	if err != nil {
		return err
	}
	s, x := c.aside(ctx, r)
	if s.Class == record.OK {
		return nil
	}
	return &ProbeError{Class: s.Class, Detail: s.Detail, Looks: c.looks(ctx, x, &s)}
}

// aside sends a request at once and keeps it out of the client's counts.
func (c *Client) aside(ctx context.Context, r *Request) (record.Sample, *exchange) {
	r.want.peek = true
	r.Sched = c.o.Clock.Now()
	release := make(chan record.Instant, 1)
	release <- r.Sched
	x := c.exchange(ctx, r)
	x.uncounted = true
	x.run(release)
	s, _ := x.conclude()
	return s, x
}

// ProbeError says how a readiness probe ended.
type ProbeError struct {
	Class record.Outcome
	// Detail is cleaned foreign text.
	Detail string
	// Looks is a hint at the dialect that the service may speak instead; empty when nothing shows it.
	Looks string
}

// Error names the outcome class and its detail, and the hint when there is one.
func (e *ProbeError) Error() string {
	text := fmt.Sprintf("probe: %s: %s", e.Class, e.Detail)
	if e.Looks != "" {
		text += "; " + e.Looks
	}
	return text
}
