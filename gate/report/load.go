package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// loadBlocks is the report of one server under load: what it is about, the figures, then whether they can be believed.
func (s *scribe) loadBlocks() []block {
	all := append([]block{{kind: verdictLine, line: s.rest()}, s.loadAgainst()}, s.loadNext()...)
	if rd := s.loaded(); rd != nil {
		all = append(all, s.latencies(rd)...)
		all = append(all, s.limits()...)
		all = append(all, s.offer(rd)...)
		all = append(all, throughput(rd), tokens(rd))
		all = append(all, goodput(rd)...)
		all = append(all, loadFailures(rd)...)
	}
	all = append(all, s.logs()...)
	all = append(all, s.loadValidity()...)
	all = append(all, s.warnings()...)
	for _, n := range s.run.Notes {
		all = append(all, line(say("Note "), quote(n.ID, 40), say(": "), quote(n.Text, 2*messageCap)))
	}
	all = append(all, s.fidelity()...)
	all = append(all, s.loadContext(), s.links())
	return append(all, s.marker()...)
}

// loaded is the round of a run of kind load, nil when none was measured whole. A void one is shown too, as void.
func (s *scribe) loaded() *record.Round {
	i := slices.IndexFunc(s.run.Rounds, func(r record.Round) bool { return r.State == record.RoundComplete })
	if i < 0 {
		return nil
	}
	return &s.run.Rounds[i]
}

// loadAgainst says which server was offered what.
func (s *scribe) loadAgainst() block {
	load := s.run.Declared.Load
	w := append(s.arms(), say(", "), quote(load.Dialect, 40))
	if load.HTTP2 {
		w = append(w, say(" over %s", overHTTP2))
	}
	if rd := s.loaded(); rd != nil && rd.Server.Model != "" {
		w = append(w, say(", model "), name(rd.Server.Model))
	}
	w = append(w, say(" · workload "), name(s.run.Workload.Name))
	if digest := s.run.Workload.Digest; digest != "" {
		w = append(w, say(" "), name(short(digest, 12)))
	}
	w = append(w, say(" · %s, %s measured · ", s.offered(), length(s.measured())))
	return block{kind: bullet, line: append(w, s.machine()...)}
}

// overHTTP2 marks what was measured over HTTP/2: its streams wait for each other, and its stamps are less exact.
const overHTTP2 = "HTTP/2, one connection for all streams"

// offered says how requests are offered.
func (s *scribe) offered() string {
	load := s.run.Declared.Load
	if load.Kind == record.ClosedLoop {
		text := "closed loop of " + slots(load.Concurrency)
		if load.Think > 0 {
			text += ", think time " + length(load.Think)
		}
		return text
	}
	text := fmt.Sprintf("%s loop, %s planned", inert(load.Kind, 20), value(s.run.Workload.Rate, "req/s", ""))
	if load.MaxInFlight > 0 {
		text += ", at most " + count(load.MaxInFlight) + " in flight"
	}
	return text
}

func slots(n int) string {
	if n == 1 {
		return "1 slot"
	}
	return count(n) + " slots"
}

// measured is the length of the interval: that of the round, which ends early where a closed loop's workload ran out, else
// as declared.
func (s *scribe) measured() time.Duration {
	if rd := s.loaded(); rd != nil && rd.Phases.M1 > rd.Phases.M0 {
		return time.Duration(rd.Phases.M1 - rd.Phases.M0)
	}
	return s.run.Declared.Measure
}

// loadFact is line 1 of a load that no limit judges: the figures people look for first.
func (s *scribe) loadFact() words {
	rd := s.loaded()
	if rd == nil {
		return words{say("nothing was measured")}
	}
	stem := "ttft"
	if unstreamed(rd) {
		stem = "e2e"
	}
	share := s.failedShare(record.Head)
	return words{say("%s %s, p99 %s; output %s; %s of %s requests failed",
		label(stem+"_p50"), cellOf(rd, stem+"_p50", share), cellOf(rd, stem+"_p99", share), cellOf(rd, "output_tps", ""),
		count(rd.Counts.Failures()), count(rd.Counts.Scheduled))}
}

func cellOf(rd *record.Round, key, failedShare string) string {
	m, ok := rd.Metrics[key]
	if !ok {
		return missing(record.NotMeasured)
	}
	return value(m.Value, m.Unit, failedShare)
}

// keptFact is line 1 of a load whose limits all hold.
func (s *scribe) keptFact() words {
	const most = 3
	var parts []string
	for _, r := range s.j.SLO[:min(most, len(s.j.SLO))] {
		text := label(r.Key) + " " + bound(r)
		if _, value := limitAndValue(r); value != "" {
			text += " (" + value + ")"
		}
		parts = append(parts, text)
	}
	text := "every limit is shown to hold: " + strings.Join(parts, ", ")
	if more := len(s.j.SLO) - most; more > 0 {
		text += fmt.Sprintf(" (+%d more)", more)
	}
	return words{say("%s", text)}
}

// unstreamed reports whether the service answers in one piece.
func unstreamed(rd *record.Round) bool {
	return strings.Contains(rd.Metrics["ttft_p50"].Reason(), "not stream")
}

var loadPercentiles = []string{"p50", "p90", "p95", "p99"}

// latencies is the table of percentiles. A latency that has none for a reason other than too few samples gets a line with
// that reason instead of a row of empty cells.
func (s *scribe) latencies(rd *record.Round) []block {
	g := &grid{head: slices.Concat([]string{"latency"}, loadPercentiles, []string{"samples"}), align: "lrrrrr"}
	var reasons []string
	lacking := map[string][]string{}
	stems := []string{"ttft", "ttfo", "itl", "stall", "tpot", "e2e"}
	if reason := rowReason(rd, "itl", ""); reason != "" && !unstreamed(rd) {
		stems = slices.Insert(stems, 3, "icl")
	}
	for _, stem := range stems {
		if reason := rowReason(rd, stem, ""); reason != "" {
			if lacking[reason] == nil {
				reasons = append(reasons, reason)
			}
			lacking[reason] = append(lacking[reason], metricNames[stem])
			continue
		}
		g.add(latencyRow(rd, stem, "", metricNames[stem])...)
		if rd.Counts.Failures() > 0 && (stem == "ttft" || stem == "e2e") && rowReason(rd, stem, "_ok") == "" {
			g.add(latencyRow(rd, stem, "_ok", "  of successes")...)
		}
	}
	var blocks []block
	if len(g.rows) > 0 {
		blocks = append(blocks, table(g))
	}
	for _, reason := range reasons {
		blocks = append(blocks, line(say("%s: %s.", strings.Join(lacking[reason], ", "), missing(reason))))
	}
	return append(blocks, sinceSend(rd)...)
}

func latencyRow(rd *record.Round, stem, variant, title string) []words {
	row := []words{cell("%s", title)}
	for _, p := range loadPercentiles {
		row = append(row, cell("%s", cellOf(rd, stem+"_"+p+variant, "")))
	}
	return append(row, cell("%s", count(rd.Metrics[stem+"_p50"+variant].N)))
}

// rowReason is why a latency has no percentile at all, empty when it has one or merely too few samples for one.
func rowReason(rd *record.Round, stem, variant string) string {
	reason := ""
	for _, p := range loadPercentiles {
		m := rd.Metrics[stem+"_"+p+variant]
		reason = m.Reason()
		if reason == "" || strings.HasPrefix(reason, "n=") {
			return ""
		}
	}
	return reason
}

// sinceSend says where the latency from the sent request differs from that of the schedule: then requests waited on our
// side, for a connection or for a place under the in-flight cap.
func sinceSend(rd *record.Round) []block {
	const differ = 0.01
	var parts []string
	for _, stem := range []string{"ttft", "e2e"} {
		due, okDue := rd.Metrics[stem+"_p99"].Finite()
		sent, okSent := rd.Metrics[stem+"_p99_send"].Finite()
		if okDue && okSent && due-sent > differ*due {
			parts = append(parts, label(stem+"_p99")+" "+amount(sent, "ms"))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []block{line(say("From the sent request instead of its due time: %s. The rest is time spent before sending.", strings.Join(parts, ", ")))}
}

// limits is the table of the declared limits.
func (s *scribe) limits() []block {
	if len(s.j.SLO) == 0 {
		return nil
	}
	g := &grid{head: []string{"limit", "at", "measured", "beyond", "state"}, align: "lrrrl"}
	for _, r := range s.j.SLO {
		_, shown := limitAndValue(r)
		if shown == "" {
			shown = missing(r.Value.Reason())
		}
		beyond := "-"
		if r.N > 0 {
			beyond = ofAll(r.Beyond, r.N)
		}
		g.add(cell("%s", label(r.Key)), cell("%s", bound(r)), cell("%s", shown), cell("%s", beyond), cell("%s", stateText(r)))
	}
	return []block{table(g)}
}

// offer says what was asked of the server and what it kept up with, and what a closed loop hides.
func (s *scribe) offer(rd *record.Round) []block {
	blocks := []block{line(say("Load: %s due, %s sent, %s finished; in flight %s on average, %s at most.",
		cellOf(rd, "offered_rps", ""), cellOf(rd, "sent_rps", ""), cellOf(rd, "request_tps", ""), bareCell(rd, "in_flight_mean"), bareCell(rd, "in_flight_max")))}
	if s.run.Declared.Load.Kind == record.ClosedLoop {
		blocks = append(blocks, line(bold("A closed loop hides overload:"), say(" a slow server is asked less. To hold limits, send by the workload's schedule.")))
	}
	return blocks
}

func bareCell(rd *record.Round, key string) string {
	m, ok := rd.Metrics[key]
	if !ok {
		return missing(record.NotMeasured)
	}
	return bare(m.Value)
}

// throughput keeps input and output apart: their sum would say nothing.
func throughput(rd *record.Round) block {
	text := fmt.Sprintf("Throughput: output %s, input %s", cellOf(rd, "output_tps", ""), cellOf(rd, "input_tps", ""))
	good, okGood := rd.Metrics["output_tps"].Finite()
	if all, ok := rd.Metrics["output_tps_all"].Finite(); ok && okGood && all > good {
		text += "; " + amount(all, "tok/s") + " output with failed answers counted"
	}
	return line(say("%s.", text))
}

// tokens says who counted.
func tokens(rd *record.Round) block {
	by := map[record.TokenSource]string{
		record.FromUsage: "by the server's usage", record.FromEventUsage: "by the server's usage with each event",
		record.FromLogprobs: "by the log probabilities of each event", record.Estimated: "by estimate (bytes / 4): the server reports no counts",
	}[rd.Tokens]
	if by == "" {
		return line(say("Tokens: %s.", missing("no request succeeded")))
	}
	text := "Tokens: counted " + by + "; output "
	if n, ok := rd.OutTokens.Finite(); ok {
		text += fixed(n, 0)
	} else {
		text += missing(rd.OutTokens.Reason())
	}
	return line(say("%s; prompt tokens from the server's cache %s.", text, value(rd.Server.CachedShare, "fraction", "")))
}

func goodput(rd *record.Round) []block {
	m, ok := rd.Metrics["goodput"]
	if _, there := m.Get(); !ok || !there && strings.Contains(m.Reason(), "no per-request limit") {
		return nil
	}
	return []block{line(say("Goodput: %s of %s requests succeeded within every limit on a single request.", value(m.Value, m.Unit, ""), count(m.N)))}
}

// loadFailures counts how requests ended that did not succeed at their one attempt, with an example of each kind.
func loadFailures(rd *record.Round) []block {
	n := rd.Counts.Attempted()
	if rd.Counts.Classes[record.OK] == rd.Counts.Scheduled {
		return []block{line(say("Failures, one attempt per request: none of %s.", count(n)))}
	}
	g := &grid{head: []string{"outcome", "requests", "share", "example"}, align: "lrrl"}
	for _, class := range record.Outcomes() {
		k := rd.Counts.Classes[class]
		if class == record.OK || k == 0 {
			continue
		}
		example := words{quote(rd.Details[class], messageCap)}
		if rd.Details[class] == "" {
			example = cell("-")
		}
		g.add(cell("%s", class), cell("%s", count(k)), cell("%s", shareOf(k, rd.Counts.Scheduled)), example)
	}
	return []block{line(say("Failures, one attempt per request: %s (%s).", ofAll(rd.Counts.Failures(), n), shareOf(rd.Counts.Failures(), n))), table(g)}
}

// loadContext is what someone needs to repeat or to doubt the run.
func (s *scribe) loadContext() block {
	inner := []block{s.workloadLine(), s.tokensLine(), s.warmupLine()}
	inner = append(inner, s.gpuLines()...)
	inner = append(inner, s.hostLine())
	inner = append(inner, s.generatorLines()...)
	inner = append(inner, s.policyLine(), s.toolLine())
	inner = slices.DeleteFunc(inner, func(b block) bool { return len(b.line) == 0 })
	return section("Context", true, inner...)
}
