package trials

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/gate/stat"
)

// QuietLimit is the share of the machine that others may take during a session that counts as one on a quiet machine. It was fixed
// before the first session was recorded and looks at no verdict; sessions beyond it have a table of their own.
const QuietLimit = 0.10

// Quiet reports whether a session ran on a quiet machine. One whose machine could not be watched did not.
func (r Result) Quiet() bool { return r.Others != nil && *r.Others <= QuietLimit }

// OverloadShare is the share of a session's rounds that the machine may void before the session counts as one of several at once that
// the machine did not carry.
const OverloadShare = 1.0 / 3

// Overloaded reports whether a session that others of these trials ran beside was voided by the machine too often to say anything
// of a build: by every rule of validity but that of the warm-up, which the build may cause. None of them reads a latency.
func (r Result) Overloaded() bool {
	void := 0
	for _, rd := range r.Rounds {
		if rd.Void != "" && rd.Void != gate.VoidNoSteadyState {
			void++
		}
	}
	return r.Jobs > 1 && float64(void) > OverloadShare*float64(len(r.Rounds))
}

const (
	pageFrom = "<!-- trials: made by scripts/trials --docs, do not edit -->\n"
	pageTo   = "<!-- /trials -->\n"
)

// Page puts the tables between the marks of a page.
func Page(text []byte, results []Result) ([]byte, error) {
	head, rest, ok := bytes.Cut(text, []byte(pageFrom))
	_, tail, closed := bytes.Cut(rest, []byte(pageTo))
	if !ok || !closed {
		return nil, errors.New("the marks of the tables are missing")
	}
	return bytes.Join([][]byte{head, []byte(pageFrom), []byte(Tables(results)), []byte(pageTo), tail}, nil), nil
}

// Tables are the figures of a results file in Markdown: what was run, the promises, every scenario, the peers, and the truth beside
// what was measured; for sessions one at a time, several at once, too many at once, and beside other work. They depend on the results alone.
func Tables(results []Result) string {
	parts := []struct {
		title string
		in    func(Result) bool
		list  []Result
	}{
		{title: fmt.Sprintf("One at a time, on a quiet machine (others took at most %.0f %% of it)", 100*QuietLimit), in: func(r Result) bool { return r.Quiet() && r.Jobs <= 1 }},
		{title: fmt.Sprintf("Several at once, so that rounds are noisier (others took at most %.0f %% of the machine)", 100*QuietLimit), in: func(r Result) bool { return r.Quiet() && r.Jobs > 1 && !r.Overloaded() }},
		{title: "More at once than the machine carried (it voided over a third of the rounds)", in: func(r Result) bool { return r.Quiet() && r.Overloaded() }},
		{title: fmt.Sprintf("Beside other work (others took more than %.0f %% of the machine)", 100*QuietLimit), in: func(r Result) bool { return !r.Quiet() }},
	}
	var known []Result
	for i := range parts {
		for _, r := range results {
			if _, ok := Find(r.Scenario); ok && parts[i].in(r) {
				parts[i].list = append(parts[i].list, r)
			}
		}
		known = append(known, parts[i].list...)
	}
	limits := Limits(known)
	var b strings.Builder
	for _, part := range parts {
		fmt.Fprintf(&b, "\n### %s\n\n", part.title)
		if len(part.list) == 0 {
			b.WriteString("No session yet.\n")
			continue
		}
		circumstances(&b, part.list)
		promises(&b, part.list)
		confusion(&b, part.list)
		peers(&b, part.list, limits)
		truths(&b, part.list)
	}
	b.WriteString("\n")
	return b.String()
}

func circumstances(b *strings.Builder, list []Result) {
	seconds, cpu, machine, others, watched := 0.0, 0.0, 0.0, 0.0, 0.0
	cores, jobs, tools, first, last := map[int]bool{}, map[int]int{}, map[string]bool{}, list[0].Started, list[0].Started
	for _, r := range list {
		seconds, cpu, machine = seconds+r.Seconds, cpu+r.CPU, machine+r.Seconds/float64(max(r.Jobs, 1))
		cores[r.Cores], tools[r.Tool] = true, true
		jobs[r.Jobs]++
		first, last = min(first, r.Started), max(last, r.Started)
		if r.Others != nil {
			others, watched = others+*r.Others, watched+1
		}
	}
	n := float64(len(list))
	round, warm := warmth(list)
	fmt.Fprintf(b, "%d sessions from %s to %s, %s of machine time on %s cores; %s at once; a session takes %.0f s and %.0f s of processor time, ",
		len(list), day(first), day(last), (time.Duration(machine) * time.Second).String(), keys(cores), jobsOf(jobs), seconds/n, cpu/n)
	fmt.Fprintf(b, "a round %.1f s, %.1f s of it warm-up; %.1f %% of rounds were void; others took %.0f %% of the machine; %s of the command.\n",
		round, warm, 100*voidShare(list), 100*others/max(watched, 1), counted(len(tools), "build"))
	b.WriteString("\n| round noise (sd of one round) |")
	metrics := []string{"ttft_p50", "ttft_p95", "itl_p50", "output_tps"}
	for _, key := range metrics {
		fmt.Fprintf(b, " %s |", key)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(metrics)) + "\n| all sessions |")
	for _, key := range metrics {
		b.WriteString(" " + percentOf(Noise(list, key)) + " |")
	}
	b.WriteString("\n\n")
}

// promise is one row of the table of promises: how often what should not happen did.
type promise struct {
	text string
	in   func(Scenario) bool
	bad  func(gate.Verdict) bool
}

func is(v gate.Verdict) func(gate.Verdict) bool { return func(w gate.Verdict) bool { return v == w } }

func isNot(v gate.Verdict) func(gate.Verdict) bool {
	return func(w gate.Verdict) bool { return v != w }
}
func ofSize(s Size) func(Scenario) bool { return func(sc Scenario) bool { return sc.Size == s } }

func promises(b *strings.Builder, list []Result) {
	b.WriteString("| what should not happen | sessions | happened | rate, 95 % interval |\n|---|---:|---:|---|\n")
	for _, p := range []promise{
		{"identical builds: `fail`", ofSize(Same), is(gate.Fail)},
		{"half the tolerance: `fail`", ofSize(Half), is(gate.Fail)},
		{"exactly the tolerance: `pass`", ofSize(Exact), is(gate.Pass)},
		{"twice the tolerance: `pass`", ofSize(Double), is(gate.Pass)},
		{"twice the tolerance: anything but `fail`", ofSize(Double), isNot(gate.Fail)},
		{"identical builds: anything but `pass`", ofSize(Same), isNot(gate.Pass)},
	} {
		n, k := 0, 0
		for _, r := range list {
			if sc, _ := Find(r.Scenario); p.in(sc) {
				n++
				if p.bad(r.Verdict) {
					k++
				}
			}
		}
		fmt.Fprintf(b, "| %s | %d | %d | %s |\n", p.text, n, k, rateOf(k, n))
	}
	b.WriteString("\n")
}

func confusion(b *strings.Builder, list []Result) {
	b.WriteString("| scenario | right | sessions | pass | fail | inconclusive | invalid | wrong, 95 % interval | pairs |\n|---|---|---:|---:|---:|---:|---:|---|---:|\n")
	for _, sc := range Scenarios() {
		n, wrong, pairs := 0, 0, 0
		of := map[gate.Verdict]int{}
		for _, r := range list {
			if r.Scenario != sc.Name {
				continue
			}
			n++
			of[r.Verdict]++
			pairs += r.Pairs
			if sc.Judge(r.Verdict) == Wrong {
				wrong++
			}
		}
		if n == 0 {
			continue
		}
		fmt.Fprintf(b, "| `%s`: %s | %s | %d | %d | %d | %d | %d | %d: %s | %.1f |\n", sc.Name, sc.About, orList(sc.Right), n,
			of[gate.Pass], of[gate.Fail], of[gate.Inconclusive], of[gate.Invalid], wrong, rateOf(wrong, n), float64(pairs)/float64(n))
	}
	b.WriteString("\n")
}

func peers(b *strings.Builder, list []Result, limits map[string]float64) {
	sizes := []Size{Same, Half, Exact, Double}
	b.WriteString("| rule | red on identical builds | red at half tolerance | red at tolerance | red at twice tolerance |\n|---|---|---|---|---|\n")
	row := func(name string, judge func(Result) (fail, ok bool)) {
		fmt.Fprintf(b, "| %s |", name)
		for _, size := range sizes {
			n, k := 0, 0
			for _, r := range list {
				if sc, _ := Find(r.Scenario); sc.Size != size {
					continue
				}
				if fail, ok := judge(r); ok {
					n++
					if fail {
						k++
					}
				}
			}
			fmt.Fprintf(b, " %d of %d: %s |", k, n, rateOf(k, n))
		}
		b.WriteString("\n")
	}
	row("**tailgate** (`fail`)", func(r Result) (fail, ok bool) { return r.Verdict == gate.Fail, true })
	for _, p := range Peers() {
		row(p.Name, func(r Result) (fail, ok bool) { return p.Judge(r, limits) })
	}
	b.WriteString("\n")
}

func truths(b *strings.Builder, list []Result) {
	b.WriteString("| scenario | metric | true change | measured, mean of sessions | sessions |\n|---|---|---:|---:|---:|\n")
	for _, sc := range Scenarios() {
		if sc.Metric == "" {
			continue
		}
		truth, err := sc.Truth()
		if err != nil {
			continue
		}
		m, _ := gate.MetricOf(sc.Metric)
		var seen []float64
		for _, r := range list {
			if r.Scenario != sc.Name {
				continue
			}
			for _, found := range r.Metrics {
				if x, ok := found.D.Finite(); ok && found.Key == sc.Metric {
					seen = append(seen, x)
				}
			}
		}
		if len(seen) == 0 {
			continue
		}
		mean := 0.0
		for _, x := range seen {
			mean += x / float64(len(seen))
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %d |\n", sc.Name, sc.Metric, change(truth[sc.Metric], m.HigherIsBetter),
			change(mean, m.HigherIsBetter), len(seen))
	}
}

// rateOf is a share in percent with its exact interval at 95 %; a share of nothing is n/a.
//
// Source: Clopper and Pearson, see [stat.ClopperPearson].
func rateOf(k, n int) string {
	if n == 0 {
		return "n/a (no session)"
	}
	lo, up := stat.ClopperPearson(float64(k), float64(n), 0.025)
	return fmt.Sprintf("%.1f %% [%.1f, %.1f]", 100*float64(k)/float64(n), 100*lo, 100*up)
}

func percentOf(x float64) string {
	if math.IsNaN(x) {
		return "n/a"
	}
	return fmt.Sprintf("%.2f %%", 100*x)
}

// change writes a log ratio that is positive when worse as the metric's own relative change.
func change(y float64, higher bool) string {
	if higher {
		y = -y
	}
	return fmt.Sprintf("%+.1f %%", 100*math.Expm1(y)+0) // + 0 turns a negative zero into a plain one
}

func day(started string) string {
	d, _, _ := strings.Cut(started, "T")
	return d
}

func counted(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func orList(vs []gate.Verdict) string {
	words := make([]string, len(vs))
	for i, v := range vs {
		words[i] = string(v)
	}
	return strings.Join(words, " or ")
}

// keys lists numbers, smallest first.
func keys(set map[int]bool) string {
	var words []string
	for _, n := range slices.Sorted(maps.Keys(set)) {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, " or ")
}

// jobsOf says how many sessions ran side by side.
func jobsOf(jobs map[int]int) string {
	var words []string
	for _, n := range slices.Sorted(maps.Keys(jobs)) {
		words = append(words, fmt.Sprintf("%d of them %d", jobs[n], n))
	}
	return strings.Join(words, ", ")
}
