package trials

import (
	"math"
	"testing"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// The declared size of a change is what the timing model says head's figures are, and the other gated metrics stay within 0.6
// of their tolerance, so that a verdict on a scenario is a verdict on its metric.
func TestTruth(t *testing.T) {
	times := map[Size]float64{Same: 0, Half: 0.5, Exact: 1, Double: 2}
	for _, s := range Scenarios() {
		truth, err := s.Truth()
		if err != nil {
			t.Fatal(err)
		}
		of, sizedChange := times[s.Size]
		if !sizedChange {
			continue
		}
		for _, key := range s.Gated() {
			got := truth[key]
			if key == "output_tps" {
				got = -got
			}
			change := math.Abs(math.Expm1(got))
			t.Logf("%-20s %-10s %+.2f %%", s.Name, key, 100*math.Expm1(got))
			switch {
			case key == s.Metric && math.Abs(change-of*Tolerances[key]) > 0.06*of*Tolerances[key]:
				t.Errorf("%s changes %s by %.2f %%, declared %.2f %%", s.Name, key, 100*change, 100*of*Tolerances[key])
			case key != s.Metric && change > 0.6*Tolerances[key]:
				t.Errorf("%s also changes %s by %.2f %%, over 0.6 of its tolerance", s.Name, key, 100*change)
			}
		}
	}
}

// The size of the p50 changes is counted in the server's typical time to the first token.
func TestTypical(t *testing.T) {
	s, _ := Find("identical")
	w, err := s.Workload()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, turn := range w.Turns {
		if turn.At < measure {
			n++
		}
	}
	if n < 1000 {
		t.Errorf("%d requests a round; TTFT p95 needs 1,000", n)
	}
	f := s.figures(w, record.Base)
	t.Log(n, f)
	if got := f["ttft_p50"]; math.Abs(got/ms(typicalTTFT)-1) > 0.02 {
		t.Errorf("TTFT p50 is %.1f ms by the model, the scenarios count with %s", got, typicalTTFT)
	}
}
