package record

// AnswerReport counts, over the successful answers of a round, what its percentiles leave out or hide. It is information:
// no rule judges it.
type AnswerReport struct {
	// Streamed counts answers with a timeline; Bunched those of them that came in one read, or in reads of four events.
	Streamed int `json:"streamed"`
	Bunched  int `json:"bunched"`
	// ReasoningOnly counts answers that hit their cap while reasoning: they have a TTFT and no TTFO.
	ReasoningOnly int `json:"reasoning_only"`
	// WithoutTPOT counts answers with too few tokens for a time per output token; its percentiles leave them out.
	WithoutTPOT int `json:"without_tpot"`
	// UsageInconsistent counts answers whose token counts cannot be true; Estimated those without any.
	UsageInconsistent int `json:"usage_inconsistent"`
	Estimated         int `json:"estimated"`
	// Stalls counts gaps between reads over ten times the median gap of their own answer; Stalled the answers that have one.
	Stalls  int `json:"stalls"`
	Stalled int `json:"stalled"`
	// LongestStall is the longest gap between two reads of one answer, ms; n/a when no answer came in two reads.
	LongestStall Value `json:"longest_stall_ms"`
}

func answers(reqs []request, d map[string]*distribution) AnswerReport {
	a := AnswerReport{WithoutTPOT: d["tpot"].without, LongestStall: NA("no answer came in two reads")}
	for _, r := range reqs {
		if r.Class != OK {
			continue
		}
		if r.flagged(usageBad) {
			a.UsageInconsistent++
		}
		if r.TokensFrom == Estimated {
			a.Estimated++
		}
		if r.First.Reached() && !r.FirstOut.Reached() && !r.flagged(notStreamed) {
			a.ReasoningOnly++
		}
		if len(r.stream.T) == 0 {
			continue
		}
		a.Streamed++
		if r.bunched() {
			a.Bunched++
		}
		if n := r.stalls(); n > 0 {
			a.Stalls += n
			a.Stalled++
		}
	}
	if longest := d["stall"].points; len(longest) > 0 {
		a.LongestStall = Of(longest[len(longest)-1].value)
	}
	return a
}
