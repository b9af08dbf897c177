package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// Each limit of docs/validity.md: what lies at it, what warns, what makes the round void, and what is not observed.
func TestClientLimits(t *testing.T) {
	canary := func(events int, p99, worst float64) func(*record.Round) {
		return func(r *record.Round) {
			r.Client.Canary = record.CanaryReport{Events: events, P50: record.Of(0.1), P99: record.Of(p99), Max: record.Of(worst)}
		}
	}
	sent := func(attempts, sampled, broken, seen float64) func(*record.Round) {
		return func(r *record.Round) {
			r.Client.Sent = record.SentCount{
				Attempts: record.Of(attempts), Sampled: record.Of(sampled), Written: record.Of(sampled), Broken: record.Of(broken), Seen: record.Of(seen),
			}
		}
	}
	figure := func(put func(*record.ClientReport, record.Value)) func(float64) func(*record.Round) {
		return func(x float64) func(*record.Round) {
			return func(r *record.Round) { put(&r.Client, record.Of(x)) }
		}
	}
	lag := figure(func(c *record.ClientReport, v record.Value) { c.PacerLagP99 = v })
	rate := figure(func(c *record.ClientReport, v record.Value) { c.SendRate = v })
	sched := figure(func(c *record.ClientReport, v record.Value) { c.SchedP99 = v })
	pause := figure(func(c *record.ClientReport, v record.Value) { c.GCPause = v })
	cpu := figure(func(c *record.ClientReport, v record.Value) { c.CPUHeld = v })
	tests := map[string]struct {
		spoil      func(*record.Round)
		void, warn string
		says       string
	}{
		"lag at the limit":  {lag(2), "", "", ""},
		"lag warns":         {lag(2.01), "", gate.LateGenerator, "p99 over 2 ms"},
		"lag voids":         {lag(10.01), gate.VoidPacerLag, "", "p99 10.0 ms, the limit is 10.0 ms"},
		"short, lag warns":  {func(r *record.Round) { small(r, 999); lag(90)(r) }, "", gate.LateGenerator, ""},
		"short, lag at 2":   {func(r *record.Round) { small(r, 999); lag(2)(r) }, "", "", ""},
		"rate at the limit": {rate(0.005), "", "", ""},
		"rate warns":        {rate(0.0051), "", gate.UnevenGenerator, "0.5 % in some 10 s"},
		"rate voids":        {rate(0.0201), gate.VoidSendRate, "", "2.01 % off the plan for 10 s, the limit is 2 %"},
		"rate at 2 %":       {rate(0.02), "", gate.UnevenGenerator, ""},

		"canary at the limit":   {canary(200, 2, 9), "", "", ""},
		"canary warns":          {canary(200, 2.1, 9), "", gate.LateReader, "known stamps late"},
		"canary voids":          {canary(200, 10.1, 300), gate.VoidCanary, "", "p99 10.1 ms, the limit is 10.0 ms"},
		"canary, one hiccup":    {canary(200, 1, 300), "", "", ""},
		"short canary":          {canary(199, 9, 9), "", "", ""},
		"short canary warns":    {canary(60, 40, 40), "", gate.LateReader, ""},
		"short canary voids":    {canary(60, 101, 101), gate.VoidCanary, "", "read 101 ms late, the limit is 100 ms"},
		"canary not heard":      {func(r *record.Round) { r.Client.Canary = record.NoCanary("it died") }, "", "", ""},
		"scheduler at 2 ms":     {sched(2), "", "", ""},
		"scheduler warns":       {sched(2.1), "", gate.SlowScheduler, ""},
		"scheduler voids":       {sched(10.5), gate.VoidScheduler, "", "p99 10.5 ms, the limit is 10.0 ms"},
		"scheduler not told":    {func(r *record.Round) { r.Client.SchedP99 = record.NA("") }, "", "", ""},
		"collection at 0.1 %":   {pause(100), "", "", ""},
		"collection warns":      {pause(101), "", gate.LongCollections, "0.1 % of the interval"},
		"collection at 1 %":     {pause(1000), "", gate.LongCollections, ""},
		"collection voids":      {pause(1001), gate.VoidGCPause, "", "1,001 ms of garbage collection, the limit is 1,000 ms"},
		"CPU at 70 %":           {cpu(0.7), "", "", ""},
		"CPU warns":             {cpu(0.71), "", gate.BusyGenerator, "70 % of its cores for 5 s"},
		"CPU at 95 %":           {cpu(0.95), "", gate.BusyGenerator, ""},
		"CPU voids":             {cpu(0.96), gate.VoidClientCPU, "", "96 % of its cores for 5 s, the limit is 95 %"},
		"CPU of a short round":  {func(r *record.Round) { r.Client.CPUHeld = record.NA("shorter than five seconds") }, "", "", ""},
		"capped":                {func(r *record.Round) { r.Flags = []string{"client_limited"} }, "", gate.ClientLimited, "max_in_flight"},
		"four counts agree":     {sent(5100, 5100, 0, 5100), "", "", ""},
		"a sample lost":         {sent(5100, 5099, 0, 5100), gate.VoidCounts, "", "wrote 5,100 requests, its samples hold 5,099"},
		"sent twice":            {sent(5100, 5100, 0, 5101), gate.VoidCounts, "", "the server saw 5,101 requests, 5,100 were written"},
		"fewer seen":            {sent(5100, 5100, 3, 5096), gate.VoidCounts, "", "saw 5,096 requests, 5,100 were written and 3 of them broke off"},
		"fewer seen, explained": {sent(5100, 5100, 4, 5096), "", "", ""},
		"server does not tell": {func(r *record.Round) {
			sent(5100, 5100, 0, 0)(r)
			r.Client.Sent.Seen = record.NA("the server does not tell")
		}, "", "", ""},
		"counts of a cut round": {func(r *record.Round) {
			sent(5100, 4000, 0, 5100)(r)
			r.State, r.Steady.End = record.RoundPartial, "cut"
		}, "", "", ""},
		"an old round": {func(r *record.Round) {
			r.Client = record.ClientReport{WireSHA256: "aa", PacerLagP99: record.Of(0.4), Span: record.Of(1), GCPause: record.Of(1)}
		}, "", "", ""},
		"crashed, then everything": {func(r *record.Round) {
			r.Server.Exit = new(139)
			cpu(1)(r)
			canary(400, 50, 90)(r)
			sched(50)(r)
		}, "", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			run := quiet(4)
			tt.spoil(&run.Rounds[3])
			voids := gate.Validity(run)
			switch {
			case tt.void == "" && len(voids) > 0:
				t.Fatalf("void: %+v", voids)
			case tt.void != "" && (len(voids) != 1 || voids[0].Slot != 3 || voids[0].Rule != tt.void || !strings.Contains(voids[0].Evidence, tt.says)):
				t.Fatalf("void %+v, want slot 3 by %s saying %q", voids, tt.void, tt.says)
			}
			j := judge(t, run, named("e2e_p95"))
			for _, id := range []string{
				gate.LateGenerator, gate.UnevenGenerator, gate.LateReader, gate.SlowScheduler, gate.LongCollections, gate.BusyGenerator, gate.ClientLimited,
			} {
				f := finding(j, id)
				if tt.warn != id {
					if f != nil && !strings.HasPrefix(name, "crashed") {
						t.Errorf("unasked: %+v", f)
					}
					continue
				}
				if f == nil || f.Severity != gate.Warning || f.Slot == nil || *f.Slot != 3 || !strings.Contains(f.Text, tt.says) {
					t.Errorf("%s: %+v, want a warning of slot 3 saying %q", id, f, tt.says)
				}
			}
		})
	}
}

// In a short interval a share is a single descheduling: the floors keep it from deciding.
func TestShortIntervalCollections(t *testing.T) {
	for _, tt := range []struct {
		pause float64
		warn  bool
		void  bool
	}{{5, false, false}, {6, true, false}, {50, true, false}, {51, false, true}} {
		run := quiet(4)
		run.Declared.Measure = time.Second
		run.Rounds[3].Client.GCPause = record.Of(tt.pause)
		voids := gate.Validity(run)
		f := finding(judge(t, run, named("e2e_p95")), gate.LongCollections)
		if (len(voids) == 1) != tt.void || (f != nil) != tt.warn {
			t.Errorf("%v ms of 1 s: void %v, warning %+v", tt.pause, voids, f)
		}
	}
}

// withFloors gives each arm's rounds an error of their own.
func withFloors(run *record.Run, base, head record.Floor) *record.Run {
	each(run, func(r *record.Round) {
		r.Client.Floor = base
		if r.Arm == record.Head {
			r.Client.Floor = head
		}
	})
	return run
}

// A slowdown that the load generator's own error could make is never head's failure.
func TestClientCouldExplain(t *testing.T) {
	at := func(middle, tail float64) record.Floor {
		return record.Floor{
			Streams: 10, Seconds: 2, TTFTP50: record.Of(middle), TTFTP99: record.Of(tail), GapP50: record.Of(middle), GapP99: record.Of(tail),
		}
	}
	slower := func(key string, base, head float64) *record.Run {
		return newRun(map[string]values{key: {same(base, 4), same(head, 4)}})
	}
	tests := map[string]struct {
		run        *record.Run
		key        string
		base, head record.Floor
		want       gate.Verdict
	}{
		// 100 to 120 ms: a fifth of the change is 4 ms.
		"equal floors":             {slower("ttft_p50", 100, 120), "ttft_p50", at(1, 5), at(1, 5), gate.Fail},
		"within a fifth":           {slower("ttft_p50", 100, 120), "ttft_p50", at(1, 5), at(4.9, 5), gate.Fail},
		"beyond a fifth":           {slower("ttft_p50", 100, 120), "ttft_p50", at(1, 5), at(5.1, 5), gate.Inconclusive},
		"worse on base":            {slower("ttft_p50", 100, 120), "ttft_p50", at(5.1, 5), at(1, 5), gate.Inconclusive},
		"the tail has its own":     {slower("ttft_p99", 100, 120), "ttft_p99", at(1, 5), at(9, 5), gate.Fail},
		"the tail's own":           {slower("ttft_p99", 100, 120), "ttft_p99", at(1, 5), at(1, 9.1), gate.Inconclusive},
		"gaps":                     {slower("itl_p95", 10, 12), "itl_p95", at(0, 0.1), at(0, 0.6), gate.Inconclusive},
		"whole answers":            {slower("e2e_p95", 1000, 1200), "e2e_p95", at(0, 1), at(0, 42), gate.Inconclusive},
		"throughput has none":      {slower("output_tps", 120, 100), "output_tps", at(0, 0), at(50, 50), gate.Fail},
		"not measured":             {slower("ttft_p50", 100, 120), "ttft_p50", record.NoFloor("self_test is 0s"), at(50, 50), gate.Fail},
		"a pass is left alone":     {slower("ttft_p50", 100, 100), "ttft_p50", at(1, 1), at(3, 3), gate.Pass},
		"an old run has no floors": {slower("ttft_p50", 100, 120), "ttft_p50", record.Floor{}, record.Floor{}, gate.Fail},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			j := judge(t, withFloors(tt.run, tt.base, tt.head), named(tt.key))
			if j.Verdict != tt.want {
				t.Fatalf("%s (%s), want %s", j.Verdict, j.Reason, tt.want)
			}
			f := finding(j, gate.ClientExplains)
			if (f != nil) != (tt.want == gate.Inconclusive) {
				t.Fatalf("finding %+v", f)
			}
			if f != nil && (j.Reason != gate.ClientExplains || j.Metrics[0].Cause != gate.ClientExplains || !strings.Contains(f.Text, "the client could explain this")) {
				t.Errorf("reason %s, cause %s, text %q", j.Reason, j.Metrics[0].Cause, f.Text)
			}
		})
	}
	// It takes back a slowdown, never a failed request.
	run := withFloors(slower("ttft_p50", 100, 120), at(1, 1), at(90, 90))
	for _, r := range of(run, record.Head) {
		fail(r, record.HTTP5xx, 500)
	}
	if j := judge(t, run, named("ttft_p50")); j.Verdict != gate.Fail || j.Reason != gate.MoreFailures {
		t.Errorf("%s (%s); failed requests are the server's whatever the client's error", j.Verdict, j.Reason)
	}
}
