package record

import (
	"testing"
	"time"
)

// K-03: a client limit of 5 s ends 30 of 100 requests; the survivors alone would show a p99 of 1 s. Reports of the same:
// vllm-project/vllm-omni#5923, elastic/rally#1308.
func TestTimeoutsAreNotSurvived(t *testing.T) {
	var samples []Sample
	for i := range 100 {
		s := due(i, time.Duration(i)*10*time.Millisecond)
		s.Class, s.End = OK, s.Sched+Instant(time.Second)
		if i%10 < 3 {
			s.Class, s.Detail, s.End = Timeout, "total", s.Sched+Instant(5*time.Second)
		}
		samples = append(samples, s)
	}
	sum := Summarise(samples, nil, Interval{M0: 1, M1: second(60), SLO: map[string]float64{"e2e_p95": 4000}})
	if got, ok := sum.Metrics["e2e_p50"].Finite(); !ok || got != 1000 {
		t.Errorf("p50 %v, want 1000 ms", sum.Metrics["e2e_p50"])
	}
	for _, key := range []string{"e2e_p95", "e2e_p99"} {
		if !sum.Metrics[key].IsFailed() {
			t.Errorf("%s is %v, want failed", key, sum.Metrics[key])
		}
	}
	if got, _ := sum.Metrics["error_rate"].Get(); got != 0.3 {
		t.Errorf("error rate %v, want 0.3", got)
	}
	if got := sum.Counts.Classes[Timeout]; got != 30 || sum.Beyond["e2e_p95"] != 30 {
		t.Errorf("%d timeouts, %d beyond the SLO, want 30 and 30", got, sum.Beyond["e2e_p95"])
	}
}

// due is a measured request scheduled at an offset from the first nanosecond.
func due(seq int, at time.Duration) Sample {
	return Sample{V: SampleVersion, Seq: seq, ID: "r", Phase: PhaseMeasure, Sched: 1 + Instant(at)}
}

func second(n int) Instant { return Instant(n) * Instant(time.Second) }
