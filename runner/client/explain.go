package client

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// FlagBunchedStream is a flag of a round, shown here for the one request there is: 8 tokens or more of which one read held
// all payload, or 4 payload events and more per read.
const FlagBunchedStream = "bunched_stream"

// Explanation is one request as `tailgate probe --json` prints it. Times are milliseconds from the sent request; null is
// n/a, never 0.
type Explanation struct {
	Outcome      record.Outcome     `json:"outcome"`
	Detail       string             `json:"detail"`
	HTTPStatus   *int               `json:"http_status"`
	FirstByte    *float64           `json:"first_byte_ms"`
	TTFT         *float64           `json:"ttft_ms"`
	FirstContent *float64           `json:"first_content_ms"`
	E2E          *float64           `json:"e2e_ms"`
	TPOT         *float64           `json:"tpot_ms"`
	InterChunk   []float64          `json:"inter_chunk_ms"`
	Input        *int               `json:"input_tokens"`
	Output       *int               `json:"output_tokens"`
	Cached       *int               `json:"cached_tokens"`
	Source       record.TokenSource `json:"tokens_source"`
	Text         string             `json:"text"`
	Reasoning    string             `json:"reasoning"`
	Texts        map[string]string  `json:"texts,omitempty"`
	ToolCalls    []ToolCall         `json:"tool_calls"`
	// Finish is a string, or a map of strings by index when there are several choices.
	Finish        any      `json:"finish"`
	PayloadEvents int      `json:"payload_events"`
	BadEvents     int      `json:"bad_events"`
	BadUTF8       int      `json:"bad_utf8"`
	Trailing      int64    `json:"trailing_bytes"`
	Load          *float64 `json:"load_ms"`
	Flags         []string `json:"flags"`
	// Protocol is HTTP/2, or left out for HTTP/1.1.
	Protocol string `json:"protocol,omitempty"`
	// Looks is a hint at another dialect; left out when there is none.
	Looks string `json:"looks_like,omitempty"`
}

// Explain puts a sample and its trace into the words of a probe. A latency of a failed request is n/a; its events and text
// stay.
func Explain(s record.Sample, t Trace) Explanation {
	e := Explanation{
		Outcome: s.Class, Detail: s.Detail, FirstByte: since(s, s.Header), Input: s.NIn, Output: s.NOut, Cached: s.NCached,
		Source: s.TokensFrom, PayloadEvents: s.PayloadEvents, BadEvents: s.BadEvents, BadUTF8: s.BadUTF8, Trailing: s.TrailingBytes,
		InterChunk: interChunk(t.Stream), Flags: append([]string{}, s.Flags...), ToolCalls: []ToolCall{},
		Looks: t.Looks,
	}
	if t.HTTP2 {
		e.Protocol = "HTTP/2"
	}
	if s.Status != 0 {
		e.HTTPStatus = new(s.Status)
	}
	if s.Class == record.OK {
		e.TTFT, e.FirstContent, e.E2E, e.TPOT = since(s, s.First), since(s, s.FirstOut), since(s, s.End), tpot(s, t.Stream)
	}
	if bunched(s, t.Stream) {
		e.Flags = append(e.Flags, FlagBunchedStream)
	}
	if load := s.Server.Load; load != nil {
		e.Load = new(millis(*load))
	}
	if s.Reloaded() {
		e.Flags = append(e.Flags, FlagModelReloaded)
	}
	e.texts(t.Choices)
	return e
}

// ProbeJSON is [Explain] as one indented JSON object with a final newline.
func ProbeJSON(s record.Sample, t Trace) ([]byte, error) {
	b, err := json.MarshalIndent(Explain(s, t), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	return append(b, '\n'), nil
}

func (e *Explanation) texts(choices []Choice) {
	if len(choices) == 0 {
		return
	}
	first := choices[0]
	e.Text, e.Reasoning = first.Text, first.Reasoning
	e.ToolCalls = append(e.ToolCalls, first.ToolCalls...)
	if first.Finish != "" {
		e.Finish = first.Finish
	}
	if len(choices) == 1 {
		return
	}
	finish := map[string]string{}
	e.Texts = map[string]string{}
	for _, c := range choices {
		index := strconv.Itoa(c.Index)
		e.Texts[index] = c.Text
		if c.Finish != "" {
			finish[index] = c.Finish
		}
	}
	e.Finish = finish
}

// since is the time from the sent request to an instant, nil when one of both was not reached.
func since(s record.Sample, at record.Instant) *float64 {
	if !at.Reached() || !s.Wrote.Reached() {
		return nil
	}
	return new(millis(int64(at - s.Wrote)))
}

func millis(ns int64) float64 { return float64(ns) / float64(time.Millisecond) }

// tpot is (last - first) / (output tokens - tokens of the first payload event), the latter 1 when unknown; nil when one
// event held everything.
func tpot(s record.Sample, st record.Stream) *float64 {
	if s.NOut == nil || len(st.T) < 2 {
		return nil
	}
	first := 1
	if len(st.N) > 0 {
		first = st.N[0]
	}
	if *s.NOut-first < 1 {
		return nil
	}
	return new(millis(int64(s.Last-s.First)) / float64(*s.NOut-first))
}

// interChunk lists the gaps between consecutive reads that carried payload, nil when none did.
func interChunk(st record.Stream) []float64 {
	if len(st.T) == 0 {
		return nil
	}
	gaps := []float64{}
	for i := 1; i < len(st.T); i++ {
		if len(st.R) == 0 || st.R[i] > 0 {
			gaps = append(gaps, millis(st.T[i]))
		}
	}
	return gaps
}

func bunched(s record.Sample, st record.Stream) bool {
	reads := len(interChunk(st)) + 1
	return s.NOut != nil && *s.NOut >= 8 && len(st.T) > 0 && (reads == 1 || len(st.T) >= 4*reads)
}

// ProbeText writes what [Explain] says for people: outcome, instants, tokens, flags, then the reads. Foreign text is cut
// and cleaned.
func ProbeText(w io.Writer, s record.Sample, t Trace) error {
	e := Explain(s, t)
	b := new(strings.Builder)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "%-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("outcome", "%s", strings.TrimSuffix(fmt.Sprintf("%s: %s", e.Outcome, e.Detail), ": "))
	if e.HTTPStatus != nil {
		line("status", "%d", *e.HTTPStatus)
	}
	if e.Protocol != "" {
		line("protocol", "%s", e.Protocol)
	}
	line("connect", "%s, dial %.2f ms, tls %.2f ms", map[bool]string{true: "reused", false: "new"}[s.Reused], millis(s.DialNS), millis(s.TLSNS))
	for _, i := range []struct {
		name string
		ms   *float64
	}{
		{"first byte", e.FirstByte},
		{"TTFT", e.TTFT},
		{"first content", e.FirstContent},
		{"E2E", e.E2E},
		{"TPOT", e.TPOT},
	} {
		line(i.name, "%s", orNA(i.ms, "%.2f ms"))
	}
	line("largest gap", "%s", orNA(largest(e.InterChunk), "%.2f ms"))
	source := "from " + string(e.Source)
	if e.Source == "" || e.Source == record.Estimated {
		source = "no count from the server"
	}
	line("tokens", "in %s (cached %s), out %s (reasoning %s), %s", orNA(e.Input, "%d"), orNA(e.Cached, "%d"), orNA(e.Output, "%d"), orNA(s.NReasoning, "%d"), source)
	line("events", "%d, %d with payload, %d not JSON, in %d reads; %d bytes in, %d out", s.Events, e.PayloadEvents, e.BadEvents, s.Reads, s.BytesIn, s.BytesOut)
	if e.Load != nil {
		line("model load", "%.2f ms", *e.Load)
	}
	line("flags", "%s", orNone(strings.Join(e.Flags, ", ")))
	if e.Looks != "" {
		line("hint", "%s", e.Looks)
	}
	writeChoices(b, t.Choices)
	writeReads(b, s, t)
	_, err := io.WriteString(w, b.String())
	return err
}

// shownText bounds the text shown of one channel, in bytes; shownReads the reads listed.
const (
	shownText  = 400
	shownReads = 40
)

func writeChoices(b *strings.Builder, choices []Choice) {
	for _, c := range choices {
		fmt.Fprintf(b, "%-14s finish %s\n", fmt.Sprintf("choice %d", c.Index), orNone(clean(c.Finish, 64)))
		for _, channel := range []struct{ name, text string }{{"reasoning", c.Reasoning}, {"text", c.Text}, {"refusal", c.Refusal}} {
			if channel.text != "" {
				fmt.Fprintf(b, "  %-12s %s\n", channel.name, clean(channel.text, shownText))
			}
		}
		for _, k := range c.ToolCalls {
			fmt.Fprintf(b, "  %-12s %s(%s)\n", "tool call", clean(k.Name, 64), clean(k.Arguments, shownText))
		}
	}
}

func writeReads(b *strings.Builder, s record.Sample, t Trace) {
	if len(t.Reads) == 0 {
		return
	}
	b.WriteString("reads of the body (ms from the sent request, bytes, events completed)\n")
	for i, r := range t.Reads {
		if i == shownReads {
			fmt.Fprintf(b, "  … %d more\n", len(t.Reads)-shownReads)
			return
		}
		fmt.Fprintf(b, "  %10.2f %7d %4d\n", millis(int64(r.At-s.Wrote)), r.Bytes, r.Events)
	}
}

func orNA[T any](p *T, format string) string {
	if p == nil {
		return "n/a"
	}
	return fmt.Sprintf(format, *p)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func largest(gaps []float64) *float64 {
	if len(gaps) == 0 {
		return nil
	}
	return new(slices.Max(gaps))
}
