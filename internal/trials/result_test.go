package trials

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/gate"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/trust.md")

const (
	kept = "testdata/results.jsonl.gz"
	page = "../../docs/trust.md"
)

// The page says what the committed sessions say, and nothing else.
func TestPageFollowsResults(t *testing.T) {
	results, skipped, err := Read(kept)
	if err != nil || skipped > 0 {
		t.Fatalf("%s: %v, %d lines are no results", kept, err, skipped)
	}
	if len(results) == 0 {
		t.Fatalf("%s holds no session", kept)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Page(text, results)
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text, want) {
		t.Errorf("%s does not follow from %s; run: scripts/trials --results internal/trials/%s --docs docs/trust.md", page, kept, kept)
	}
}

// Every scenario and every peer is explained on the page, and every committed session is of a known scenario.
func TestPageNamesAll(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Peers() {
		if !bytes.Contains(text, []byte(p.Name)) {
			t.Errorf("%s does not explain the rule %q", page, p.Name)
		}
	}
	results, _, err := Read(kept)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range results {
		if _, ok := Find(r.Scenario); !ok {
			t.Errorf("session %s is of the unknown scenario %s", r.ID, r.Scenario)
		}
		if seen[r.ID] {
			t.Errorf("session %s counts twice", r.ID)
		}
		seen[r.ID] = true
	}
}

func TestPageWithoutMarks(t *testing.T) {
	if _, err := Page([]byte("# Trust\n"), nil); err == nil {
		t.Error("a page without marks is taken")
	}
}

// A crash in the middle of a line costs that line and no other.
func TestAppendAfterCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	first, second := Result{Scenario: "identical", ID: "1", Verdict: gate.Pass}, Result{Scenario: "identical", ID: "2", Verdict: gate.Fail}
	if err := Append(path, first); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"scenario":"ident`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Append(path, second); err != nil {
		t.Fatal(err)
	}
	got, skipped, err := Read(path)
	if err != nil || skipped != 1 || len(got) != 2 || got[1].ID != "2" {
		t.Errorf("read %d results, skipped %d, %v; want both sessions and one skipped line", len(got), skipped, err)
	}
}

func TestReadMissing(t *testing.T) {
	got, skipped, err := Read(filepath.Join(t.TempDir(), "none.jsonl"))
	if len(got) != 0 || skipped != 0 || err != nil {
		t.Errorf("a file that does not exist gives %v, %d, %v", got, skipped, err)
	}
}

// The scenario that lacks most of its share is next, so that a collection that is cut short is still balanced.
func TestNeediest(t *testing.T) {
	a, _ := Find("identical")
	b, _ := Find("errors")
	p := Plan{Scenarios: []Scenario{a, b}}
	for _, tt := range []struct {
		have map[string]int
		want string
	}{
		{map[string]int{}, "identical"},
		{map[string]int{"identical": 1}, "errors"},
		{map[string]int{"identical": 20, "errors": 1}, "errors"},
		{map[string]int{"identical": 19, "errors": 2}, "identical"},
		{map[string]int{"identical": 200, "errors": 20}, ""},
	} {
		sc, ok := p.neediest(tt.have)
		if sc.Name != tt.want || ok != (tt.want != "") {
			t.Errorf("with %v the next is %q, want %q", tt.have, sc.Name, tt.want)
		}
	}
	p.Want = 1
	if _, ok := p.neediest(map[string]int{"identical": 1, "errors": 1}); ok {
		t.Error("--want 1 wants more than one")
	}
}

// A tailgate that cannot run ends the collection and records nothing.
func TestCollectGivesUp(t *testing.T) {
	dir := t.TempDir()
	sc, _ := Find("identical")
	p := Plan{
		Binary: filepath.Join(dir, "missing"), Results: filepath.Join(dir, "results.jsonl"), Scratch: dir, Scenarios: []Scenario{sc}, Jobs: 2,
		Log: &bytes.Buffer{},
	}
	if err := p.Collect(t.Context()); err == nil {
		t.Error("no error although no session can start")
	}
	if got, _, err := Read(p.Results); len(got) != 0 || err != nil {
		t.Errorf("%d results, %v", len(got), err)
	}
}

// Sessions stop at the hour, and a cancelled collection is no error.
func TestCollectStops(t *testing.T) {
	sc, _ := Find("identical")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, p := range map[string]struct {
		ctx  context.Context
		plan Plan
	}{
		"time is up": {t.Context(), Plan{Until: time.Now().Add(-time.Second)}},
		"cancelled":  {cancelled, Plan{}},
	} {
		p.plan.Results, p.plan.Scenarios, p.plan.Log = filepath.Join(t.TempDir(), "r.jsonl"), []Scenario{sc}, &bytes.Buffer{}
		if err := p.plan.Collect(p.ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A session waits until others leave the machine alone, and not beyond the hour.
func TestCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		// Others keep every core busy for the first 25 seconds.
		look := func() load {
			busy := min(time.Since(began), 25*time.Second) * time.Duration(runtime.NumCPU())
			return load{at: time.Now(), busy: busy, known: true}
		}
		if !(Plan{WhenQuiet: true}).calm(t.Context(), look) {
			t.Fatal("no session although the machine fell quiet")
		}
		if waited := time.Since(began); waited != 4*calmFor {
			t.Errorf("waited for %s; 30 s still hold five busy ones, so the fourth look is the first quiet one", waited)
		}
		if (Plan{WhenQuiet: true, Until: time.Now().Add(5 * time.Second)}).calm(t.Context(), func() load { return load{} }) {
			t.Error("a machine that cannot be watched counts as quiet")
		}
		began = time.Now()
		if !(Plan{}).calm(t.Context(), look) || time.Since(began) != 0 {
			t.Error("waited although nobody asked")
		}
	})
}

// Tables count every session once, and a rate of nothing is never 0 %.
func TestTables(t *testing.T) {
	quiet, loud := 0.02, 0.5
	var list []Result
	for i, v := range []gate.Verdict{gate.Pass, gate.Pass, gate.Fail, gate.Invalid} {
		list = append(list, Result{Scenario: "identical", ID: string(rune('a' + i)), Verdict: v, Others: &quiet, Cores: 2, Jobs: 1, Pairs: 4})
	}
	list = append(list, Result{Scenario: "p50-double", ID: "x", Verdict: gate.Fail, Others: &loud}, Result{Scenario: "p50-double", ID: "y", Verdict: gate.Pass})
	list = append(list, Result{Scenario: "identical", ID: "z", Verdict: gate.Pass, Others: &quiet, Cores: 2, Jobs: 3, Pairs: 4})
	text := Tables(list)
	if _, crowded, _ := strings.Cut(text, "### Several at once"); !strings.Contains(crowded, "| identical builds: `fail` | 1 | 0 | 0.0 % [0.0, 97.5] |") {
		t.Errorf("a session beside two others is not among its like:\n%s", text)
	}
	for _, want := range []string{
		"| identical builds: `fail` | 4 | 1 | 25.0 % [0.6, 80.6] |",
		"| half the tolerance: `fail` | 0 | 0 | n/a (no session) |",
		"| pass | 4 | 2 | 1 | 0 | 1 | 1: 25.0 % [0.6, 80.6] | 4.0 |",
		"| twice the tolerance: anything but `fail` | 2 | 1 | 50.0 % [1.3, 98.7] |",
		"4 sessions from", "2 sessions from",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables lack %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "NaN") {
		t.Errorf("NaN in\n%s", text)
	}
}

// More at once than the machine carried is a matter of void rounds, not of verdicts, and only where there were several.
func TestOverloaded(t *testing.T) {
	rounds := func(voids ...string) []Round {
		var out []Round
		for i, v := range voids {
			out = append(out, Round{Slot: i, Void: v})
		}
		return out
	}
	for _, tt := range []struct {
		name string
		r    Result
		want bool
	}{
		{"half void", Result{Jobs: 3, Verdict: gate.Pass, Rounds: rounds("", "pacer_lag", "canary", "")}, true},
		{"a third void", Result{Jobs: 3, Verdict: gate.Invalid, Rounds: rounds("", "pacer_lag", "")}, false},
		{"alone", Result{Jobs: 1, Verdict: gate.Invalid, Rounds: rounds("", "pacer_lag")}, false},
		{"the build never got steady", Result{Jobs: 3, Verdict: gate.Invalid, Rounds: rounds("", "no_steady_state")}, false},
		{"no round", Result{Jobs: 3, Verdict: gate.Invalid}, false},
	} {
		if got := tt.r.Overloaded(); got != tt.want {
			t.Errorf("%s: overloaded is %t, want %t", tt.name, got, tt.want)
		}
	}
	quiet := 0.0
	text := Tables([]Result{
		{Scenario: "identical", Jobs: 3, Others: &quiet, Verdict: gate.Invalid, Rounds: rounds("pacer_lag")},
		{Scenario: "identical", Jobs: 3, Others: &quiet, Verdict: gate.Pass, Rounds: rounds("")},
	})
	_, several, _ := strings.Cut(text, "### Several at once")
	several, beyond, _ := strings.Cut(several, "### More at once")
	for part, want := range map[string]string{several: "| identical builds: anything but `pass` | 1 | 0 |", beyond: "| identical builds: anything but `pass` | 1 | 1 |"} {
		if !strings.Contains(part, want) {
			t.Errorf("the tables lack %q in\n%s", want, part)
		}
	}
}

// By hand: pair differences 1 and 3 % have a deviation of 1.414 %, so one round has 1 %.
func TestNoise(t *testing.T) {
	got := Noise([]Result{{Metrics: []Metric{{Key: "ttft_p50", Pairs: []float64{0.01, 0.03}}, {Key: "itl_p50", Pairs: []float64{9, 1}}}}}, "ttft_p50")
	if !close3(got, 0.01) {
		t.Errorf("round noise is %g, want 0.01", got)
	}
}

// What this process burns is not the work of others.
func TestLoad(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells in /proc/stat what a machine's processors did; elsewhere the share of others is n/a")
	}
	before := readLoad()
	if !before.known {
		t.Fatal("/proc/stat was not read")
	}
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
		_ = strings.Repeat("x", 1000)
	}
	after := readLoad()
	if after.ours < before.ours {
		t.Errorf("our processor time fell from %s to %s", before.ours, after.ours)
	}
	if o := before.others(after); o == nil || *o < 0 || *o > 1 {
		t.Errorf("others took %v of the machine", o)
	}
	if o := (load{}).others(after); o != nil {
		t.Errorf("others took %v of a machine that was not seen", *o)
	}
}
