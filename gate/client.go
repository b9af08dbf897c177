package gate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// grade is what a figure of the load generator amounts to.
type grade int

const (
	fine grade = iota
	warn
	void
)

// clientRule is one limit under which the load generator vouches for a round: one row of docs/validity.md. None reads a
// latency of the server.
type clientRule struct {
	// void is the rule of a void round, warn the finding of a round that counts but is doubted, with its text; empty where
	// there is nothing between good and void.
	void, warn, text string
	// weigh grades a round, and says what was seen against which limit when it is void.
	weigh func(suspect) (grade, string)
}

// clientRules are tried in this order; the first that makes a round void names it. Causes stand before symptoms.
func clientRules() []clientRule {
	return []clientRule{
		{VoidClientLimit, "", "", clientLimit},
		{VoidUnsent, "", "", unsent},
		{VoidCounts, "", "", countsMismatch},
		{VoidClientCPU, BusyGenerator, "the load generator was short of processor time (over 70 % of its cores for 5 s)", clientCPU},
		{VoidPacerLag, LateGenerator, "requests were released late (p99 over 2 ms)", pacerLag},
		{VoidSpan, "", "", offSchedule},
		{VoidSendRate, UnevenGenerator, "requests were sent faster or slower than planned (over 0.5 % in some 10 s)", offRate},
		{VoidCanary, LateReader, "the load generator read a stream of known stamps late (p99 over 2 ms; in rounds below 10 s any over 10 ms)", canaryLate},
		{VoidScheduler, SlowScheduler, "goroutines of the load generator waited for a thread (p99 over 2 ms)", schedulerLate},
		{VoidGCPause, LongCollections, "the load generator stood still for garbage collection (over 0.1 % of the interval)", gcPause},
		{VoidWire, "", "", wireDiffers},
	}
}

// against grades a figure by two limits, both of which still hold at the limit itself. A figure that is missing is fine: it
// was not observed, which the report says.
func against(v record.Value, warnOver, voidOver float64) (grade, float64) {
	switch x, ok := v.Get(); {
	case !ok || x <= warnOver:
		return fine, x
	case x <= voidOver:
		return warn, x
	default:
		return void, x
	}
}

func clientLimit(s suspect) (grade, string) {
	n := s.Counts.Classes[record.ClientLimit]
	if n == 0 {
		return fine, ""
	}
	return void, fmt.Sprintf("%s hit a limit of the load generator's own machine (files, ports, memory)", plural(n, "request"))
}

func unsent(s suspect) (grade, string) {
	n := s.Counts.Classes[record.Unsent]
	if n == 0 {
		return fine, ""
	}
	return void, fmt.Sprintf("the load generator did not send %s", plural(n, "request"))
}

// countsMismatch: every request that was due ended in one class, and was written once: no sample lost, nothing sent twice,
// by the client's own counter and, where the server tells, by the server's.
func countsMismatch(s suspect) (grade, string) {
	if s.State != record.RoundComplete {
		return fine, ""
	}
	sum := 0
	for _, class := range slices.Sorted(maps.Keys(s.Counts.Classes)) {
		sum += s.Counts.Classes[class]
	}
	if sum != s.Counts.Scheduled {
		return void, fmt.Sprintf("%s scheduled, %s accounted for", plural(s.Counts.Scheduled, "request"), count(sum))
	}
	sent := s.Client.Sent
	attempts, counted := sent.Attempts.Finite()
	sampled, kept := sent.Sampled.Finite()
	if counted && kept && attempts != sampled {
		return void, fmt.Sprintf("the load generator wrote %s, its samples hold %s", plural(int(attempts), "request"), count(int(sampled)))
	}
	seen, told := sent.Seen.Finite()
	broken, _ := sent.Broken.Finite()
	switch {
	case !told || !counted:
		return fine, ""
	case seen > attempts:
		return void, fmt.Sprintf("the server saw %s, %s were written: something was sent twice, or somebody else uses it",
			plural(int(seen), "request"), count(int(attempts)))
	case seen < attempts-broken:
		return void, fmt.Sprintf("the server saw %s, %s were written and %s of them broke off before an answer",
			plural(int(seen), "request"), count(int(attempts)), count(int(broken)))
	}
	return fine, ""
}

// clientCPU: five seconds in a row at that share, so that a burst does not count.
func clientCPU(s suspect) (grade, string) {
	const warnOver, voidOver = 0.70, 0.95
	g, x := against(s.Client.CPUHeld, warnOver, voidOver)
	return g, fmt.Sprintf("the load generator used %s of its cores for 5 s, the limit is %s", share(x), share(voidOver))
}

// pacerLag: from 1,000 requests up the 99th percentile and the share of very late ones tell; below, any very late one does.
func pacerLag(s suspect) (grade, string) {
	const many, warnOver, voidOver, lateLimit = 1000, 2.0, 10.0, 0.001
	n, late := s.Counts.Scheduled, s.Client.Late100
	g, lag := against(s.Client.PacerLagP99, warnOver, voidOver)
	switch {
	case n < many && late > 0:
		return void, fmt.Sprintf("%s of %s released more than 100 ms late", count(late), count(n))
	case n < many:
		return min(g, warn), ""
	case float64(late) > lateLimit*float64(n):
		return void, fmt.Sprintf("%s of %s requests released more than 100 ms late, the limit is %s", count(late), count(n), share(lateLimit))
	}
	return g, fmt.Sprintf("requests were released late: p99 %s ms, the limit is %s ms", number(lag), number(voidOver))
}

func offSchedule(s suspect) (grade, string) {
	if x, ok := s.Client.Span.Get(); ok && (x < 0.98 || x > 1.02) {
		return void, fmt.Sprintf("the requests took %s of the planned time to send; 98 to 102 %% is allowed", share(x))
	}
	return fine, ""
}

func offRate(s suspect) (grade, string) {
	const warnOver, voidOver = 0.005, 0.02
	g, x := against(s.Client.SendRate, warnOver, voidOver)
	return g, fmt.Sprintf("the send rate lay %s off the plan for 10 s, the limit is %s", share(x), share(voidOver))
}

// canaryLate: a canary of fewer than 200 events (10 s) has no 99th percentile worth the name, one event would decide. There
// the limits are those of single requests: any event beyond 100 ms makes the round void.
func canaryLate(s suspect) (grade, string) {
	const many, warnOver, voidOver, singleLimit = 200, 2.0, 10.0, 100.0
	c := s.Client.Canary
	if c.Events < many {
		g, x := against(c.Max, voidOver, singleLimit)
		return g, fmt.Sprintf("an event of the canary was read %s ms late, the limit is %s ms", number(x), number(singleLimit))
	}
	g, x := against(c.P99, warnOver, voidOver)
	return g, fmt.Sprintf("the canary's events were read late: p99 %s ms, the limit is %s ms", number(x), number(voidOver))
}

func schedulerLate(s suspect) (grade, string) {
	const warnOver, voidOver = 2.0, 10.0
	g, x := against(s.Client.SchedP99, warnOver, voidOver)
	return g, fmt.Sprintf("goroutines of the load generator waited for a thread: p99 %s ms, the limit is %s ms", number(x), number(voidOver))
}

// gcPause holds the pauses against the interval, and against a floor: in an interval of one second a single pause during
// which a busy machine takes the processor away (some 10 to 25 ms) would already be more than one percent.
func gcPause(s suspect) (grade, string) {
	const warnOver, voidOver, warnFloor, voidFloor = 0.001, 0.01, 5.0, 50.0
	measured := 1000 * s.run.Declared.Measure.Seconds()
	if measured <= 0 {
		return fine, ""
	}
	g, x := against(s.Client.GCPause, max(warnOver*measured, warnFloor), max(voidOver*measured, voidFloor))
	return g, fmt.Sprintf("the load generator stood still for %s ms of garbage collection, the limit is %s ms (1 %% of the interval, at least 50 ms)",
		number(x), number(max(voidOver*measured, voidFloor)))
}

func wireDiffers(s suspect) (grade, string) {
	if s.State != record.RoundComplete || s.Client.WireSHA256 == "" || s.Client.WireSHA256 == s.wire {
		return fine, ""
	}
	return void, "the requests sent differ from those of the first round: their digests are not equal"
}
