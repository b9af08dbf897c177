package record

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// tokenSource is where a round's token counts come from, and why they cannot be used if they cannot.
type tokenSource struct {
	from TokenSource
	bad  string
}

// sourceOf finds the source that the successful answers share. Counts of different sources do not compare; estimated ones
// are bytes, not tokens.
func sourceOf(reqs []request) tokenSource {
	order := []TokenSource{FromUsage, FromEventUsage, FromLogprobs, Estimated}
	worst, mixed := TokenSource(""), false
	for _, r := range reqs {
		if r.Class != OK || r.TokensFrom == "" {
			continue
		}
		mixed = mixed || worst != "" && r.TokensFrom != worst
		if slices.Index(order, r.TokensFrom) >= slices.Index(order, worst) {
			worst = r.TokensFrom
		}
	}
	switch {
	case mixed:
		return tokenSource{worst, "token source differs between answers"}
	case worst == Estimated:
		return tokenSource{Estimated, "token counts are estimated"}
	default:
		return tokenSource{from: worst}
	}
}

// rates fills in throughput, error rate and the sum of output tokens.
func rates(sum *Summary, reqs []request, in Interval, source tokenSource) {
	var t tokenTally
	ended, failed := 0, 0
	for _, r := range reqs {
		if r.Class == OK && r.End.Reached() && in.holds(r.End) {
			ended++
		}
		if r.Class.Failure() {
			failed++
		}
		t.take(r, in)
	}
	seconds := in.seconds()
	perSecond := func(n int, unit, missing string) Metric {
		m := Metric{Unit: unit, N: sum.Counts.Scheduled}
		switch {
		case seconds == 0 || m.N == 0:
			m.Value = NA("no request was due in the interval")
		case missing != "":
			m.Value = NA(missing)
		default:
			m.Value = Of(float64(n) / seconds)
		}
		return m
	}
	outMissing := source.bad
	if outMissing == "" {
		outMissing = lacking("token counts unknown", t.outUnknown, t.successes)
	}
	sum.Metrics["output_tps"] = perSecond(t.out, "tok/s", outMissing)
	sum.Metrics["output_tps_all"] = perSecond(t.outAll, "tok/s", outMissing)
	sum.Metrics["input_tps"] = perSecond(t.in, "tok/s", lacking("prompt token counts unknown", t.inUnknown, t.successes))
	sum.Metrics["request_tps"] = perSecond(ended, "req/s", "")
	sum.Metrics["error_rate"] = errorRate(failed, sum.Counts.Attempted())
	switch {
	case t.successes == 0:
		sum.OutTokens = NA("no request succeeded")
	case outMissing != "":
		sum.OutTokens = NA(outMissing)
	default:
		sum.OutTokens = Of(float64(t.total))
	}
}

// lacking says that too many answers lack a count; empty when few enough do.
func lacking(what string, unknown, of int) string {
	switch {
	case float64(unknown) <= maxUnknown*float64(of):
		return ""
	case unknown == of:
		return what
	default:
		return fmt.Sprintf("%s in %d of %d answers", what, unknown, of)
	}
}

func errorRate(failed, attempted int) Metric {
	m := Metric{Unit: "fraction", N: attempted}
	if attempted == 0 {
		m.Value = NA("no request was due in the interval")
		return m
	}
	m.Value = Of(float64(failed) / float64(attempted))
	return m
}

// tokenTally counts tokens by the instant they came.
type tokenTally struct {
	successes, outUnknown, inUnknown int
	// out, outAll and in lie in the interval; total is all output of successes.
	out, outAll, in, total int
}

func (t *tokenTally) take(r request, in Interval) {
	ok := r.Class == OK
	inside, all := 0, 0
	known := r.tokens(func(at Instant, n int) {
		all += n
		if in.holds(at) {
			inside += n
		}
	})
	t.outAll += inside
	if !ok {
		return
	}
	t.successes++
	t.out += inside
	t.total += all
	if !known {
		t.outUnknown++
	}
	if r.NIn == nil {
		t.inUnknown++
		return
	}
	at := r.First
	if !at.Reached() {
		at = r.over()
	}
	if in.holds(at) {
		t.in += *r.NIn
	}
}

// beyond counts, per limit on a latency percentile, what lies over it. A latency that could not be measured has no count.
func beyond(d map[string]*distribution, slo map[string]float64) map[string]int {
	out := map[string]int{}
	for key, limit := range slo {
		k, ok := parseKey(key)
		if !ok {
			continue
		}
		name := k.clock()
		dist, ok := d[name]
		if !ok || dist.missing() != "" {
			continue
		}
		out[key] = dist.over(limit)
		if k.variant != "ok" {
			out[key] += dist.failed
		}
	}
	return out
}

// goodput is the share of scheduled requests that succeeded within every declared limit that a single request can meet:
// those on TTFT, TTFO, E2E and TPOT. Of several limits on one latency the one on its highest percentile is meant for the
// single request; a limit on the median lets half of them pass it.
func goodput(reqs []request, slo map[string]float64, source tokenSource) Metric {
	m := Metric{Unit: "fraction", N: len(reqs)}
	limits := perRequest(slo)
	switch {
	case len(limits) == 0:
		m.Value = NA("no per-request limit is declared")
		return m
	case len(reqs) == 0:
		m.Value = NA("no request was due in the interval")
		return m
	}
	good, successes, unknown, why := 0, 0, 0, ""
	for _, r := range reqs {
		if r.Class != OK {
			continue
		}
		successes++
		met, missing := meets(r, limits, source)
		if missing != "" {
			unknown++
			why = missing
		} else if met {
			good++
		}
	}
	if missing := lacking(why, unknown, successes); missing != "" {
		m.Value = NA(missing)
		return m
	}
	m.Value = Of(float64(good) / float64(len(reqs)))
	return m
}

// perRequest keeps the limits that a single request can meet, by latency.
func perRequest(slo map[string]float64) map[string]float64 {
	limits, highest := map[string]float64{}, map[string]float64{}
	of := single()
	for key, limit := range slo {
		k, ok := parseKey(key)
		if !ok {
			continue
		}
		name := k.clock()
		if _, ok := of[name]; !ok || k.q < highest[name] {
			continue
		}
		if k.q == highest[name] {
			// "ttft_p99" and "ttft_p99_ok" limit the same request: the stricter one holds.
			limit = math.Min(limit, limits[name])
		}
		limits[name], highest[name] = limit, k.q
	}
	return limits
}

// meets reports whether a successful request kept within the limits, or why that cannot be told.
func meets(r request, limits map[string]float64, source tokenSource) (met bool, missing string) {
	of := single()
	met = true
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if perToken(name) && source.bad != "" {
			return false, source.bad
		}
		v := of[name](r)
		if v.unknown != "" {
			return false, v.unknown
		}
		met = met && (v.without != "" || v.ms <= limits[name])
	}
	return met, ""
}

// fingerprint describes how answers are cut into events and reads. Where base and head differ in it, inter-token latency
// does not compare.
func fingerprint(into map[string]Metric, reqs []request) {
	events, reads, counted, tokens, answers := 0, 0, 0, 0, 0
	for _, r := range reqs {
		if r.Class != OK || len(r.stream.T) == 0 {
			continue
		}
		answers++
		events += len(r.stream.T)
		reads += len(r.cuts)
		if n := r.outTokens(); n != nil {
			counted += len(r.stream.T)
			tokens += *n
		}
	}
	ratio := func(a, b int, missing string) Metric {
		if b == 0 {
			return Metric{NA(missing), "ratio", answers}
		}
		return Metric{Of(float64(a) / float64(b)), "ratio", answers}
	}
	into["events_per_read"] = ratio(events, reads, "the service does not stream")
	into["tokens_per_event"] = ratio(tokens, counted, "token counts unknown")
}
