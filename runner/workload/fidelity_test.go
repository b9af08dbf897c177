package workload

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/runner/record"
)

func rowNamed(t *testing.T, w *Workload, measure string) record.Fidelity {
	t.Helper()
	for _, r := range w.Fidelity() {
		if r.Measure == measure {
			return r
		}
	}
	t.Fatalf("no fidelity row %q", measure)
	return record.Fidelity{}
}

// A replay of every row as it stands is neutral in all that can be compared, and says what it cannot represent.
func TestFullReplayIsNeutral(t *testing.T) {
	w := buildTrace(t, "synthetic", Options{AcceptFidelity: []string{}})
	statements := map[string]bool{"lengths in words": true, "not represented": true}
	for _, r := range w.Fidelity() {
		if statements[r.Measure] {
			delete(statements, r.Measure)
			continue
		}
		if r.Direction != record.Neutral {
			t.Errorf("%s is %s: %s", r.Measure, r.Direction, r.Reason)
		}
		if ratio, ok := r.Ratio.Get(); ok && (ratio < 0.999 || ratio > 1.001) {
			t.Errorf("%s has ratio %g", r.Measure, ratio)
		}
	}
	if len(statements) > 0 {
		t.Errorf("missing: %v", statements)
	}
}

// Dropping prompts over 8,192 tokens keeps 52 % of the rows and 13.6 % of the tokens: strongly optimistic, and refused.
func TestMaxInputIsMassLost(t *testing.T) {
	o := Options{Name: "t", MaxInput: 8192}
	path := tracePath(traces["conversation"].file)
	_, err := ImportFile("mooncake", path, o)
	refused, ok := errors.AsType[*FidelityError](err)
	if !ok || !strings.Contains(refused.Error(), "input tokens per request (optimistic") {
		t.Fatalf("%v, want a refusal that names the lost mass", err)
	}
	w := buildTrace(t, "conversation", o)
	kept := float64(w.Manifest.Counts.Turns) / 5719
	mass := float64(w.Manifest.Counts.InTokens) / 73604194
	printed(t, "rows kept", kept, 0.52, 2)
	printed(t, "tokens kept", mass, 0.136, 3)
	r := rowNamed(t, w, "excluded: max_input")
	if r.Direction != record.Optimistic || !strings.Contains(r.Reason, "86.4 % of the input tokens") {
		t.Errorf("%s: %s", r.Direction, r.Reason)
	}
	if d := rowNamed(t, w, "input p99").Direction; d != record.Optimistic {
		t.Errorf("shorter prompts are %s", d)
	}
}

func TestDirections(t *testing.T) {
	azure := buildTrace(t, "azure conv", Options{MaxOutput: 12, Poisson: "5.5"})
	for measure, want := range map[string]record.Direction{
		"output p50": record.Optimistic, "output cap": record.Optimistic, "input p50": record.Neutral,
		"prefix reuse unknown": record.Pessimistic, "arrivals replaced": record.Optimistic,
		"output KS distance": record.Optimistic, "not represented": record.Unknown, "lengths in words": record.Unknown,
	} {
		if got := rowNamed(t, azure, measure).Direction; got != want {
			t.Errorf("%s is %s, want %s", measure, got, want)
		}
	}
	smooth := buildTrace(t, "azure code", Options{Poisson: "2.6"})
	if d := rowNamed(t, smooth, "burst at 1 s").Direction; d != record.Optimistic {
		t.Errorf("a bursty trace replayed as Poisson is %s", d)
	}
	if d := rowNamed(t, buildTrace(t, "azure conv", Options{Stretch: "3"}), "arrivals stretched").Direction; d != record.Unknown {
		t.Errorf("stretching is %s", d)
	}
	for _, c := range []struct {
		ratio, warn float64
		want        record.Direction
	}{{1, 0.05, record.Neutral}, {1.04, 0.05, record.Neutral}, {0.9, 0.05, record.Optimistic}, {1.1, 0.05, record.Pessimistic}} {
		if got := by(c.ratio, c.warn); got != c.want {
			t.Errorf("ratio %g is %s, want %s", c.ratio, got, c.want)
		}
	}
}

func TestBurstRow(t *testing.T) {
	for _, c := range []struct {
		source, replay float64
		want           record.Direction
		refuse         bool
	}{
		{2, 2.1, record.Neutral, false},
		{2, 1, record.Optimistic, false},
		{2, 3, record.Pessimistic, false},
		{2, -0.1, record.Optimistic, true},
		{-0.2, 0.1, record.Pessimistic, true},
		{-0.2, -0.5, record.Optimistic, false},
		{0.05, 0.1, record.Neutral, false},
		{0.05, 0.3, record.Pessimistic, false},
		{0.05, -0.3, record.Optimistic, false},
	} {
		r, refuse := burstRow("b", record.Of(c.source), record.Of(c.replay))
		if r.Direction != c.want || refuse != c.refuse {
			t.Errorf("B %g -> %g: %s, refuse %t; want %s, %t", c.source, c.replay, r.Direction, refuse, c.want, c.refuse)
		}
	}
	if r, refuse := burstRow("b", record.NA(""), record.Of(1)); r.Direction != record.Unknown || refuse {
		t.Errorf("a missing burst is %s", r.Direction)
	}
}
