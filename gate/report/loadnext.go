package report

import (
	"strings"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

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
