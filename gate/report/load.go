package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
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

// loadValidity says whether the figures can be believed.
func (s *scribe) loadValidity() []block {
	rd := s.loaded()
	if rd == nil {
		return nil
	}
	w := words{say("Validity: the round counts; ")}
	if len(s.j.Validity) > 0 {
		v := s.j.Validity[0]
		w = words{say("Validity: "), bold("the round does not count"), say(", by rule "), quote(v.Rule, 40), say(": "), quote(v.Evidence, messageCap), say("; ")}
	}
	w = append(w, say("%s; %s", warmed(rd), lag(rd)))
	if !slices.ContainsFunc(s.j.Findings, func(f gate.Finding) bool { return f.ID == gate.GPUUnseen && f.Severity == gate.Warning }) {
		w = append(append(w, say("; ")), s.gpu()...)
	}
	return []block{{kind: bullet, line: append(w, say("."))}}
}

// warmed says how the warm-up ended.
func warmed(rd *record.Round) string {
	windows := count(rd.Steady.Windows) + " warm-up windows"
	switch rd.Steady.End {
	case "confirmed":
		return "steady after " + windows
	case "started_with_failures":
		return "requests still failed after " + windows
	default:
		return "not steady after " + windows
	}
}

// lag vouches for the load: were requests released when they were due?
func lag(rd *record.Round) string {
	x, ok := rd.Client.PacerLagP99.Finite()
	also := vouched(func(unit string, figure func(*record.ClientReport) record.Value) (text, reason string) {
		y, there := figure(&rd.Client).Finite()
		if !there {
			return "", figure(&rd.Client).Reason()
		}
		return figureText(y, unit), ""
	})
	switch {
	case !ok:
		return "generator lag " + missing(rd.Client.PacerLagP99.Reason())
	case x > lateWarning:
		return fmt.Sprintf("generator late: p99 lag %s (warned from %d ms; %s)", amount(x, "ms"), lateWarning, also)
	default:
		return "generator on time (p99 lag " + amount(x, "ms") + ", " + also + ")"
	}
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

// loadNext is the one sentence that says what to try.
func (s *scribe) loadNext() []block {
	w := s.tryNext(s.loaded())
	if len(w) == 0 {
		return nil
	}
	return []block{{kind: bullet, line: append(words{bold("Next:"), say(" ")}, w...)}}
}

func (s *scribe) tryNext(rd *record.Round) words {
	switch {
	case s.run.Status == record.StatusCancelled:
		return words{say("start the load again; what was measured so far stays in the run folder.")}
	case s.j.Verdict == gate.Invalid || rd == nil:
		return words{say("%s", loadRemedy(s.j.Reason))}
	case rd.Counts.Failures() > 0:
		url := "URL"
		if head := s.run.Arms.Head; head != nil && head.URL != "" {
			url = head.URL
		}
		return words{say("look at one request, "), name("tailgate probe " + url), say(", and at the failed ones in rounds/00-head/samples.jsonl of the run folder.")}
	}
	for _, r := range s.j.SLO {
		if r.State == gate.SLONotProvable && r.Needs > 0 {
			return words{say("to prove the limit on %s, measure at least %s requests%s.", label(r.Key), count(r.Needs), s.atThisRate(r.Needs))}
		}
	}
	if len(s.j.SLO) > 0 {
		return nil
	}
	for _, key := range []string{"ttft_p99", "e2e_p99"} {
		if strings.HasPrefix(rd.Metrics[key].Reason(), "n=") {
			return words{say("a p99 is printed from %s requests on%s.", count(record.MinSamples(0.99)), s.atThisRate(record.MinSamples(0.99)))}
		}
	}
	return words{say("hold it to limits by adding --slo ttft_p99=800ms,error_rate=1%%; the exit code then says whether they hold.")}
}

// loadRemedy says what to do about a round that does not count.
func loadRemedy(reason string) string {
	switch reason {
	case gate.VoidNoSteadyState:
		return "the server never settled: see what moves in rounds[0].steady of run.json; lower the load, or give it time with --warmup-cap."
	case gate.VoidClientCPU, gate.VoidPacerLag, gate.VoidSpan, gate.VoidUnsent, gate.VoidSendRate, gate.VoidCanary, gate.VoidScheduler, gate.VoidGCPause:
		return "the load generator was the bottleneck: run it on an idle machine of its own, or offer less."
	case gate.VoidClientLimit:
		return "raise the limits of the load generator's machine (open files, local ports), or offer less."
	case record.DiskFull:
		return "free disk space, or choose another place with --out."
	default:
		return "mend what the first line names, then start the load again."
	}
}

// atThisRate says how long so many requests take at the planned rate.
func (s *scribe) atThisRate(n int) string {
	rate, ok := s.run.Workload.Rate.Finite()
	if rd := s.loaded(); rd != nil && s.run.Declared.Load.Kind == record.ClosedLoop {
		rate, ok = rd.Metrics["request_tps"].Finite()
	}
	if !ok || rate <= 0 {
		return ""
	}
	return ": at this rate " + amount(float64(n)/rate*1000, "ms")
}
