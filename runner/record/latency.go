package record

import (
	"math"
	"slices"
	"strings"
	"time"
)

// single lists the latencies of which a request has one, by the name in their key.
func single() map[string]func(request) reading {
	return map[string]func(request) reading{
		"ttft":      func(r request) reading { return ttft(r, r.Sched) },
		"ttft_send": func(r request) reading { return ttft(r, r.sent()) },
		"ttfo":      ttfo,
		"e2e":       func(r request) reading { return e2e(r, r.Sched) },
		"e2e_send":  func(r request) reading { return e2e(r, r.sent()) },
		"e2e_last":  e2eLast,
		"tail":      tail,
		"tpot":      tpot,
		"stall":     stall,
	}
}

// perToken lists the latencies that count output tokens: without a sound count they are n/a.
func perToken(name string) bool { return name == "tpot" || name == "itl" }

// remark reports whether a latency is shown and cannot be gated; such a one has no variant over successes.
func remark(latency string) bool { return latency == "e2e_last" || latency == "tail" }

// Keys lists the metric keys of a round, sorted: what [Summarise] fills in.
func Keys() []string {
	keys := []string{
		"achieved_rps", "error_rate", "events_per_read", "goodput", "in_flight_max", "in_flight_mean", "input_tps", "offered_rps",
		"output_tps", "output_tps_all", "request_tps", "sent_rps", "tokens_per_event",
	}
	for _, q := range quantiles() {
		for _, latency := range []string{"ttft", "ttfo", "e2e", "e2e_last", "tail", "tpot", "itl", "icl", "stall"} {
			keys = append(keys, latency+"_"+q.name)
			if !remark(latency) {
				keys = append(keys, latency+"_"+q.name+"_ok")
			}
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
	if remark(name) {
		return
	}
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
func distributions(reqs []request, source tokenSource, limits Limits) map[string]*distribution {
	out := map[string]*distribution{"itl": gaps(reqs, interToken, plannedGaps), "icl": {}}
	// How many chunks a failed answer would have come in is unknown; the round's mean stands in.
	mean := meanChunks(reqs)
	out["icl"] = gaps(reqs, interChunk, func(request) int { return mean })
	for name, of := range single() {
		d := &distribution{}
		for _, r := range reqs {
			d.block = r.block
			if r.Class != OK {
				d.fail(1)
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
	floors(out, reqs, limits)
	return out
}

// floors finds what the failed requests are known to have taken at least, where every one of them ran into a limit of
// ours. The limits count from the release of a request, so the promise holds from its schedule, and only for an instant
// that was not reached before.
func floors(d map[string]*distribution, reqs []request, limits Limits) {
	reached := map[string]func(*Sample) Instant{
		"ttft": func(s *Sample) Instant { return s.First }, "ttfo": func(s *Sample) Instant { return s.FirstOut },
		"e2e": func(*Sample) Instant { return 0 },
	}
	for name, at := range reached {
		floor := math.Inf(1)
		for _, r := range reqs {
			switch limit := limits.passed(r.Sample); {
			case r.Class == OK:
			case limit == 0 || at(r.Sample).Reached():
				floor = 0
			default:
				floor = min(floor, limit.Seconds()*1e3)
			}
		}
		if !math.IsInf(floor, 1) {
			d[name].floor = floor
		}
	}
}

// passed is the limit that ended a request, 0 when none did or it was never sent.
func (l Limits) passed(s *Sample) time.Duration {
	if s.Class != Timeout || !s.Pick.Reached() && !s.Wrote.Reached() {
		return 0
	}
	name, _, _ := strings.Cut(s.Detail, ":")
	switch strings.TrimSpace(name) {
	case "total":
		return l.Total
	case "first_event":
		return l.FirstEvent
	case "idle":
		return l.Idle
	case "no_progress":
		return l.NoProgress
	default:
		return 0
	}
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
		d.block = r.block
		if r.Class != OK {
			d.fail(lost(r))
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
	for i := 1; i < len(r.cuts); i++ {
		yield(float64(r.cuts[i].at-r.cuts[i-1].at)/1e6, 1)
	}
	if len(r.cuts) < 2 {
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
	from, some := int64(0), false
	for _, rd := range r.cuts[1:] {
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
			total += len(r.cuts) - 1
			answers++
		}
	}
	if answers == 0 {
		return 1
	}
	return max(1, int(math.Round(float64(total)/float64(answers))))
}
