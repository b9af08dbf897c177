package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Diff says in lines what differs between two workloads: names, counts, quantiles, seeds, options, and the first turn that
// is not the same. It is empty when the digests agree.
func Diff(a, b *Workload) []string {
	if a.Manifest.Digest == b.Manifest.Digest {
		return nil
	}
	x, y := a.Describe(), b.Describe()
	var out []string
	add := func(what string, v, w any) {
		if s, t := fmt.Sprint(v), fmt.Sprint(w); s != t {
			out = append(out, fmt.Sprintf("%s: %s -> %s", what, s, t))
		}
	}
	add("digest", x.Digest, y.Digest)
	add("name", x.Name, y.Name)
	add("version", x.Version, y.Version)
	add("seed", a.Manifest.Seed, b.Manifest.Seed)
	add("turns", x.Counts.Turns, y.Counts.Turns)
	add("conversations", x.Counts.Conversations, y.Counts.Conversations)
	add("input tokens", x.Counts.InTokens, y.Counts.InTokens)
	add("output tokens", x.Counts.OutTokens, y.Counts.OutTokens)
	add("input quantiles", x.InTokens, y.InTokens)
	add("output quantiles", x.OutTokens, y.OutTokens)
	add("span", x.Span, y.Span)
	add("block size", a.Manifest.BlockSize, b.Manifest.BlockSize)
	add("tokenizer", a.Manifest.Tokenizer, b.Manifest.Tokenizer)
	add("output mode", x.Output.Mode, y.Output.Mode)
	add("options", options(x.Source.Options), options(y.Source.Options))
	if line := firstDifference(a, b); line != "" {
		out = append(out, line)
	}
	return out
}

func options(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, " ")
}

func firstDifference(a, b *Workload) string {
	for i := range min(len(a.Turns), len(b.Turns)) {
		s, errA := canonical(&a.Turns[i])
		t, errB := canonical(&b.Turns[i])
		if errA != nil || errB != nil || string(s) != string(t) {
			return fmt.Sprintf("first differing turn: line %d, %s -> %s", i+1, clip(string(s), 200), clip(string(t), 200))
		}
	}
	if len(a.Turns) != len(b.Turns) {
		return fmt.Sprintf("the first %d turns are equal", min(len(a.Turns), len(b.Turns)))
	}
	return ""
}
