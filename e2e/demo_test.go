package e2e

import (
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
)

// Each scenario of the demo has a known truth. The demo exits 0 only when the right verdict came for the right reason, and
// says what the gate itself would exit with.
func TestE2EDemoScenarios(t *testing.T) {
	requireE2E(t)
	for _, tt := range []struct {
		scenario string
		want     gate.Verdict
	}{
		{"identical", gate.Pass},
		{"tail", gate.Fail},
		{"errors", gate.Fail},
		{"noisy", gate.Inconclusive},
		{"base-broken", gate.Invalid},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			dir := t.TempDir()
			r := decided(t, dir, nil, "demo", "--quick", "--scenario", tt.scenario)
			if r.code != 0 || r.judgement.Verdict != tt.want || r.judgement.Exit != gate.Exit(tt.want) {
				t.Fatalf("exit %d, verdict %q (gate's exit %d); want 0 and %q\n%s\n%s", r.code, r.judgement.Verdict, r.judgement.Exit, tt.want, r.out, r.err)
			}
			wantJudgedAlike(t, r)
		})
	}
}
