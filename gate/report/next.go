package report

import (
	"strings"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// next is the one sentence that says what to do; a clean pass needs none.
func (s *scribe) next() []block {
	var w words
	if s.run.Kind == record.KindCalibrate && s.judged() {
		return []block{{kind: bullet, line: words{bold("Next:"), say(" both arms are one build, so what differs is noise: read calibration.json, or "), name("tailgate calibrate --from RUN"), say(".")}}}
	}
	switch s.j.Verdict {
	case gate.Pass:
		w = s.nextOfPass()
	case gate.Fail:
		w = s.nextOfFail()
	case gate.Inconclusive:
		w = s.nextOfOpen()
	case gate.Invalid:
		w = words{say("%s", remedy(s.j.Reason))}
	default:
		w = words{say("start the run again; finished rounds stay in the run folder.")}
	}
	if len(w) == 0 {
		return nil
	}
	return []block{{kind: bullet, line: append(words{bold("Next:"), say(" ")}, w...)}}
}

func (s *scribe) nextOfPass() words {
	for _, r := range s.j.SLO {
		switch {
		case r.State == gate.SLOViolated:
			return words{say("nothing for this change. Base breaks the SLO on %s too; mend it on the target branch.", label(r.Key))}
		case r.State == gate.SLONotProvable && r.Needs > 0:
			return words{say("to prove the SLO on %s, measure at least %s requests.", label(r.Key), count(r.Needs))}
		case r.State == gate.SLOAtRisk:
			return words{say("the evidence neither proves nor breaks the SLO on %s: more pairs or longer rounds would tell.", label(r.Key))}
		}
	}
	return nil
}

func (s *scribe) nextOfFail() words {
	if incident := s.decidingIncident(record.Head); incident != nil {
		w := words{say("mend head; its log is below")}
		if incident.Log != "" {
			w = append(w, say(", whole in "), name(incident.Log), say(" of the run folder"))
		}
		return append(w, say("."))
	}
	if s.decidedAlone() {
		return words{say("look at head's server log and its failed requests in the run folder; this counts before latency.")}
	}
	if s.j.Errors.Verdict == gate.Fail {
		return words{say("look up the failed requests of head by kind, in samples.jsonl of its rounds; failures count before latency.")}
	}
	if failing := s.withVerdict(gate.Fail); len(failing) > 0 {
		return words{say("find what moved %s in this change, or widen its tolerance by a reviewed change of the policy on the target branch.", label(failing[0].Key))}
	}
	return words{say("bring head back under the limit, or raise it by a reviewed change of the policy on the target branch.")}
}

// nextOfOpen says in numbers what would settle it.
func (s *scribe) nextOfOpen() words {
	open := s.withVerdict(gate.Inconclusive)
	if len(open) == 0 {
		return words{say("measure again with more pairs or longer rounds, on a steadier machine.")}
	}
	c := open[0]
	switch c.Cause {
	case "base_unbounded":
		return words{say("base fails requests too: mend base, or lower the load of the workload.")}
	case "unbounded":
		return words{say("head failed requests in one round: measure again and look at that round's failures.")}
	case "metric_missing":
		return words{say("%s could not be taken in every round: see the rounds below.", label(c.Key))}
	case gate.ClientExplains:
		return words{say("the load generator's own error differs between the arms: free the machine of other work, or move the server to another one, and measure again.")}
	case "drift_leaks":
		return words{say("the machine drifts: hold its clocks or lengthen the cool-down, and use an even number of pairs.")}
	}
	var w words
	switch needed := c.PairsNeeded; {
	case needed > 100:
		w = words{say("over 100 pairs would be needed at this noise")}
	case needed > s.lastLook():
		w = words{say("%d pairs would be needed at this noise, %d are allowed", needed, s.lastLook())}
	case needed > 0:
		w = words{say("%d pairs would settle it at this noise", needed)}
	default:
		w = words{say("more pairs cannot settle it at this noise")}
	}
	longer := "longer rounds, held clocks and an idle machine lower it"
	if k, ok := c.Longer.Finite(); ok {
		w = append(w, say(", or measure %.1f times longer", k))
	} else if c.Longer.Reason() == gate.LongerUseless {
		longer = "held clocks and an idle machine lower it, longer rounds do not help"
	}
	if spread, ok := c.S.Finite(); ok {
		w = append(w, say("; pair differences vary by %s", share(spread)))
	}
	return append(w, say(": %s.", longer))
}

// remedies say what to do to the runner, to base or to the file. None blames the change.
var remedies = []struct{ id, text string }{
	{"gpu_locked", "another session held the GPU's lock for too long: let it end, or wait longer with --lock-timeout."},
	{"same_artifact", "both builds are the same bytes: check that the build reads the source, or skip changes outside the service."},
	{record.BuildFailed, "make base build on this runner, then run the job again."},
	{record.StartTimeout, "base is not ready in time on this runner: raise target.ready.timeout or see its log."},
	{record.ProbeFailed, "base answers no request: check target.dialect and target.model; its log is below."},
	{record.ProbeUnfit, "mend what the probe found, in the file or in base, then run the job again."},
	{record.PortsShort, "let the server keep its connections, widen the range of local ports, or offer less load."},
	{record.StartFailed, "make base start on this runner; its log is below."},
	{record.TelemetryMissing, "let the runner read its GPU, or set telemetry.gpu: optional."},
	{"gpu_shared", "free the GPU of other processes, then run the job again."},
	{"gpu_busy", "free the GPU of other processes, then run the job again."},
	{"gpu_not_used", "the server took no GPU memory: check its device settings, or set telemetry.expect_gpu: false."},
	{record.GPUNotFound, "name GPUs that this runner has, or run the job on the one that has them: the first line lists those that are here."},
	{"base_drift", "the machine moved under both arms: hold its clocks or lengthen the cool-down, then run the job again."},
	{"base_crashed", "base's server does not stay up on this runner: see its log."},
	{"nothing_gated", "name a metric in tolerance that this workload has enough requests for."},
	{"gated_metric_absent", "this service does not give a gated metric: gate another one."},
	{"no_requests", "the workload offers no request in the measured interval: measure longer or use another workload."},
	{"too_few_rounds", "too few rounds were finished: give the job more time."},
	{"void_budget", "too many rounds were void: mend what the table of void rounds names, then run the job again."},
	{"environment_changed", "the machine changed in mid-session: run the job again on one machine."},
	{record.PortStolen, "another program answers on the server's port: stop it, then run the job again."},
	{record.PortTaken, "another program holds the port: stop it, or leave target.port out."},
	{record.PortNotFreed, "something keeps the port: stop it, then run the job again."},
	{record.MemoryNotFreed, "GPU memory is not given back: end what holds it or restart the runner, or raise target.stop.memory_timeout."},
	{record.StopNotClean, "base does not stop cleanly on this runner: see its log, or leave target.stop.required out."},
	{record.RunnerDirty, "a process could not be ended: restart the runner."},
	{record.DiskFull, "free disk space on the runner, then run the job again."},
	{record.Cancelled, "start the job again; finished rounds stay in the run folder."},
}

// remedy finds the advice for a reason; a prefix such as base_ does not matter.
func remedy(reason string) string {
	for _, r := range remedies {
		if strings.HasSuffix(reason, r.id) {
			return r.text
		}
	}
	return "mend what the first line names, then run the job again."
}
