package workload

import (
	"fmt"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Facts describe a workload, for `workload show`. Rates are requests per second, shares fractions.
type Facts struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Digest  string `json:"digest"`
	Source  Source `json:"source"`
	Counts  Counts `json:"counts"`
	// Groups counts sets of conversations that share a prefix; LargestGroup is the turns of the greatest.
	Groups       int              `json:"groups"`
	LargestGroup int              `json:"largest_group"`
	InTokens     record.Quantiles `json:"in_tokens"`
	OutTokens    record.Quantiles `json:"out_tokens"`
	Span         time.Duration    `json:"span_ns"`
	Rate         record.Value     `json:"rate_rps"`
	// IoD is the index of dispersion of arrivals at 1, 10 and 60 s; n/a below two complete windows.
	IoD1  record.Value `json:"iod_1s"`
	IoD10 record.Value `json:"iod_10s"`
	IoD60 record.Value `json:"iod_60s"`
	// PeakToMean is of counts per second.
	PeakToMean record.Value `json:"peak_to_mean_1s"`
	// PrefixShare is the token share that a prefix cache without bound could serve.
	PrefixShare record.Value      `json:"prefix_share"`
	Arrivals    Arrivals          `json:"arrivals"`
	Output      OutputPolicy      `json:"output"`
	Tokenizer   Tokenizer         `json:"tokenizer,omitzero"`
	Fidelity    []record.Fidelity `json:"fidelity"`
}

// Describe computes the facts of a workload.
func (w *Workload) Describe() Facts {
	all := w.timeline()
	f := Facts{
		Name: w.Manifest.Name, Version: w.Manifest.Version, Digest: w.Digest(), Source: w.Manifest.Source,
		Counts: w.Manifest.Counts, Span: w.Span(), PrefixShare: w.prefixShare(all), Arrivals: w.Manifest.Arrivals,
		Output: w.Manifest.Output, Tokenizer: w.Manifest.Tokenizer, Fidelity: w.Fidelity(),
	}
	groups := map[string]int{}
	for i := range w.index.resolved {
		g := w.index.resolved[i].Group
		groups[g]++
		f.LargestGroup = max(f.LargestGroup, groups[g])
	}
	f.Groups = len(groups)
	f.InTokens, f.OutTokens = w.lengths(all)
	f.Rate = rate(len(all), f.Span)
	a := make(arrivals, len(all))
	for i, p := range all {
		a[i] = p.offset
	}
	f.IoD1, f.IoD10, f.IoD60 = a.dispersion(time.Second), a.dispersion(10*time.Second), a.dispersion(time.Minute)
	if s := shapeOf(a.counts(time.Second)); s.windows > 1 && s.mean > 0 {
		f.PeakToMean = record.Of(float64(s.peak) / s.mean)
	} else {
		f.PeakToMean = record.NA("fewer than two complete windows")
	}
	return f
}

func (a arrivals) dispersion(w time.Duration) record.Value {
	s := shapeOf(a.counts(w))
	if s.windows < 2 || s.mean == 0 {
		return record.NA("fewer than two complete windows")
	}
	return record.Of(s.iod)
}

func rate(n int, span time.Duration) record.Value {
	if span <= 0 {
		return record.NA("the workload has no length")
	}
	return record.Of(float64(n) / span.Seconds())
}

// Info describes the first measure of the workload for the record of a run.
func (w *Workload) Info(measure time.Duration) record.WorkloadInfo {
	info := record.WorkloadInfo{
		Name: w.Manifest.Name, Version: w.Manifest.Version, Digest: w.Manifest.Digest,
		Licence: w.Manifest.Source.Licence, Source: w.Manifest.Source.Attribution,
	}
	all := w.timeline()
	n := 0
	conversations := map[string]bool{}
	for n < len(all) && all[n].offset < measure {
		conversations[w.Turns[all[n].turn].Conv] = true
		n++
	}
	all = all[:n]
	info.Requests, info.Conversations = n, len(conversations)
	info.InTokens, info.OutTokens = w.lengths(all)
	info.PrefixShare = w.prefixShare(all)
	info.Rate = rate(n, min(measure, w.Span()))
	return info
}

func (w *Workload) lengths(stretch []placed) (in, out record.Quantiles) {
	ins, outs := make([]int, len(stretch)), make([]int, len(stretch))
	for i, p := range stretch {
		ins[i], outs[i] = w.index.resolved[p.turn].InTokens, w.index.resolved[p.turn].Out.Tokens
	}
	return quantiles(ins), quantiles(outs)
}

// prefixShare is the token hit of an unbounded cache, n/a where the prompts are real text.
func (w *Workload) prefixShare(stretch []placed) record.Value {
	prompts := make([]prompt, 0, len(stretch))
	for _, p := range stretch {
		t := &w.Turns[p.turn]
		if len(t.HashIDs) == 0 {
			return record.NA("prompts of real text have no block ids")
		}
		prompts = append(prompts, prompt{conv: t.Conv, ids: t.HashIDs, tokens: t.InTokens})
	}
	if len(prompts) == 0 {
		return record.NA("no request")
	}
	return record.Of(prefixHits(prompts, w.Manifest.HashScope, w.Manifest.BlockSize, 0).token)
}

// GreatestShare is the share of these requests' prompt tokens that a cache without bound which began empty could serve, a
// fraction; n/a where the prompts are real text.
func (w *Workload) GreatestShare(requests []Request) record.Value {
	stretch := make([]placed, len(requests))
	for i, q := range requests {
		stretch[i] = placed{turn: w.index.byID[q.Turn.ID], offset: q.Offset}
	}
	return w.prefixShare(stretch)
}

// Check opens a workload folder, makes the content of every request once and describes it, for `workload check`.
func Check(dir string) (Facts, error) {
	w, err := Open(dir)
	if err != nil {
		return Facts{}, err
	}
	for i := range w.index.resolved {
		if _, err := w.Content(Request{Turn: &w.index.resolved[i]}); err != nil {
			return Facts{}, fmt.Errorf("workload %s: %w", dir, at(turnsFile, i+1, err))
		}
	}
	return w.Describe(), nil
}
