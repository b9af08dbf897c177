package report

import (
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// generated draws a judgement of any shape: any verdicts, missing and infinite numbers, any SLO state.
func generated(random *rand.Rand) scenario {
	run := aRun(3 + random.IntN(10))
	pick := func(list ...gate.Verdict) gate.Verdict { return list[random.IntN(len(list))] }
	odd := func(x float64) record.Value {
		switch random.IntN(12) {
		case 0:
			return record.NA("no_permission")
		case 1:
			return record.Failed()
		default:
			return record.Of(x)
		}
	}
	j := aPass(3)
	j.Verdict, j.Metrics, j.SLO, j.Pairs = pick(gate.Pass, gate.Fail, gate.Inconclusive, gate.Invalid, ""), nil, nil, len(run.Rounds)/2
	j.Provisional, j.Level = random.IntN(3) == 0, []float64{0.05, 0.023, 0.017, 0.0195}[random.IntN(4)]
	for _, key := range []string{"ttft_p50", "ttft_p95", "ttft_p99", "itl_p50", "e2e_p95", "output_tps", "goodput", "request_tps"} {
		if random.IntN(3) == 0 {
			continue
		}
		d := make([]float64, j.Pairs)
		for i := range d {
			d[i] = random.NormFloat64() * math.Pow(10, -float64(random.IntN(5)))
		}
		base := math.Exp(random.NormFloat64() * 4)
		c := compared(key, map[bool]string{true: "tok/s", false: "ms"}[moreIsBetter(key)], base, base*math.Exp(random.NormFloat64()/10),
			[]float64{0.05, 0.075, 0.15, 0.0333}[random.IntN(4)], pick(gate.Pass, gate.Fail, gate.Inconclusive), d...)
		c.R, c.L, c.U, c.S, c.HeadMedian, c.BaseMedian = odd(must(c.R)), odd(must(c.L)), odd(must(c.U)), odd(must(c.S)), odd(must(c.HeadMedian)), odd(base)
		c.PairsNeeded, c.Cause = random.IntN(120), []string{"", "too_noisy", "near_tolerance", "futile", "metric_missing"}[random.IntN(5)]
		j.Metrics = append(j.Metrics, c)
		if random.IntN(3) == 0 {
			j.SLO = append(j.SLO, gate.SLOResult{
				Key: key, Unit: c.Unit, Limit: base * (1 + random.NormFloat64()/1000), Value: odd(base), N: random.IntN(10000), Beyond: random.IntN(100),
				State: []gate.SLOState{gate.SLOMet, gate.SLOViolated, gate.SLOAtRisk, gate.SLONotProvable}[random.IntN(4)], Preexisting: random.IntN(2) == 0,
			})
		}
	}
	j.Errors.Verdict, j.Errors.HeadN = pick(gate.Pass, gate.Fail, gate.Inconclusive), random.IntN(2)*20160
	if random.IntN(2) == 0 {
		j.Findings = []gate.Finding{{ID: "crashed", Severity: gate.Deciding, Text: strings.Repeat("head's server exited in 2 rounds ", random.IntN(12))}}
	}
	return scenario{"generated", run, j}
}

func TestProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	numbers := regexp.MustCompile(`NaN|\bInf\b|[+-]Inf|%!`)
	begins := map[gate.Verdict]string{gate.Pass: "✅ PASS — ", gate.Fail: "❌ FAIL — ", gate.Inconclusive: "❔ INCONCLUSIVE — ", gate.Invalid: "⛔ INVALID — ", "": "NO VERDICT — "}
	for range 150 {
		c := generated(random)
		l := Line(c.run, c.j)
		if !strings.HasPrefix(l, begins[c.j.Verdict]) || utf8.RuneCountInString(l) > lineCap || strings.Contains(l, "\n") {
			t.Fatalf("verdict %q has line %q", c.j.Verdict, l)
		}
		if says := strings.HasSuffix(l, "Says nothing about the pull request."); says != (c.j.Verdict == gate.Invalid) {
			t.Fatalf("verdict %q ends %q", c.j.Verdict, l)
		}
		md := render(t, surface{"md", comment, Markdown}, c)
		txt := render(t, surface{"txt", Options{}, Text}, c)
		if bad := numbers.FindString(md + txt); bad != "" {
			t.Fatalf("%s in\n%s", bad, md)
		}
		checkMarkdown(t, md)
		decision, _, _ := strings.Cut(md, "\n- Validity")
		for _, m := range c.j.Metrics {
			want := 1
			if c.j.Verdict == gate.Invalid || c.j.Verdict == "" {
				want = 0 // nothing was compared
			}
			if n := strings.Count(decision, "\n| "+label(m.Key)+" |"); n != want {
				t.Fatalf("%s stands %d times in the decision table:\n%s", m.Key, n, decision)
			}
		}
		checkOrder(t, decision)
	}
}

// checkOrder: no passing row above one that fails or is open.
func checkOrder(t *testing.T, decision string) {
	t.Helper()
	last := 0
	for l := range strings.Lines(decision) {
		if !strings.HasPrefix(l, "| ") || strings.HasPrefix(l, "| kind") {
			continue
		}
		if strings.Count(l, " |") != 8 {
			continue // another table
		}
		now := 2
		switch {
		case strings.HasPrefix(l, "| metric"):
			continue
		case strings.Contains(l, "| **FAIL** |"):
			now = 0
		case strings.Contains(l, "| **inconclusive** |"):
			now = 1
		}
		if now < last {
			t.Fatalf("rows are out of order:\n%s", decision)
		}
		last = now
	}
}
