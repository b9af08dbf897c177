package report

import (
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// K-03: a percentile among timeouts prints the limit that it is known to exceed, one among other failures "failed".
func TestTimeoutsPrintTheirLimit(t *testing.T) {
	for want, v := range map[string]record.Value{
		">= 5 s": record.FailedBeyond(5000), ">= 1.5 s": record.FailedBeyond(1500),
		">= 250 ms": record.FailedBeyond(250), "failed (30 % of requests)": record.Failed(), "1.00 s": record.Of(1000),
	} {
		if got := value(v, "ms", "30 %"); got != want {
			t.Errorf("%+v prints %q, want %q", v, got, want)
		}
	}
	r := gate.SLOResult{Key: "e2e_p95", Unit: "ms", Limit: 4000, Value: record.FailedBeyond(5000)}
	if limit, shown := limitAndValue(r); limit != "4 s" || shown != ">= 5 s" {
		t.Errorf("%s against %s", shown, limit)
	}
}

// Where p99 from the sent request differs by more than 1 % from the one of the schedule, the report says so.
func TestWaitingBeforeSendingIsSaid(t *testing.T) {
	round := func(slot int, arm record.Arm, due, sent float64) record.Round {
		return record.Round{Slot: slot, Arm: arm, State: record.RoundComplete, Metrics: map[string]record.Metric{
			"ttft_p99": {Value: record.Of(due), Unit: "ms"}, "ttft_p99_send": {Value: record.Of(sent), Unit: "ms"},
			"e2e_p99": {Value: record.Failed(), Unit: "ms"}, "e2e_p99_send": {Value: record.Failed(), Unit: "ms"},
		}}
	}
	run := &record.Run{Rounds: []record.Round{
		round(0, record.Base, 100, 99.5), round(1, record.Head, 100, 97), round(2, record.Head, 100, 95), round(3, record.Head, 100, 10),
	}}
	j := gate.Judgement{Validity: []record.Void{{Slot: 3, Rule: "pacer_lag"}}}
	blocks := newScribe(run, j, Options{}).waited()
	if len(blocks) != 1 || !strings.Contains(blocks[0].line.plain(), "TTFT p99 of head by up to 5 % (slot 2)") || strings.Contains(blocks[0].line.plain(), "base") {
		t.Errorf("blocks %+v", blocks)
	}
	run.Rounds = run.Rounds[:1]
	if blocks := newScribe(run, j, Options{}).waited(); blocks != nil {
		t.Errorf("0.5 %% is worth a line: %+v", blocks)
	}
}

// A p99.9 takes 6,636 requests in a round; where none has it, it takes no row.
func TestBareTailTakesNoRow(t *testing.T) {
	run := &record.Run{Rounds: []record.Round{{Metrics: map[string]record.Metric{
		"ttft_p999": {Value: record.NA("n=24")}, "e2e_p999": {Value: record.Of(7)}, "e2e_p99": {Value: record.NA("n=24")},
	}}}}
	s := newScribe(run, gate.Judgement{}, Options{})
	for key, want := range map[string]bool{"ttft_p999": true, "e2e_p999": false, "e2e_p99": false} {
		if s.bareTail(key) != want {
			t.Errorf("%s: %v", key, !want)
		}
	}
	for key, want := range map[string]string{"ttft_p999": "TTFT p99.9", "e2e_last_p50": "E2E to the last token p50", "stall_p99_ok": "Longest stall p99 of successes"} {
		if got := label(key); got != want {
			t.Errorf("%s is called %q, want %q", key, got, want)
		}
	}
}
