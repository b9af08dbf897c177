package scripttest

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Chance is what a playback leaves to chance. The zero value is fake time over an in-memory connection, where each instant
// is exact.
type Chance struct {
	// Reads: reads may take parts of writes, or several.
	Reads bool
	// Late is how much later than the script's time, or than the write it stands for, an instant may be; 0 for exact ones.
	Late time.Duration
}

// Flags are those that expected.json lists exactly; others are free.
func Flags() []string {
	return []string{
		"no_done_marker", "no_finish_reason", "usage_inconsistent", "reasoning_only", "not_streamed", "bunched_stream", "model_reloaded",
	}
}

// Check holds the JSON of a probe against expected.json and lists what differs. p may be nil when the server's own stamps
// are not at hand; then the script's times stand for them.
func (s *Script) Check(out []byte, p *Playback, free Chance) []string {
	var want, got map[string]any
	if err := json.Unmarshal(s.Expected, &want); err != nil {
		return []string{"expected.json: " + err.Error()}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return []string{"the probe's output: " + err.Error()}
	}
	c := comparison{want: want, got: got, play: p, free: free}
	c.tolerance, _ = want["tolerance_ms"].(float64)
	var wrong []string
	for key, w := range want {
		g, there := got[key]
		text := c.differs(key, w, g)
		if text == "" && !there && w != nil && key != "tolerance_ms" {
			text = "missing"
		}
		if text != "" {
			wrong = append(wrong, key+": "+text)
		}
	}
	slices.Sort(wrong)
	return wrong
}

type comparison struct {
	want, got map[string]any
	play      *Playback
	free      Chance
	tolerance float64
}

// differs says how a value differs from what is wanted, "" when it does not.
func (c *comparison) differs(key string, want, got any) string {
	switch key {
	case "tolerance_ms":
		return ""
	case "outcome":
		return differingOutcome(want, got)
	case "detail":
		text, _ := got.(string)
		word, _ := want.(string)
		if !strings.Contains(text, word) {
			return fmt.Sprintf("want %q in %q", word, text)
		}
		return ""
	case "flags":
		return c.flags(want, got)
	case "inter_chunk_ms":
		if c.free.Reads {
			return ""
		}
		return c.gaps(want, got)
	case "tpot_ms":
		return c.tpot(want, got)
	}
	w, number := want.(float64)
	if !number || !strings.HasSuffix(key, "_ms") {
		return differing(want, got)
	}
	g, ok := got.(float64)
	if !ok {
		return differing(want, got)
	}
	if key == "load_ms" {
		return near(w, g, 1e-6)
	}
	return c.instant(w, g)
}

func differing(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return fmt.Sprintf("want %v, got %v", want, got)
}

func near(want, got, tolerance float64) string {
	if math.Abs(want-got) > tolerance {
		return fmt.Sprintf("want %v, got %v", want, got)
	}
	return ""
}

// early is how much before the server's write an instant may seem to be: the client may be held up between writing the
// request and stamping that it did, and times count from that stamp.
const early = 1000

// instant compares a time from the sent request.
func (c *comparison) instant(want, got float64) string {
	if c.free.Late == 0 {
		return near(want, got, 1e-6)
	}
	at := want
	if c.play != nil {
		if written, ok := c.play.At[time.Duration(want*1e6)]; ok {
			at = float64(written) / 1e6
		}
	}
	if got < at-c.tolerance-early || got > at+c.tolerance+float64(c.free.Late)/1e6 {
		return fmt.Sprintf("want %v (written at %v), got %v", want, at, got)
	}
	return ""
}

func differingOutcome(want, got any) string {
	ok := false
	switch w := want.(type) {
	case string:
		ok = w == got || w == "failed" && got != "ok" && got != nil
	case []any:
		ok = slices.Contains(w, got)
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("want %v, got %v", want, got)
}

func (c *comparison) flags(want, got any) string {
	keep := func(list any) []string {
		out := []string{}
		all, _ := list.([]any)
		for _, f := range all {
			if name, _ := f.(string); slices.Contains(Flags(), name) && (!c.free.Reads || name != "bunched_stream") {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		return out
	}
	return differing(keep(want), keep(got))
}

// gaps compares the ends of the gaps, which are instants, rather than the gaps.
func (c *comparison) gaps(want, got any) string {
	wants, _ := want.([]any)
	gots, _ := got.([]any)
	if len(gots) != len(wants) {
		return fmt.Sprintf("want %v, got %v", want, got)
	}
	wantAt, ok := c.want["ttft_ms"].(float64)
	gotAt, ok2 := c.got["ttft_ms"].(float64)
	if !ok || !ok2 {
		return ""
	}
	for i := range wants {
		wantAt += wants[i].(float64)
		gotAt += gots[i].(float64)
		if text := c.instant(wantAt, gotAt); text != "" {
			return fmt.Sprintf("end of gap %d: %s", i, text)
		}
	}
	return ""
}

func (c *comparison) tpot(want, got any) string {
	w, number := want.(float64)
	g, there := got.(float64)
	if !number || !there {
		return differing(want, got)
	}
	if c.free.Late > 0 {
		return ""
	}
	n, _ := c.want["output_tokens"].(float64)
	return near(w, g, max(0.2, 2*c.tolerance/max(n-1, 1)))
}
