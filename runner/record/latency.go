package record

import (
	"math"
	"slices"
)

// single lists the latencies of which a request has one, by the name in their key.
func single() map[string]func(request) reading {
	return map[string]func(request) reading{
		"ttft":      func(r request) reading { return ttft(r, r.Sched) },
		"ttft_send": func(r request) reading { return ttft(r, r.sent()) },
		"ttfo":      ttfo,
		"e2e":       func(r request) reading { return e2e(r, r.Sched) },
		"e2e_send":  func(r request) reading { return e2e(r, r.sent()) },
		"tpot":      tpot,
	}
}

// perToken lists the latencies that count output tokens: without a sound count they are n/a.
func perToken(name string) bool { return name == "tpot" || name == "itl" }

// Keys lists the metric keys of a round, sorted: what [Summarise] fills in.
func Keys() []string {
	keys := []string{
		"error_rate", "events_per_read", "goodput", "input_tps", "output_tps", "output_tps_all", "request_tps", "tokens_per_event",
	}
	for _, q := range quantiles() {
		for _, latency := range []string{"ttft", "ttfo", "e2e", "tpot", "itl", "icl"} {
			keys = append(keys, latency+"_"+q.name, latency+"_"+q.name+"_ok")
		}
		keys = append(keys, "ttft_"+q.name+"_send", "e2e_"+q.name+"_send")
	}
	slices.Sort(keys)
	return keys
}

// put adds one percentile to the metrics: as gated, and over successes only.
func (d *distribution) put(into map[string]Metric, name string, q quantile) {
	if latency, send := cutSend(name); send {
		into[latency+"_"+q.name+"_send"] = d.at(q)
		return
	}
	into[name+"_"+q.name] = d.at(q)
	into[name+"_"+q.name+"_ok"] = d.ofSuccesses(q)
}

func cutSend(name string) (latency string, send bool) {
	const suffix = "_send"
	if n := len(name) - len(suffix); n > 0 && name[n:] == suffix {
		return name[:n], true
	}
	return name, false
}

// distributions gathers every latency over the requests. A failed request counts as +Inf in each.
func distributions(reqs []request, source tokenSource) map[string]*distribution {
	out := map[string]*distribution{"itl": gaps(reqs, interToken, plannedGaps), "icl": {}}
	// How many chunks a failed answer would have come in is unknown; the round's mean stands in.
	mean := meanChunks(reqs)
	out["icl"] = gaps(reqs, interChunk, func(request) int { return mean })
	for name, of := range single() {
		d := &distribution{}
		for _, r := range reqs {
			if r.Class != OK {
				d.failed++
				continue
			}
			v := of(r)
			d.note(v.without, v.unknown)
			if v.without == "" && v.unknown == "" {
				d.add(v.ms, 1)
			}
		}
		out[name] = d
	}
	for name, d := range out {
		if perToken(name) && source.bad != "" {
			*d = distribution{failed: d.failed, unknown: 1, whyUnknown: source.bad}
		}
		d.seal()
	}
	return out
}

// note counts one successful answer.
func (d *distribution) note(without, unknown string) {
	switch {
	case unknown != "":
		d.unknown++
		d.whyUnknown = unknown
	case without != "":
		d.without++
		d.whyWithout = without
	default:
		d.answers++
	}
}

// gaps gathers a latency of which a request has many. A failed request enters at +Inf with the weight that lost gives; the
// gaps it had are dropped.
func gaps(reqs []request, of func(request, func(ms float64, weight int)) (without, unknown string), lost func(request) int) *distribution {
	d := &distribution{}
	for _, r := range reqs {
		if r.Class != OK {
			d.failed += lost(r)
			continue
		}
		d.note(of(r, d.add))
	}
	return d
}

// interChunk yields the gaps between reads that carried payload: what a user sees, whatever tokens they held.
func interChunk(r request, yield func(ms float64, weight int)) (without, unknown string) {
	if len(r.stream.T) == 0 {
		return "", "the service does not stream"
	}
	reads := r.reads()
	for i := 1; i < len(reads); i++ {
		yield(float64(reads[i].at-reads[i-1].at)/1e6, 1)
	}
	if len(reads) < 2 {
		return "each answer came in one read", ""
	}
	return "", ""
}

// interToken yields, for a gap g before a read of n tokens, n samples of g/n. A read without a token lengthens the gap of
// the next.
func interToken(r request, yield func(ms float64, weight int)) (without, unknown string) {
	switch {
	case len(r.stream.T) == 0:
		return "", "the service does not stream"
	case r.perEvent() == nil:
		return "", "tokens per event unknown"
	}
	reads := r.reads()
	from, some := int64(0), false
	for _, rd := range reads[1:] {
		if rd.tokens > 0 {
			yield(float64(rd.at-from)/1e6/float64(rd.tokens), rd.tokens)
			from, some = rd.at, true
		}
	}
	if !some {
		return "no answer had tokens after its first read", ""
	}
	return "", ""
}

func plannedGaps(r request) int { return max(1, r.OutPlanned-1) }

// meanChunks is the rounded mean number of gaps in a successful answer, at least 1.
func meanChunks(reqs []request) int {
	total, answers := 0, 0
	for _, r := range reqs {
		if r.Class == OK && len(r.stream.T) > 0 {
			total += len(r.reads()) - 1
			answers++
		}
	}
	if answers == 0 {
		return 1
	}
	return max(1, int(math.Round(float64(total)/float64(answers))))
}
